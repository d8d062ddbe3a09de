"""How many Pods of a template run at the same time."""

from dataclasses import dataclass

from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.pod import Job, Pod

_REPLICATED = ("Deployment", "ReplicaSet", "ReplicationController", "Rollout", "StatefulSet")


@dataclass(frozen=True, kw_only=True, slots=True)
class Count:
    """A number of Pods. `at` is the path in the object of what says most about it."""

    pods: int
    at: Path


def pods_at_once(pod: Pod) -> Count | None:
    """None for kinds that do not say, such as a DaemonSet, and for what is no whole number."""
    if pod.job is not None:
        return _of_job(pod.job)
    if pod.owner_kind == "Pod":
        return Count(pods=1, at=("metadata", "name"))
    if pod.owner_kind in _REPLICATED:
        replicas = _number(pod.manifest.get("spec", "replicas"))
        return None if replicas is None else Count(pods=replicas, at=("spec", "replicas"))
    return None


def job_pods(job: Job) -> int | None:
    """The Pods that one Job runs at once: no more than it has completions left."""
    parallelism = _number(job.get("spec", "parallelism"))
    completions = _number(job.get("spec", "completions"), default=parallelism)
    if parallelism is None or completions is None:
        return None
    return min(parallelism, completions)


def _of_job(job: Job) -> Count | None:
    pods = job_pods(job)
    replicas, at = 1, (*job.path, "spec", "parallelism")
    if job.owner_kind == "JobSet":
        around = job.path[:-1]
        given = _number(job.manifest.get(*around, "replicas"))
        if given is None:
            return None
        replicas = given
        at = at if replicas == 1 else (*around, "replicas")
    return None if pods is None else Count(pods=pods * replicas, at=at)


def _number(given: object, *, default: int | None = 1) -> int | None:
    """The number that counts: the default for nothing, None for what is no number."""
    if given is None:
        return default
    return given if isinstance(given, int) and not isinstance(given, bool) else None
