"""The Job of each kind, or the several small Jobs where they start sooner than one large one."""

from collections.abc import Iterator
from dataclasses import dataclass

from outlast.capacity.vocabulary import Kind
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.pod import pod_template
from outlast.manifests.render.settled import CONTAINER, INTERRUPTED_CODE, Settled
from outlast.manifests.render.text import Value, Why

_CI_KEPT_SECONDS = 86_400


@dataclass(frozen=True, kw_only=True, slots=True)
class _Chunk:
    """One Job of the workload: how many Pods it starts, and which trials are its own."""

    name: str
    path: str
    parallelism: int
    completions: int
    offset: int = 0
    run_folder: str = ""


def job_files(settled: Settled) -> list[RenderedFile]:
    chunks = list(_chunks(settled))
    return [_job(settled, chunk, is_one_of_many=len(chunks) > 1) for chunk in chunks]


def job_pod_pattern(settled: Settled) -> str:
    """A regular expression for the names of the Pods that the Jobs make."""
    pattern = settled.name
    if len(list(_chunks(settled))) > 1:
        pattern += "-[0-9]+"
    if _is_indexed(settled):
        pattern += "-[0-9]+"
    return pattern + "-[a-z0-9]{5}"


def _chunks(settled: Settled) -> Iterator[_Chunk]:
    workload, kueue = settled.workload, settled.workload.cluster.kueue
    pods, total = workload.pods, _completions(settled)
    independent = workload.kind in (Kind.SWEEP, Kind.BATCH_INFERENCE)
    size = kueue.pods_per_job if kueue is not None and independent else pods
    if size >= pods:
        parallelism = min(pods, total)
        yield _Chunk(
            name=settled.name, path="50-job.yaml", parallelism=parallelism, completions=total
        )
        return
    count = -(-pods // size)
    width = len(str(count - 1))
    for index in range(count):
        # Trials are shared out evenly: the first few Jobs take one more if it does not divide.
        offset = total * index // count
        completions = total * (index + 1) // count - offset
        if completions:
            yield _Chunk(
                name=f"{settled.name}-{index}",
                path=f"50-job-{index:0{width}}.yaml",
                parallelism=min(size, completions),
                completions=completions,
                offset=offset,
                run_folder=f"from-{offset}" if workload.kind is Kind.SWEEP else f"part-{index}",
            )


def _completions(settled: Settled) -> int:
    workload = settled.workload
    if workload.kind is Kind.SWEEP and workload.work is not None and workload.work.items:
        return workload.work.items
    return workload.pods


def _is_indexed(settled: Settled) -> bool:
    kind = settled.workload.kind
    return kind is Kind.SWEEP or (kind is Kind.CI and settled.workload.parallelism > 1)


def _job(settled: Settled, chunk: _Chunk, *, is_one_of_many: bool) -> RenderedFile:
    spec: dict[str, Value] = {}
    if settled.is_queued:
        spec["suspend"] = Why(True, "Kueue resumes it once its nodes are there.")
    spec["parallelism"] = chunk.parallelism
    spec["completions"] = Why(chunk.completions, _completions_reason(settled))
    if _is_indexed(settled):
        spec["completionMode"] = "Indexed"
        reason = "Real failures of one index; the others go on. Evictions are not counted."
        spec["backoffLimitPerIndex"] = Why(settled.workload.retries, reason)
    else:
        reason = "Real failures. Evictions are not counted, see below."
        spec["backoffLimit"] = Why(settled.workload.retries, reason)
    if settled.workload.kind is Kind.CI:
        spec["ttlSecondsAfterFinished"] = _CI_KEPT_SECONDS
    reason = "A replacement starts only when the old Pod is gone, so two never write at once."
    spec["podReplacementPolicy"] = Why("Failed", reason)
    spec["podFailurePolicy"] = {"rules": failure_rules("Ignore")}
    spec["template"] = pod_template(
        settled, extra_env=_trial_variables(settled, chunk), run_folder=chunk.run_folder
    )
    body: Value = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": job_metadata(settled, chunk.name),
        "spec": spec,
    }
    return manifest(chunk.path, body, reason=_job_reason(settled, is_one_of_many=is_one_of_many))


def failure_rules(action: str) -> list[Value]:
    """What to do when a Pod fails because it was interrupted. The first rule that matches wins."""
    return [
        {
            "action": Why(
                action,
                "First: an eviction is not the program's failure, whatever code it left with.",
            ),
            "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
        },
        {
            "action": Why(
                action,
                f"Second: the program says by {INTERRUPTED_CODE} that it was interrupted and has "
                "saved, even where nobody set the condition.",
            ),
            "onExitCodes": {
                "containerName": CONTAINER,
                "operator": "In",
                "values": [INTERRUPTED_CODE],
            },
        },
    ]


def job_metadata(settled: Settled, name: str) -> Value:
    metadata: dict[str, Value] = {
        "name": name,
        "namespace": settled.namespace,
        "labels": settled.labels,
    }
    kueue = settled.workload.cluster.kueue
    if kueue is not None:
        metadata["labels"] = {**settled.labels, "kueue.x-k8s.io/queue-name": kueue.queue}
        seconds = str(int(settled.workload.max_run.total_seconds()))
        reason = "On this object; on the Pod template Kueue would not read it."
        metadata["annotations"] = {
            "provreq.kueue.x-k8s.io/maxRunDurationSeconds": Why(seconds, reason)
        }
    return metadata


def _trial_variables(settled: Settled, chunk: _Chunk) -> list[Value]:
    if settled.workload.kind is not Kind.SWEEP:
        return []
    reason = "The number of a trial is TRIAL_OFFSET plus JOB_COMPLETION_INDEX."
    return [{"name": Why("TRIAL_OFFSET", reason), "value": str(chunk.offset)}]


def _completions_reason(settled: Settled) -> str:
    if settled.workload.kind is Kind.BATCH_INFERENCE:
        return (
            "As many as parallelism: each worker ends with 0 when the queue is drained. Left out, "
            "the first 0 would stop the Job from replacing evicted workers."
        )
    return ""


def _job_reason(settled: Settled, *, is_one_of_many: bool) -> str:
    reason = f"Tier {settled.tier}. {settled.tier_reason}"
    if is_one_of_many:
        reason += (
            " One of several small Jobs: queued provisioning gives a Job all its nodes or none, "
            "and few nodes are found sooner than many."
        )
    return reason
