"""Where the Pod templates stand in each kind of object.

A new kind is one row. `EACH` stands for every item of a list or every value of a mapping.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from outlast.manifests.lint.nodes import Path, get

EACH = "*"

Pattern = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Slot:
    """A place for Pod templates. `job` is where the Job around it stands, if one is."""

    template: Pattern
    job: Pattern | None = None
    role: str = ""


def _ray(*cluster: str) -> tuple[Slot, ...]:
    return (
        Slot(template=(*cluster, "headGroupSpec", "template"), role="head"),
        Slot(template=(*cluster, "workerGroupSpecs", EACH, "template"), role="worker"),
    )


def _kubeflow(replicas: str) -> tuple[Slot, ...]:
    return tuple(
        Slot(template=("spec", replicas, name, "template"), role=name.lower())
        for name in ("Launcher", "Master", "Chief", "PS", "Worker", "Evaluator")
    )


_PLAIN = (Slot(template=("spec", "template")),)
_JOB = (Slot(template=("spec", "template"), job=()),)

SLOTS: dict[tuple[str, str], tuple[Slot, ...]] = {
    ("", "Pod"): (Slot(template=()),),
    ("", "PodTemplate"): (Slot(template=("template",)),),
    ("", "ReplicationController"): _PLAIN,
    ("apps", "DaemonSet"): _PLAIN,
    ("apps", "Deployment"): _PLAIN,
    ("apps", "ReplicaSet"): _PLAIN,
    ("apps", "StatefulSet"): _PLAIN,
    ("argoproj.io", "Rollout"): _PLAIN,
    ("batch", "CronJob"): (
        Slot(template=("spec", "jobTemplate", "spec", "template"), job=("spec", "jobTemplate")),
    ),
    ("batch", "Job"): _JOB,
    ("batch.volcano.sh", "Job"): (Slot(template=("spec", "tasks", EACH, "template")),),
    ("jobset.x-k8s.io", "JobSet"): (
        Slot(
            template=("spec", "replicatedJobs", EACH, "template", "spec", "template"),
            job=("spec", "replicatedJobs", EACH, "template"),
        ),
    ),
    ("kubeflow.org", "JAXJob"): _kubeflow("jaxReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): _kubeflow("mpiReplicaSpecs"),
    ("kubeflow.org", "PyTorchJob"): _kubeflow("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _kubeflow("tfReplicaSpecs"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        Slot(template=("spec", "leaderWorkerTemplate", "leaderTemplate"), role="leader"),
        Slot(template=("spec", "leaderWorkerTemplate", "workerTemplate"), role="worker"),
    ),
    ("ray.io", "RayCluster"): _ray("spec"),
    ("ray.io", "RayJob"): (
        *_ray("spec", "rayClusterSpec"),
        Slot(template=("spec", "submitterPodTemplate"), role="submitter"),
    ),
    ("ray.io", "RayService"): _ray("spec", "rayClusterConfig"),
}


def expand(root: Any, pattern: Pattern) -> Iterator[Path]:
    """The paths in `root` that the pattern stands for and that exist."""
    paths: list[Path] = [()]
    for part in pattern:
        longer: list[Path] = []
        for path in paths:
            node = get(root, path)
            if part != EACH:
                longer += [(*path, part)] if isinstance(node, dict) and part in node else []
            elif isinstance(node, dict):
                longer += [(*path, key) for key in node]
            elif isinstance(node, list):
                longer += [(*path, index) for index in range(len(node))]
        paths = longer
    return iter(paths)
