"""Checkpoints go to a volume that is lost with the Pod or its node.

Why: emptyDir, hostPath and local SSD are parts of the node. After an eviction the Pod starts on
another one, finds an empty folder, and the work starts at zero.
Instead: save to an object store (gs://bucket/run), or mount a claim of network storage or a bucket
at that folder.
"""

from collections.abc import Iterator

from outlast.manifests.lint.durability import loss_of
from outlast.manifests.lint.pod import Container, Pod, Volume
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault
from outlast.manifests.rules.checkpoint_off_volume import CHECKPOINT_VARIABLE, checkpoint_folders

_HOSTNAME_LABEL = "kubernetes.io/hostname"


@pod_rule("OL402", Severity.ERROR)
def checkpoint_on_node(pod: Pod, review: Review) -> Iterator[Fault]:
    # What an agent notes about its node belongs to the node.
    if pod.owner_kind == "DaemonSet" or _stays_on_one_node(pod):
        return
    for container in pod.containers:
        lost = list(_lost_folders(container, review))
        # Beside a place that stays, the one on the node is the fast copy.
        if _has_other_place(container, {name for name, _, _ in lost}):
            continue
        for name, folder, reason in lost:
            yield container.fault(
                f"{name} is {folder!r}, and {reason}: after an eviction there is nothing to "
                "resume from.",
                at=container.variables[name].at,
            )


def _lost_folders(container: Container, review: Review) -> Iterator[tuple[str, str, str]]:
    """The variables for checkpoints whose folder is lost, with the folder and the reason."""
    for name, folder in checkpoint_folders(container):
        mount = container.mount_of(folder)
        volume = container.pod.volumes.get(mount.volume) if mount is not None else None
        reason = loss_of(volume, container.pod, review) if volume is not None else None
        if volume is not None and reason and not _is_shared(volume, container):
            yield name, folder, reason


def _has_other_place(container: Container, lost: set[str]) -> bool:
    """Whether checkpoints go to a place that is neither lost with the node nor on no volume."""
    off_volume = {
        name for name, folder in checkpoint_folders(container) if container.mount_of(folder) is None
    }
    return any(
        CHECKPOINT_VARIABLE.fullmatch(name) and name not in lost | off_volume
        for name in container.variables
    )


def _is_shared(volume: Volume, container: Container) -> bool:
    """Whether another container sees the volume: it may well carry the checkpoints away."""
    return any(
        mount.volume == volume.name
        for other in container.pod.all_containers
        # An init container that ends before the work begins carries nothing away.
        if other is not container and (not other.is_init or other.is_sidecar)
        for mount in other.mounts
    )


def _stays_on_one_node(pod: Pod) -> bool:
    asked = {requirement.key for term in pod.demand.alternatives for requirement in term}
    return _HOSTNAME_LABEL in asked or pod.text("spec", "nodeName") is not None
