"""A Pod mounts a bucket, but its template lacks the annotation for it.

Why: the annotation gke-gcsfuse/volumes: "true" tells GKE to add the FUSE sidecar to the Pod. It
counts on the Pod alone: on the Job, the Deployment or another object around it, it does nothing.
Without the sidecar the volume cannot be mounted, and the Pod never starts.
Instead: put the annotation into metadata.annotations of the Pod template.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Change, Put
from outlast.manifests.lint.fuse import FUSE_ANNOTATION, FUSE_SIDECAR, fuse_volumes
from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

_YES = ("true", "True")


@pod_rule("OL404", Severity.ERROR)
def fuse_without_annotation(pod: Pod, review: Review) -> Iterator[Fault]:
    volume = next(fuse_volumes(pod, review), None)
    given = pod.get("metadata", "annotations", FUSE_ANNOTATION)
    # A value that is no text is the schema's business.
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
            f"{FUSE_ANNOTATION} stands on the {pod.owner_kind}, where nothing reads it; the Pod "
            f"that mounts the bucket of volume {volume.name!r} lacks it.",
            at=misplaced,
            of_key=True,
            fix=fix,
        )
    # What is missing in a base may be added by its Kustomization.
    elif not pod.manifest.is_base:
        yield pod.fault(
            f"The volume {volume.name!r} is a bucket, and the Pod lacks the annotation "
            f"{FUSE_ANNOTATION}: it never starts.",
            at=volume.at,
            fix=fix,
        )


def _misplaced(pod: Pod) -> Path | None:
    """Where the annotation stands instead, on what is around the Pod."""
    around: list[Path] = [()]
    if pod.job is not None:
        around.append(pod.job.path)
    for path in around:
        if pod.manifest.get(*path, "metadata", "annotations", FUSE_ANNOTATION) is not None:
            return (*path, "metadata", "annotations", FUSE_ANNOTATION)
    return None


def _annotation(pod: Pod) -> Change:
    if pod.mapping("metadata", "annotations"):
        return Put(("metadata", "annotations", FUSE_ANNOTATION), "true")
    if pod.mapping("metadata"):
        return Put(("metadata", "annotations"), {FUSE_ANNOTATION: "true"})
    return Put(("metadata",), {"annotations": {FUSE_ANNOTATION: "true"}})
