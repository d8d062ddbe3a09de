"""Jobs and JobSets that have failed."""

from collections.abc import Iterator

from outlast.cluster.diagnosis.causes.cause import Cause, condition_evidence, name
from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence
from outlast.cluster.diagnosis.facts import JobFact
from outlast.cluster.diagnosis.snapshot import Snapshot

_JOB_ENDINGS = {
    "BackoffLimitExceeded": (
        "more Pods failed than backoffLimit allows",
        "See how the attempts ended, fix it, and submit again: it resumes from its checkpoint.",
    ),
    "DeadlineExceeded": (
        "it ran longer than activeDeadlineSeconds",
        "Raise the deadline, and submit again: it resumes from its checkpoint.",
    ),
    "PodFailurePolicy": (
        "a Pod failed in a way that its podFailurePolicy does not retry",
        "See the exit code in the evidence, and fix the program.",
    ),
    "MaxFailedIndexesExceeded": (
        "more indexes failed than maxFailedIndexes allows",
        "See which indexes failed: kubectl get job -o jsonpath='{.status.failedIndexes}'",
    ),
    "FailedIndexes": (
        "some of its indexes failed",
        "See which indexes failed: kubectl get job -o jsonpath='{.status.failedIndexes}'",
    ),
}
_JOB_SET_ENDINGS = {
    "ReachedMaxRestarts": "it was restarted as often as maxRestarts allows",
    "FailedJobs": "one of its Jobs failed",
}


def _job_over(snapshot: Snapshot) -> Diagnosis | None:
    for job in _own_jobs(snapshot):
        for kind in ("Failed", "FailureTarget"):
            found = job.condition(kind)
            if found is not None and found.is_true and found.reason in _JOB_ENDINGS:
                why, next_step = _JOB_ENDINGS[found.reason]
                return Diagnosis(
                    cause="E19",
                    summary=f"The Job {name(job.name)} failed: {why}.",
                    next_step=next_step,
                    evidence=(condition_evidence(f"Job {name(job.name)}", found),),
                )
    return None


def _own_jobs(snapshot: Snapshot) -> Iterator[JobFact]:
    """Jobs that end the run if they fail. A JobSet restarts its own, after each eviction."""
    sets = {one.uid for one in snapshot.job_sets}
    return (job for job in snapshot.jobs if job.owner not in sets)


def _job_set_over(snapshot: Snapshot) -> Diagnosis | None:
    for one in snapshot.job_sets:
        found = one.condition("Failed")
        if found is None or not found.is_true or found.reason not in _JOB_SET_ENDINGS:
            continue
        evictions = max(one.restarts - one.restarts_counted, 0)
        restarts = Evidence(
            where=f"JobSet {name(one.name)}, status.restarts", text=str(one.restarts)
        )
        return Diagnosis(
            cause="E20",
            summary=(
                f"The JobSet {name(one.name)} failed: {_JOB_SET_ENDINGS[found.reason]} "
                f"(restarts: {one.restarts}, of which {evictions} by evictions)."
            ),
            next_step="See how the attempts ended, fix it, and submit again.",
            evidence=(condition_evidence(f"JobSet {name(one.name)}", found), restarts),
        )
    return None


def over_evidence(snapshot: Snapshot) -> tuple[Evidence, ...]:
    """Jobs and JobSets that have failed, for when the reason is not recognized."""
    return tuple(
        condition_evidence(name(one.name), found)
        for one in (*snapshot.job_sets, *_own_jobs(snapshot))
        if (found := one.condition("Failed")) is not None and found.is_true
    )


OVER = (
    Cause(id="E20", title="JobSet failed", seen_in="JobSet condition Failed", match=_job_set_over),
    Cause(id="E19", title="Job failed", seen_in="Job condition Failed", match=_job_over),
)
