"""The Job of a workload, or several small Jobs if they start sooner than one large Job."""

from collections.abc import Iterator
from dataclasses import dataclass

from outlast.capacity.vocabulary import WorkloadKind
from outlast.manifests.conventions import INTERRUPTED_CODE, PROVISIONING_PREFIX, QUEUE_LABEL
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.pod import pod_template
from outlast.manifests.render.resolved import CONTAINER, ResolvedWorkload
from outlast.yamltext.writing import Commented, Value

_CI_KEPT_SECONDS = 86_400
_LEASE_SHARE_MAX = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chunk:
    """One Job of the workload: how many Pods it starts and which trials it runs."""

    name: str
    path: str
    parallelism: int
    completions: int
    offset: int = 0
    run_folder: str = ""


def job_files(resolved: ResolvedWorkload) -> list[RenderedFile]:
    chunks = list(_chunks(resolved))
    return [_job(resolved, chunk, is_one_of_many=len(chunks) > 1) for chunk in chunks]


def job_pod_pattern(resolved: ResolvedWorkload) -> str:
    """A regular expression for the names of the Pods that the Jobs create."""
    pattern = resolved.name
    if len(list(_chunks(resolved))) > 1:
        pattern += "-[0-9]+"
    if resolved.is_indexed:
        pattern += "-[0-9]+"
    return pattern + "-[a-z0-9]{5}"


def _chunks(resolved: ResolvedWorkload) -> Iterator[_Chunk]:
    workload, kueue = resolved.workload, resolved.workload.cluster.kueue
    pods, total = workload.pods, _completions(resolved)
    independent = workload.kind in (WorkloadKind.SWEEP, WorkloadKind.BATCH_INFERENCE)
    size = kueue.pods_per_job if kueue is not None and independent else pods
    if size >= pods:
        parallelism = min(pods, total)
        yield _Chunk(
            name=resolved.name, path="50-job.yaml", parallelism=parallelism, completions=total
        )
        return
    count = -(-pods // size)
    width = len(str(count - 1))
    for index in range(count):
        # Trials are distributed evenly; some Jobs get one more if they do not divide.
        offset = total * index // count
        completions = total * (index + 1) // count - offset
        if completions:
            yield _Chunk(
                name=f"{resolved.name}-{index}",
                path=f"50-job-{index:0{width}}.yaml",
                parallelism=min(size, completions),
                completions=completions,
                offset=offset,
                run_folder=f"from-{offset}"
                if workload.kind is WorkloadKind.SWEEP
                else f"part-{index}",
            )


def _completions(resolved: ResolvedWorkload) -> int:
    workload = resolved.workload
    if workload.kind is WorkloadKind.SWEEP and workload.work is not None and workload.work.items:
        return workload.work.items
    return workload.pods


def _job(resolved: ResolvedWorkload, chunk: _Chunk, *, is_one_of_many: bool) -> RenderedFile:
    spec: dict[str, Value] = {}
    if resolved.is_queued:
        spec["suspend"] = Commented(True, "Kueue resumes it when its nodes are ready.")
    spec["parallelism"] = chunk.parallelism
    spec["completions"] = Commented(chunk.completions, _completions_reason(resolved))
    if resolved.is_indexed:
        spec["completionMode"] = "Indexed"
        reason = (
            f"{_limit_reason(resolved)} Per index: the others keep running, and an evicted Pod is "
            "replaced without waiting for the backoff of all of them."
        )
        spec["backoffLimitPerIndex"] = Commented(resolved.failures_max, reason)
    else:
        spec["backoffLimit"] = Commented(resolved.failures_max, _limit_reason(resolved))
    if resolved.workload.kind is WorkloadKind.CI:
        spec["ttlSecondsAfterFinished"] = _CI_KEPT_SECONDS
    reason = "A replacement starts only after the old Pod is gone, so two Pods never write at once."
    spec["podReplacementPolicy"] = Commented("Failed", reason)
    spec["podFailurePolicy"] = {"rules": failure_rules("Ignore")}
    spec["template"] = pod_template(
        resolved, extra_env=_trial_variables(resolved, chunk), run_folder=chunk.run_folder
    )
    body: Value = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": job_metadata(resolved, chunk.name),
        "spec": spec,
    }
    return manifest(chunk.path, body, reason=_job_reason(resolved, is_one_of_many=is_one_of_many))


