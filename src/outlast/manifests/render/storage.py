"""Volumes for checkpoints, shared memory and scratch space, and the claim for checkpoints."""

from outlast.capacity.vocabulary import AccessMode, StorageKind
from outlast.capacity.workload.addresses import bucket_of
from outlast.manifests.conventions import FUSE_DRIVER
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.manifests.render.resources import size_quantity
from outlast.manifests.render.security import is_restricted, scratch_folders, user_of
from outlast.manifests.render.variables import FUSE_MOUNT
from outlast.yamltext.writing import Commented, Value

_DEFAULT_CLASSES = {
    AccessMode.READ_WRITE_ONCE: "standard-rwo",
    AccessMode.READ_WRITE_MANY: "standard-rwx",
}
_CHECKPOINTS = "checkpoints"
_SHARED_MEMORY = "shared-memory"
_SHARED_MEMORY_PATH = "/dev/shm"


def claim_name(resolved: ResolvedWorkload) -> str | None:
    if (
        resolved.workload.checkpoint is None
        or resolved.workload.storage_kind is not StorageKind.CLAIM
    ):
        return None
    return resolved.workload.storage.claim or f"{resolved.name}-checkpoints"


def volumes(resolved: ResolvedWorkload) -> list[Value]:
    listed: list[Value] = []
    checkpoint, claim = resolved.workload.checkpoint, claim_name(resolved)
    if resolved.uses_fuse and checkpoint is not None:
        attributes = {
            "bucketName": bucket_of(checkpoint.url).name,
            "mountOptions": _mount_options(resolved),
        }
        listed.append(
            {"name": _CHECKPOINTS, "csi": {"driver": FUSE_DRIVER, "volumeAttributes": attributes}}
        )
    if claim is not None:
        listed.append({"name": _CHECKPOINTS, "persistentVolumeClaim": {"claimName": claim}})
    if resolved.workload.resources.shared_memory is not None:
        size = size_quantity(resolved.workload.resources.shared_memory)
        listed.append({"name": _SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": size}})
    taken = _paths(resolved)
    listed += [
        {"name": name, "emptyDir": {}}
        for name, path in scratch_folders(resolved).items()
        if path not in taken
    ]
    return listed


def mounts(resolved: ResolvedWorkload) -> list[Value]:
    listed: list[Value] = []
    if (path := _checkpoint_path(resolved)) is not None:
        listed.append({"name": _CHECKPOINTS, "mountPath": path})
    if resolved.workload.resources.shared_memory is not None:
        reason = "The default of 64 MiB is too small for data loader workers."
        listed.append({"name": _SHARED_MEMORY, "mountPath": Commented(_SHARED_MEMORY_PATH, reason)})
    taken = _paths(resolved)
    listed += [
        {"name": name, "mountPath": path}
        for name, path in scratch_folders(resolved).items()
        if path not in taken
    ]
    return listed


def _paths(resolved: ResolvedWorkload) -> set[str | None]:
    """The paths that are already mounted, where no scratch folder may go."""
    shared_memory = resolved.workload.resources.shared_memory
    return {_checkpoint_path(resolved), _SHARED_MEMORY_PATH if shared_memory else None}


def _checkpoint_path(resolved: ResolvedWorkload) -> str | None:
    if resolved.uses_fuse:
        return resolved.workload.storage.mount or FUSE_MOUNT
    if claim_name(resolved) is not None:
        assert resolved.workload.checkpoint is not None
        own = resolved.workload.checkpoint.url.removeprefix("file://").rstrip("/")
        return resolved.workload.storage.mount or own
    return None


def _mount_options(resolved: ResolvedWorkload) -> str:
    options = ["implicit-dirs"]
    assert resolved.workload.checkpoint is not None
    if folder := bucket_of(resolved.workload.checkpoint.url).folder:
        # setup/access.sh grants access to this folder only.
        options.append(f"only-dir={folder}")
    if is_restricted(resolved):
        # The mount is owned by one user. The driver sets the group from the Pod's fsGroup.
        options.append(f"uid={user_of(resolved)}")
    return ",".join(options)


def claim_file(resolved: ResolvedWorkload) -> RenderedFile | None:
    """The claim, unless the workload names an existing one."""
    name, storage = claim_name(resolved), resolved.workload.storage
    if name is None or storage.claim is not None:
        return None
    body: Value = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": resolved.namespace, "labels": resolved.labels},
        "spec": {
            "accessModes": Commented([str(storage.access)], _access_reason(storage.access)),
            "storageClassName": storage.storage_class or _DEFAULT_CLASSES[storage.access],
            "resources": {"requests": {"storage": size_quantity(storage.size)}},
        },
    }
    reason = "Network storage: unlike emptyDir and local SSD, it survives the loss of the node."
    return manifest("30-persistent-volume-claim.yaml", body, reason=reason)


def _access_reason(access: AccessMode) -> str:
    if access is AccessMode.READ_WRITE_MANY:
        return "Pods on several nodes write at the same time."
    return "One node at a time. The disk is in one zone, so the Pod waits for a node in that zone."
