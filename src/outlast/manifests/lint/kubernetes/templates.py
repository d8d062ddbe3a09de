"""Where the Pod templates are in each kind of object.

A new kind is one row. `EACH` matches every item of a list or every value of a mapping.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from outlast.yamltext.nodes import Path, get

EACH = "*"

Pattern = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TemplateSlot:
    """The path of a Pod template. `job` is the path of the Job that contains it, if any.

    `is_partial`: something else completes it, or it has fields that Pods do not have.
    """

    template: Pattern
    job: Pattern | None = None
    role: str = ""
    is_partial: bool = False


def _ray(*cluster: str) -> tuple[TemplateSlot, ...]:
    return (
        TemplateSlot(template=(*cluster, "headGroupSpec", "template"), role="head"),
        TemplateSlot(template=(*cluster, "workerGroupSpecs", EACH, "template"), role="worker"),
    )


def _kubeflow(replicas: str) -> tuple[TemplateSlot, ...]:
    return tuple(
        TemplateSlot(template=("spec", replicas, name, "template"), role=name.lower())
        for name in ("Launcher", "Master", "Chief", "PS", "Worker", "Evaluator")
    )


_WORKFLOW = (TemplateSlot(template=("podTemplates", EACH), is_partial=True),)
_RUNTIME = ("spec", "template", "spec", "replicatedJobs", EACH, "template")
_TRAINING_RUNTIME = (
    TemplateSlot(template=(*_RUNTIME, "spec", "template"), job=_RUNTIME, is_partial=True),
)
_PLAIN = (TemplateSlot(template=("spec", "template")),)
_JOB = (TemplateSlot(template=("spec", "template"), job=()),)

SLOTS: dict[tuple[str, str], tuple[TemplateSlot, ...]] = {
    ("", "Pod"): (TemplateSlot(template=()),),
    ("", "PodTemplate"): (TemplateSlot(template=("template",)),),
    ("", "ReplicationController"): _PLAIN,
    ("apps", "DaemonSet"): _PLAIN,
    ("apps", "Deployment"): _PLAIN,
    ("apps", "ReplicaSet"): _PLAIN,
    ("apps", "StatefulSet"): _PLAIN,
    ("argoproj.io", "ClusterWorkflowTemplate"): _WORKFLOW,
    ("argoproj.io", "CronWorkflow"): _WORKFLOW,
    ("argoproj.io", "Rollout"): _PLAIN,
    ("argoproj.io", "Workflow"): _WORKFLOW,
    ("argoproj.io", "WorkflowTemplate"): _WORKFLOW,
    ("batch", "CronJob"): (
        TemplateSlot(
            template=("spec", "jobTemplate", "spec", "template"), job=("spec", "jobTemplate")
        ),
    ),
    ("batch", "Job"): _JOB,
    ("batch.volcano.sh", "Job"): (TemplateSlot(template=("spec", "tasks", EACH, "template")),),
    ("jobset.x-k8s.io", "JobSet"): (
        TemplateSlot(
            template=("spec", "replicatedJobs", EACH, "template", "spec", "template"),
            job=("spec", "replicatedJobs", EACH, "template"),
        ),
    ),
    ("kubeflow.org", "JAXJob"): _kubeflow("jaxReplicaSpecs"),
    ("kubeflow.org", "MPIJob"): _kubeflow("mpiReplicaSpecs"),
    ("kubeflow.org", "PyTorchJob"): _kubeflow("pytorchReplicaSpecs"),
    ("kubeflow.org", "TFJob"): _kubeflow("tfReplicaSpecs"),
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): (
        TemplateSlot(template=("spec", "leaderWorkerTemplate", "leaderTemplate"), role="leader"),
        TemplateSlot(template=("spec", "leaderWorkerTemplate", "workerTemplate"), role="worker"),
    ),
    ("ray.io", "RayCluster"): _ray("spec"),
    ("ray.io", "RayJob"): (
        *_ray("spec", "rayClusterSpec"),
        TemplateSlot(template=("spec", "submitterPodTemplate"), role="submitter"),
    ),
    ("ray.io", "RayService"): _ray("spec", "rayClusterConfig"),
    ("serving.knative.dev", "Service"): (
        TemplateSlot(template=("spec", "template"), is_partial=True),
    ),
    ("trainer.kubeflow.org", "ClusterTrainingRuntime"): _TRAINING_RUNTIME,
    ("trainer.kubeflow.org", "TrainJob"): (
        TemplateSlot(template=("spec", "podTemplateOverrides", EACH), is_partial=True),
    ),
    ("trainer.kubeflow.org", "TrainingRuntime"): _TRAINING_RUNTIME,
}


def expand(root: Any, pattern: Pattern) -> Iterator[Path]:
    """The existing paths in `root` that match the pattern."""
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
