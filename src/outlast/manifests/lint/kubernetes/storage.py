"""Which volumes of a Pod survive the loss of its node, and which are Cloud Storage FUSE buckets.

A volume is lost with the Pod or its node, it stays, or it is read-only. A claim that no file
defines is assumed to stay, because nearly all do.
"""

import re
from collections.abc import Iterator
from enum import StrEnum

from outlast.manifests.conventions import FUSE_DRIVER
from outlast.manifests.lint.kubernetes.pod import Container, Pod, Volume
from outlast.manifests.lint.kubernetes.review import Review
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.nodes import get

_WITH_THE_POD = {
    "emptyDir": "an emptyDir is deleted with the Pod",
    "ephemeral": "an ephemeral claim is deleted with the Pod",
    "hostPath": "a hostPath is on the disk of one node",
}
_WRITTEN_BY_NOBODY = ("configMap", "downwardAPI", "gitRepo", "image", "projected", "secret")
_NOT_PROVISIONED = "kubernetes.io/no-provisioner"
_ADDRESS = re.compile(r"(?<![a-z0-9+.-])(?!file:)[a-z][a-z0-9+.-]{0,30}://", re.IGNORECASE)
FUSE_SIDECAR = "gke-gcsfuse-sidecar"


class VolumeFate(StrEnum):
    """What happens to the content of a volume when the node is gone."""

    GONE = "gone"
    STAYS = "stays"
    READ_ONLY = "read-only"


def fate_of(volume: Volume, pod: Pod, review: Review) -> VolumeFate:
    if loss_of(volume, pod, review) is not None:
        return VolumeFate.GONE
    is_read_only = volume.kind in _WRITTEN_BY_NOBODY or volume.data.get("readOnly") is True
    return VolumeFate.READ_ONLY if is_read_only else VolumeFate.STAYS


def loss_of(volume: Volume, pod: Pod, review: Review) -> str | None:
    """Why the content of a volume is lost with the Pod or its node, None if it is not."""
    if volume.kind == "emptyDir" and volume.data.get("medium") == "Memory":
        return "this emptyDir is in the memory of the node"
    if volume.kind in _WITH_THE_POD:
        return _WITH_THE_POD[volume.kind]
    if any(_is_local(one) for one in _behind(volume, pod, review)):
        return "its claim is on a local disk of one node"
    return None


def may_reach_store(pod: Pod, review: Review) -> bool:
    """Whether a Pod may be able to write to storage that survives the node.

    A URL, a value from a Secret or ConfigMap, or a service account may lead to such storage.
    """
    account = pod.text("spec", "serviceAccountName") or pod.text("spec", "serviceAccount")
    if account not in (None, "default"):
        return True
    return any(
        _has_clue(container) or _has_store(container, pod, review)
        for container in pod.all_containers
    )


def _has_clue(container: Container) -> bool:
    if container.listed("envFrom") or any(map(_ADDRESS.search, container.words)):
        return True
    for _, item in container.mappings("env"):
        value, source = item.get("value"), item.get("valueFrom")
        if isinstance(value, str) and _ADDRESS.search(value):
            return True
        if isinstance(source, dict) and ("secretKeyRef" in source or "configMapKeyRef" in source):
            return True
    return False


def _has_store(container: Container, pod: Pod, review: Review) -> bool:
    for mount in container.mounts:
        volume = pod.volumes.get(mount.volume)
        if volume is None:
            return True
        # A mounted configuration may contain a URL.
        if volume.kind in ("configMap", "projected", "secret"):
            return True
        if not mount.is_read_only and fate_of(volume, pod, review) is VolumeFate.STAYS:
            return True
    return False


def _behind(volume: Volume, pod: Pod, review: Review) -> Iterator[KubernetesObject]:
    """The disk and the class of a claim, if they are in the files."""
    name = volume.data.get("claimName")
    storage_class = get(volume.data, ("spec", "storageClassName"))
    if volume.kind == "persistentVolumeClaim" and isinstance(name, str):
        claim = review.find("PersistentVolumeClaim", name, near=pod.manifest)
        if claim is not None:
            storage_class = claim.text("spec", "storageClassName")
            yield from _with_name(review, "PersistentVolume", claim.text("spec", "volumeName"))
    yield from _with_name(review, "StorageClass", storage_class)


def _with_name(review: Review, kind: str, name: object) -> Iterator[KubernetesObject]:
    return (one for one in review.of_kind(kind) if name and one.name == name)


def _is_local(manifest: KubernetesObject) -> bool:
    if manifest.kind == "StorageClass":
        return manifest.text("provisioner") == _NOT_PROVISIONED
    return bool({"hostPath", "local"} & manifest.mapping("spec").keys())


def fuse_volumes(pod: Pod, review: Review) -> Iterator[Volume]:
    """The volumes of a Pod that are buckets, mounted directly or through a claim in the files."""
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
