"""Several Pods share a claim that only one node may mount.

Why: ReadWriteOnce lets one node mount the disk, ReadWriteOncePod one Pod. The Pods on other nodes
wait in ContainerCreating, and a Job whose Pods start together never gets going.
Instead: use a claim with ReadWriteMany (Filestore) or a bucket, save to an object store, or give
each Pod a claim of its own.
"""

from collections.abc import Iterator

from outlast.manifests.lint.counting import pods_at_once
from outlast.manifests.lint.pod import Pod, Volume
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault, Manifest

_ONCE = frozenset(("ReadWriteOnce", "ReadWriteOncePod"))
_HOSTNAME = "kubernetes.io/hostname"
_SHAREABLE = frozenset(
    f"{name}.csi.storage.gke.io" for name in ("filestore", "gcsfuse", "lustre", "parallelstore")
)


@pod_rule("OL405", Severity.WARNING)
def claim_shared_once(pod: Pod, review: Review) -> Iterator[Fault]:
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
                f"{count.pods} Pods run at once and share the claim {claim.name!r}, which is "
                f"{' and '.join(sorted(modes))}: only one node can mount it.",
                at=(*volume.at, "persistentVolumeClaim", "claimName"),
            )


def _claim_of(volume: Volume, pod: Pod, review: Review) -> Manifest | None:
    name = volume.data.get("claimName")
    if volume.kind != "persistentVolumeClaim" or not isinstance(name, str):
        return None
    return review.find("PersistentVolumeClaim", name, near=pod.manifest)


def _is_shareable(claim: Manifest, review: Review) -> bool:
    """Whether a file server or a bucket is behind it, where nobody enforces the mode."""
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
    """Whether all its Pods are sent to one node, where they may share a disk."""
    asked = {requirement.key for term in pod.demand.alternatives for requirement in term}
    if _HOSTNAME in asked or pod.text("spec", "nodeName") is not None:
        return True
    together = ("spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    return any(term.get("topologyKey") == _HOSTNAME for _, term in pod.mappings(*together))
