"""A Pod mounts a bucket without the required annotation.

Why: GKE adds the Cloud Storage FUSE sidecar only to Pods with the annotation gke-gcsfuse/volumes:
"true". The annotation has to be on the Pod itself; on the Job, the Deployment or another owner it
has no effect. Without the sidecar the volume cannot be mounted, and the Pod never starts.
Instead: add the annotation to metadata.annotations of the Pod template.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    FUSE_ANNOTATION,
    FUSE_SIDECAR,
    Change,
    Fault,
    Path,
    Pod,
    Put,
    Review,
    Severity,
    fuse_volumes,
    pod_rule,
)

_YES = ("true", "True")


@pod_rule("OL404", Severity.ERROR)
def fuse_without_annotation(pod: Pod, review: Review) -> Iterator[Fault]:
    volume = next(fuse_volumes(pod, review), None)
    given = pod.get("metadata", "annotations", FUSE_ANNOTATION)
    # A value that is not a string violates the schema, which another rule reports.
    if volume is None or volume.at is None or (given is not None and not isinstance(given, str)):
        return
    if given in _YES or any(one.name == FUSE_SIDECAR for one in pod.all_containers):
        return
    if given is not None:
        yield pod.fault(
            f"{FUSE_ANNOTATION} is {given!r}, so the bucket of volume {volume.name!r} cannot be "
            "mounted.",
            at=("metadata", "annotations", FUSE_ANNOTATION),
        )
        return
    fix = pod.fix("Annotate the Pod", _annotation(pod), is_safe=True)
    misplaced = _misplaced(pod)
    if misplaced is not None:
        yield pod.manifest.fault(
            f"{FUSE_ANNOTATION} is set on the {pod.owner_kind}, where it has no effect, instead of "
            f"on the Pod that mounts the bucket of volume {volume.name!r}.",
            at=misplaced,
            of_key=True,
            fix=fix,
        )
    # A Kustomization may add what its base does not set.
    elif not pod.manifest.is_base:
        yield pod.fault(
            f"Volume {volume.name!r} is a bucket, but the Pod does not have the annotation "
            f"{FUSE_ANNOTATION}, so it never starts.",
            at=volume.at,
            fix=fix,
        )


def _misplaced(pod: Pod) -> Path | None:
    """The path of the annotation on an owner of the Pod; None if there is none."""
    owners: list[Path] = [()]
    if pod.job is not None:
        owners.append(pod.job.path)
    for path in owners:
        if pod.manifest.get(*path, "metadata", "annotations", FUSE_ANNOTATION) is not None:
            return (*path, "metadata", "annotations", FUSE_ANNOTATION)
    return None


def _annotation(pod: Pod) -> Change:
    if pod.mapping("metadata", "annotations"):
        return Put(("metadata", "annotations", FUSE_ANNOTATION), "true")
    if pod.mapping("metadata"):
        return Put(("metadata", "annotations"), {FUSE_ANNOTATION: "true"})
    return Put(("metadata",), {"annotations": {FUSE_ANNOTATION: "true"}})
