"""Checkpoints are saved to a volume that is lost with the Pod or its node.

Why: emptyDir, hostPath and local SSD volumes are stored on the node. After an eviction the Pod
starts on another node, finds an empty directory and starts over.
Instead: save to an object store (gs://bucket/run), or mount a bucket or a PersistentVolumeClaim for
network storage at that directory.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Container,
    Fault,
    Pod,
    Review,
    Severity,
    Volume,
    loss_of,
    pod_rule,
)
from outlast.manifests.rules.checkpoint_not_on_volume import CHECKPOINT_VARIABLE, checkpoint_folders

_HOSTNAME_LABEL = "kubernetes.io/hostname"


@pod_rule("OL402", Severity.ERROR)
def checkpoint_on_node(pod: Pod, review: Review) -> Iterator[Fault]:
    # What a node agent saves belongs to its node.
    if pod.owner_kind == "DaemonSet" or _stays_on_one_node(pod):
        return
    for container in pod.containers:
        lost = list(_lost_folders(container, review))
        # If another location is durable, the one on the node is a fast copy.
        if _has_other_place(container, {name for name, _, _ in lost}):
            continue
        for name, folder, reason in lost:
            yield container.fault(
                f"{name} is {folder!r}, but {reason}: after an eviction there is nothing to "
                "resume from.",
                at=container.variables[name].at,
            )


def _lost_folders(container: Container, review: Review) -> Iterator[tuple[str, str, str]]:
    """The variables whose checkpoint directory is lost, with the directory and the reason."""
    for name, folder in checkpoint_folders(container):
        mount = container.mount_of(folder)
        volume = container.pod.volumes.get(mount.volume) if mount is not None else None
        reason = loss_of(volume, container.pod, review) if volume is not None else None
        if volume is not None and reason and not _is_shared(volume, container):
            yield name, folder, reason


def _has_other_place(container: Container, lost: set[str]) -> bool:
    """Whether checkpoints are also saved to a location that survives the node."""
    off_volume = {
        name for name, folder in checkpoint_folders(container) if container.mount_of(folder) is None
    }
    return any(
        CHECKPOINT_VARIABLE.fullmatch(name) and name not in lost | off_volume
        for name in container.variables
    )


def _is_shared(volume: Volume, container: Container) -> bool:
    """Whether another container mounts the volume: it may copy the checkpoints elsewhere."""
    return any(
        mount.volume == volume.name
        for other in container.pod.all_containers
        # An init container ends before the work begins, so it cannot copy anything.
        if other is not container and (not other.is_init or other.is_sidecar)
        for mount in other.mounts
    )


def _stays_on_one_node(pod: Pod) -> bool:
    asked = {requirement.key for term in pod.demand.alternatives for requirement in term}
    return _HOSTNAME_LABEL in asked or pod.text("spec", "nodeName") is not None
