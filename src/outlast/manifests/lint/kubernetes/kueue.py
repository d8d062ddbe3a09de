"""Kueue's references: from an object to its LocalQueue, ClusterQueue, flavors and checks.

Pure. An object that no file defines may exist in the cluster, so its absence alone proves nothing.
"""

from collections.abc import Iterator

from outlast.manifests.conventions import KUEUE_GROUP, QUEUE_LABEL
from outlast.manifests.lint.kubernetes.review import Review
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.nodes import Path, get

_CRON_JOB = ("spec", "jobTemplate")
# Kueue queues the Pods of these one by one, and reads the labels of the Pods.
POD_BY_POD_KINDS = frozenset(
    ("Pod", "Deployment", "StatefulSet", "ReplicaSet", "LeaderWorkerSet", "PodTemplate")
)


def queue_label_at(manifest: KubernetesObject) -> Path:
    """The path of the label that submits an object to Kueue."""
    job = _CRON_JOB if manifest.kind == "CronJob" else ()
    return (*job, "metadata", "labels", QUEUE_LABEL)


def queue_of(manifest: KubernetesObject) -> str | None:
    """The LocalQueue that an object is submitted to, None if it does not use Kueue."""
    if manifest.kind == "LocalQueue" or manifest.group == KUEUE_GROUP:
        return None
    return manifest.text(*queue_label_at(manifest)) or None


def queued_objects(review: Review) -> Iterator[tuple[KubernetesObject, str]]:
    """The objects that are submitted to Kueue, each with its LocalQueue."""
    for manifest in review.manifests:
        name = queue_of(manifest)
        if name is not None and not manifest.is_patch:
            yield manifest, name


def kueue_objects(review: Review, kind: str) -> list[KubernetesObject]:
    return list(review.of_kind(kind, group=KUEUE_GROUP))


def kueue_references(manifest: KubernetesObject) -> Iterator[tuple[Path, str, str]]:
    """The references of a Kueue object: the path, and the kind and name it refers to."""
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


def _at(manifest: KubernetesObject, kind: str, path: Path) -> Iterator[tuple[Path, str, str]]:
    name = manifest.text(*path)
    if name:
        yield path, kind, name


def _listed(entry: object, key: str) -> list[object]:
    found = get(entry, (key,))
    return found if isinstance(found, list) else []
