"""Several Pods share a claim that only one node can mount.

Why: ReadWriteOnce lets a single node mount the disk, and ReadWriteOncePod a single Pod. Pods on
other nodes stay in ContainerCreating, and a Job whose Pods must start together never starts.
Instead: use a ReadWriteMany claim (Filestore) or a bucket, save to an object store, or give each
Pod its own claim.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    KubernetesObject,
    Pod,
    Review,
    Severity,
    Volume,
    pod_rule,
    pods_at_once,
)

_ONCE = frozenset(("ReadWriteOnce", "ReadWriteOncePod"))
_HOSTNAME = "kubernetes.io/hostname"
_SHAREABLE = frozenset(
    f"{name}.csi.storage.gke.io" for name in ("filestore", "gcsfuse", "lustre", "parallelstore")
)


@pod_rule("OL405", Severity.WARNING)
def shared_rwo_claim(pod: Pod, review: Review) -> Iterator[Fault]:
    count = pods_at_once(pod)
    if count is None or count.pods < 2 or _share_a_node(pod):
        return
    for volume in pod.volumes.values():
        claim = _claim_of(volume, pod, review)
        if claim is None or volume.at is None:
            continue
        modes = {mode for mode in claim.listed("spec", "accessModes") if isinstance(mode, str)}
        if modes and modes <= _ONCE and not _is_shareable(claim, review):
            yield pod.fault(
                f"{count.pods} Pods run at once and share the claim {claim.name!r}, but its access "
                f"mode is {' and '.join(sorted(modes))}: only one node can mount it.",
                at=(*volume.at, "persistentVolumeClaim", "claimName"),
            )


def _claim_of(volume: Volume, pod: Pod, review: Review) -> KubernetesObject | None:
    name = volume.data.get("claimName")
    if volume.kind != "persistentVolumeClaim" or not isinstance(name, str):
        return None
    return review.find("PersistentVolumeClaim", name, near=pod.manifest)


def _is_shareable(claim: KubernetesObject, review: Review) -> bool:
    """Whether it is backed by a file server or a bucket, where the mode is not enforced."""
    disk, storage_class = claim.text("spec", "volumeName"), claim.text("spec", "storageClassName")
    return any(
        "nfs" in one.mapping("spec") or one.text("spec", "csi", "driver") in _SHAREABLE
        for one in review.of_kind("PersistentVolume")
        if one.name == disk
    ) or any(
        one.text("provisioner") in _SHAREABLE
        for one in review.of_kind("StorageClass")
        if one.name == storage_class
    )


def _share_a_node(pod: Pod) -> bool:
    """Whether all its Pods run on one node, where they can share a disk."""
    asked = {requirement.key for term in pod.demand.alternatives for requirement in term}
    if _HOSTNAME in asked or pod.text("spec", "nodeName") is not None:
        return True
    together = ("spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return any(term.get("topologyKey") == _HOSTNAME for _, term in pod.mappings(*together))
