"""What of a Pod's storage is left when its node is gone.

Three answers: a volume goes with the Pod or its node, it stays, or nothing is written to it. What a
claim stands for is known only where the files say so; a claim that no file defines is taken to
stay, because nearly all do.
"""

import re
from collections.abc import Iterator
from enum import StrEnum

from outlast.manifests.lint.nodes import get
from outlast.manifests.lint.pod import Container, Pod, Volume
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.view import Manifest

_WITH_THE_POD = {
    "emptyDir": "emptyDir goes with the Pod",
    "ephemeral": "an ephemeral claim goes with the Pod",
    "hostPath": "hostPath is the disk of one node",
}
_WRITTEN_BY_NOBODY = ("configMap", "downwardAPI", "gitRepo", "image", "projected", "secret")
_NOT_PROVISIONED = "kubernetes.io/no-provisioner"
_ADDRESS = re.compile(r"(?<![a-z0-9+.-])(?!file:)[a-z][a-z0-9+.-]{0,30}://", re.IGNORECASE)


class Fate(StrEnum):
    """What becomes of a volume's content when the node is gone."""

    GONE = "gone"
    STAYS = "stays"
    READ_ONLY = "read-only"


def fate_of(volume: Volume, pod: Pod, review: Review) -> Fate:
    if loss_of(volume, pod, review) is not None:
        return Fate.GONE
    is_read_only = volume.kind in _WRITTEN_BY_NOBODY or volume.data.get("readOnly") is True
    return Fate.READ_ONLY if is_read_only else Fate.STAYS


def loss_of(volume: Volume, pod: Pod, review: Review) -> str | None:
    """Why a volume's content is lost with the Pod or its node; None if it is not."""
    if volume.kind == "emptyDir" and volume.data.get("medium") == "Memory":
        return "this emptyDir is memory of the node"
    if volume.kind in _WITH_THE_POD:
        return _WITH_THE_POD[volume.kind]
    if any(_is_local(one) for one in _behind(volume, pod, review)):
        return "its claim is for a disk of one node"
    return None


def may_reach_store(pod: Pod, review: Review) -> bool:
    """Whether something in a Pod may hold what it writes beyond the life of the node.

    An address, a value from elsewhere or a service account may lead to a store, so each counts.
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
        # A mounted configuration may name a store.
        if volume.kind in ("configMap", "projected", "secret"):
            return True
        if not mount.is_read_only and fate_of(volume, pod, review) is Fate.STAYS:
            return True
    return False


def _behind(volume: Volume, pod: Pod, review: Review) -> Iterator[Manifest]:
    """The claim, its class and its disk, as far as they are in the files."""
    name = volume.data.get("claimName")
    storage_class = get(volume.data, ("spec", "storageClassName"))
    if volume.kind == "persistentVolumeClaim" and isinstance(name, str):
        claim = review.find("PersistentVolumeClaim", name, near=pod.manifest)
        if claim is not None:
            storage_class = claim.text("spec", "storageClassName")
            yield from _named(review, "PersistentVolume", claim.text("spec", "volumeName"))
    yield from _named(review, "StorageClass", storage_class)


def _named(review: Review, kind: str, name: object) -> Iterator[Manifest]:
    return (one for one in review.of_kind(kind) if name and one.name == name)


def _is_local(manifest: Manifest) -> bool:
    if manifest.kind == "StorageClass":
        return manifest.text("provisioner") == _NOT_PROVISIONED
    return bool({"hostPath", "local"} & manifest.mapping("spec").keys())
