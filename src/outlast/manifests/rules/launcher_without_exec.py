"""A launcher on Spot hides that its ranks were interrupted.

Why: torchrun and `accelerate launch` exit with 1 whenever they are stopped or one of their ranks
exits with another code than 0, including the 75 of ranks that were interrupted and have saved. The
evicted Pod has the condition DisruptionTarget, but the Pods on other nodes that stop because of it
do not: their exit code 1 counts as a failure. A few evictions use up the retries of the Job or the
restarts of the JobSet.
Instead: run the launcher under `outlast exec --`, which exits with 75 if all ranks have, and add
rules for this exit code and for DisruptionTarget to the podFailurePolicy.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    ROOMY_LIMIT,
    Container,
    Fault,
    Job,
    Pod,
    Review,
    Severity,
    ending_by_code,
    ending_by_disruptions,
    failures_allowed,
    launchers_in,
    pod_rule,
    pods_at_once,
)

_STOPPED_CODE = 1


@pod_rule("OL114", Severity.WARNING)
def launcher_without_exec(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not review.placement(pod).includes_spot:
        return
    for container in pod.containers:
        allowed = _allowed(pod, pod.job, container)
        if allowed is None:
            continue
        for launcher in launchers_in(container):
            if launcher.is_supervised:
                continue
            ends = "the first" if allowed == 0 else f"number {allowed + 1}"
            yield container.fault(
                f"{launcher.name} exits with {_STOPPED_CODE} when it is stopped, regardless of the "
                f"exit codes of its ranks, so interruptions count as failures: {ends} fails the "
                f"{pod.owner_kind}.",
                at=launcher.at,
            )


def _allowed(pod: Pod, job: Job, container: Container) -> int | None:
    """How many failures of the launcher are survived, None if they cost nothing or very little."""
    ending = ending_by_code(job, _STOPPED_CODE, container)
    if ending is None or (_is_alone(pod) and _forgives_evictions(pod, job)):
        return None
    if pod.owner_kind == "JobSet":
        return failures_allowed(pod.manifest, job, ending)
    return ending.failures - 1 if ending.failures <= ROOMY_LIMIT else None


def _is_alone(pod: Pod) -> bool:
    """Whether no other Pod stops because this one is evicted."""
    count = pods_at_once(pod)
    is_only_job = len(pod.manifest.listed("spec", "replicatedJobs")) < 2
    return count is not None and count.pods == 1 and is_only_job


def _forgives_evictions(pod: Pod, job: Job) -> bool:
    ending = ending_by_disruptions(job)
    if ending is None:
        return True
    return pod.owner_kind == "JobSet" and failures_allowed(pod.manifest, job, ending) is None
