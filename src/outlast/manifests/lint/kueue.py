"""Kueue's chain: an object names a LocalQueue, that a ClusterQueue, that its flavors and checks.

Pure. What no file defines may well be in the cluster, so that nothing follows from its absence
alone.
"""

from collections.abc import Iterator

from outlast.manifests.lint.nodes import Path, get
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.view import Manifest

GROUP = "kueue.x-k8s.io"
QUEUE_LABEL = f"{GROUP}/queue-name"
PROVISIONING_PREFIX = "provreq.kueue.x-k8s.io/"
_CRON_JOB = ("spec", "jobTemplate")
# Kueue queues the Pods of these one by one, and reads what stands on the Pods.
POD_BY_POD_KINDS = frozenset(
    ("Pod", "Deployment", "StatefulSet", "ReplicaSet", "LeaderWorkerSet", "PodTemplate")
)


def queue_label_at(manifest: Manifest) -> Path:
    """Where the label stands that hands an object to Kueue."""
    job = _CRON_JOB if manifest.kind == "CronJob" else ()
    return (*job, "metadata", "labels", QUEUE_LABEL)


def queue_of(manifest: Manifest) -> str | None:
    """The LocalQueue that an object is handed to; None if it is not for Kueue."""
    if manifest.kind == "LocalQueue" or manifest.group == GROUP:
        return None
    return manifest.text(*queue_label_at(manifest)) or None


def queued(review: Review) -> Iterator[tuple[Manifest, str]]:
    """The objects that are handed to Kueue, each with its LocalQueue."""
    for manifest in review.manifests:
        name = queue_of(manifest)
        if name is not None and not manifest.is_patch:
            yield manifest, name


def of_kueue(review: Review, kind: str) -> list[Manifest]:
    return list(review.of_kind(kind, group=GROUP))


def references(manifest: Manifest) -> Iterator[tuple[Path, str, str]]:
    """What an object of Kueue needs: the path of a reference, and the kind and name it gives."""
    match manifest.kind:
        case "LocalQueue":
            yield from _at(manifest, "ClusterQueue", ("spec", "clusterQueue"))
        case "ClusterQueue":
            for group, entry in manifest.mappings("spec", "resourceGroups"):
                for index in range(len(_listed(entry, "flavors"))):
                    at: Path = ("spec", "resourceGroups", group, "flavors", index, "name")
                    yield from _at(manifest, "ResourceFlavor", at)
            for index, _ in enumerate(manifest.listed("spec", "admissionChecks")):
                yield from _at(manifest, "AdmissionCheck", ("spec", "admissionChecks", index))
            strategy = ("spec", "admissionChecksStrategy", "admissionChecks")
            for index, _ in manifest.mappings(*strategy):
                yield from _at(manifest, "AdmissionCheck", (*strategy, index, "name"))
        case "AdmissionCheck":
            kind = manifest.text("spec", "parameters", "kind")
            if kind in ("ProvisioningRequestConfig", "MultiKueueConfig"):
                yield from _at(manifest, kind, ("spec", "parameters", "name"))


def _at(manifest: Manifest, kind: str, path: Path) -> Iterator[tuple[Path, str, str]]:
    name = manifest.text(*path)
    if name:
        yield path, kind, name


def _listed(entry: object, key: str) -> list[object]:
    found = get(entry, (key,))
    return found if isinstance(found, list) else []
