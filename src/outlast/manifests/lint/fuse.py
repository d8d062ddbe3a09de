"""Buckets that a Pod mounts by Cloud Storage FUSE."""

from collections.abc import Iterator

from outlast.manifests.lint.pod import Pod, Volume
from outlast.manifests.lint.review import Review

FUSE_DRIVER = "gcsfuse.csi.storage.gke.io"
FUSE_ANNOTATION = "gke-gcsfuse/volumes"
FUSE_SIDECAR = "gke-gcsfuse-sidecar"


def fuse_volumes(pod: Pod, review: Review) -> Iterator[Volume]:
    """The volumes of a Pod that are buckets: by the driver itself, or by a claim in the files."""
    for volume in pod.volumes.values():
        is_inline = volume.kind == "csi" and volume.data.get("driver") == FUSE_DRIVER
        if is_inline or _is_fuse_claim(volume, pod, review):
            yield volume


def _is_fuse_claim(volume: Volume, pod: Pod, review: Review) -> bool:
    name = volume.data.get("claimName")
    if volume.kind != "persistentVolumeClaim" or not isinstance(name, str):
        return False
    claim = review.find("PersistentVolumeClaim", name, near=pod.manifest)
    if claim is None:
        return False
    disk, storage_class = claim.text("spec", "volumeName"), claim.text("spec", "storageClassName")
    return any(
        one.text("spec", "csi", "driver") == FUSE_DRIVER
        for one in review.of_kind("PersistentVolume")
        if one.name == disk or one.text("spec", "claimRef", "name") == name
    ) or any(
        one.text("provisioner") == FUSE_DRIVER
        for one in review.of_kind("StorageClass")
        if one.name == storage_class
    )
