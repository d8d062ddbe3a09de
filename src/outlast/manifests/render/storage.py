"""Volumes for checkpoints and shared memory, and the claim where one is made."""

from outlast.capacity.addresses import bucket_of
from outlast.capacity.vocabulary import AccessMode, StorageKind
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value, Why
from outlast.manifests.render.variables import FUSE_MOUNT

_DEFAULT_CLASSES = {
    AccessMode.READ_WRITE_ONCE: "standard-rwo",
    AccessMode.READ_WRITE_MANY: "standard-rwx",
}
_CHECKPOINTS = "checkpoints"
_SHARED_MEMORY = "shared-memory"


def claim_name(settled: Settled) -> str | None:
    if (
        settled.workload.checkpoint is None
        or settled.workload.storage_kind is not StorageKind.CLAIM
    ):
        return None
    return settled.workload.storage.claim or f"{settled.name}-checkpoints"


def volumes(settled: Settled) -> list[Value]:
    listed: list[Value] = []
    checkpoint, claim = settled.workload.checkpoint, claim_name(settled)
    if settled.uses_fuse and checkpoint is not None:
        attributes = {
            "bucketName": bucket_of(checkpoint.url).name,
            "mountOptions": "implicit-dirs",
        }
        driver = "gcsfuse.csi.storage.gke.io"
        listed.append(
            {"name": _CHECKPOINTS, "csi": {"driver": driver, "volumeAttributes": attributes}}
        )
    if claim is not None:
        listed.append({"name": _CHECKPOINTS, "persistentVolumeClaim": {"claimName": claim}})
    if settled.workload.resources.shared_memory is not None:
        size = quantity(settled.workload.resources.shared_memory)
        listed.append({"name": _SHARED_MEMORY, "emptyDir": {"medium": "Memory", "sizeLimit": size}})
    return listed


def mounts(settled: Settled) -> list[Value]:
    listed: list[Value] = []
    if settled.uses_fuse:
        path = settled.workload.storage.mount or FUSE_MOUNT
        listed.append({"name": _CHECKPOINTS, "mountPath": path})
    if claim_name(settled) is not None:
        assert settled.workload.checkpoint is not None
        own = settled.workload.checkpoint.url.removeprefix("file://").rstrip("/")
        path = settled.workload.storage.mount or own
        listed.append({"name": _CHECKPOINTS, "mountPath": path})
    if settled.workload.resources.shared_memory is not None:
        reason = "The 64 MiB that a container gets are too few for the workers of a data loader."
        listed.append({"name": _SHARED_MEMORY, "mountPath": Why("/dev/shm", reason)})
    return listed


def claim_file(settled: Settled) -> RenderedFile | None:
    """The claim, unless the workload names one that exists."""
    name, storage = claim_name(settled), settled.workload.storage
    if name is None or storage.claim is not None:
        return None
    body: Value = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": settled.namespace, "labels": settled.labels},
        "spec": {
            "accessModes": Why([str(storage.access)], _access_reason(storage.access)),
            "storageClassName": storage.storage_class or _DEFAULT_CLASSES[storage.access],
            "resources": {"requests": {"storage": quantity(storage.size)}},
        },
    }
    reason = "Network storage: it stays when the node goes, which emptyDir and local SSD do not."
    return manifest("30-persistent-volume-claim.yaml", body, reason=reason)


def quantity(size_bytes: int) -> str:
    """A size as Kubernetes writes it, exactly."""
    for power, unit in ((4, "Ti"), (3, "Gi"), (2, "Mi"), (1, "Ki")):
        if size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{unit}"
    return str(size_bytes)


def _access_reason(access: AccessMode) -> str:
    if access is AccessMode.READ_WRITE_MANY:
        return "Several Pods on several nodes write at the same time."
    return (
        "One node at a time. The disk lives in one zone, so the Pod waits for a node in that zone."
    )