def _limit_reason(resolved: ResolvedWorkload) -> str:
    return "Real failures. Evictions do not count, see below." + reserve_reason(resolved)


def reserve_reason(resolved: ResolvedWorkload) -> str:
    if not resolved.reserve:
        return ""
    return (
        f" {resolved.workload.retries} retries and a reserve of {resolved.reserve} for the two "
        "evictions that Kubernetes does not mark: a node that returns under its old name, and a "
        "node that rejects the Pod."
    )


def failure_rules(action: str) -> list[Value]:
    """What to do if a Pod fails because it was interrupted. The first matching rule wins."""
    return [
        {
            "action": Commented(
                action,
                "An eviction is never the program's failure, regardless of its exit code.",
            ),
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        },
        {
            "action": Commented(
                action,
                f"Exit code {INTERRUPTED_CODE} means that the program was interrupted and has "
                "saved, even if the condition is not set.",
            ),
            "onExitCodes": {
                "containerName": CONTAINER,
                "operator": "In",
                "values": [INTERRUPTED_CODE],
            },
        },
    ]


def job_metadata(resolved: ResolvedWorkload, name: str) -> Value:
    metadata: dict[str, Value] = {
        "name": name,
        "namespace": resolved.namespace,
        "labels": resolved.labels,
    }
    kueue = resolved.workload.cluster.kueue
    if kueue is not None:
        metadata["labels"] = {**resolved.labels, QUEUE_LABEL: kueue.queue}
        seconds = str(int(resolved.workload.max_run.total_seconds()))
        reason = "Kueue reads this here, but not on the Pod template." + _lease_caution(resolved)
        metadata["annotations"] = {
            f"{PROVISIONING_PREFIX}maxRunDurationSeconds": Commented(seconds, reason)
        }
    return metadata


def _lease_caution(resolved: ResolvedWorkload) -> str:
    """A caution if the work may not end within the lease, after which Kueue deactivates it."""
    work_seconds = resolved.workload.work_seconds
    lease_seconds = resolved.workload.max_run.total_seconds()
    if work_seconds is None or work_seconds < _LEASE_SHARE_MAX * lease_seconds:
        return ""
    return (
        f" The work takes about {work_seconds / 3600:.3g} h of these "
        f"{lease_seconds / 3600:.3g} h. When the nodes are taken away, Kueue deactivates the "
        "workload: set spec.active of its Workload to true to continue."
    )


def _trial_variables(resolved: ResolvedWorkload, chunk: _Chunk) -> list[Value]:
    if resolved.workload.kind is not WorkloadKind.SWEEP:
        return []
    reason = "The number of the trial is TRIAL_OFFSET plus JOB_COMPLETION_INDEX."
    return [{"name": Commented("TRIAL_OFFSET", reason), "value": str(chunk.offset)}]


def _completions_reason(resolved: ResolvedWorkload) -> str:
    if resolved.workload.kind is WorkloadKind.BATCH_INFERENCE:
        return "Equal to parallelism: each worker exits 0 when the queue is empty."
    return ""


def _job_reason(resolved: ResolvedWorkload, *, is_one_of_many: bool) -> str:
    reason = f"Tier {resolved.tier}. {resolved.tier_reason}"
    if is_one_of_many:
        reason += (
            " One of several small Jobs: queued provisioning gives a Job all of its nodes or none, "
            "and GKE finds a few nodes sooner than many."
        )
    return reason
