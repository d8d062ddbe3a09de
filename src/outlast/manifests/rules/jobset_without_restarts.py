"""Evictions permanently fail a JobSet on Spot.

Why: when one of its Jobs fails, a JobSet restarts all of them, up to maxRestarts times. The default
is 0, so without a failurePolicy the first failed Job fails the entire JobSet. An eviction fails a
Job at once if its backoffLimit is 0, and otherwise as soon as its retries are used up.
Instead: set failurePolicy.maxRestarts. Better still, make the Jobs fail immediately on
DisruptionTarget (FailJob, backoffLimit 0) and add a JobSet rule for the reason PodFailurePolicy
with the action RestartJobSetAndIgnoreMaxRestarts, so that only real failures count.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Fault,
    Job,
    KubernetesObject,
    Map,
    Pod,
    Review,
    Severity,
    failure_rules_of,
    ignores_disruptions,
    pod_rule,
)

_BACKOFF_DEFAULT = 6
# With this many retries, evictions have been allowed for.
_ROOMY_LIMIT = 50
_POLICY = ("spec", "failurePolicy")


@pod_rule("OL112", Severity.WARNING)
def jobset_without_restarts(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or pod.owner_kind != "JobSet" or not review.placement(pod).includes_spot:
        return
    job, jobset = pod.job, pod.manifest
    reason, evictions = _end_of(job)
    if reason is None:
        return
    rule = _first_rule(jobset, job, reason)
    ends = "The first eviction" if evictions == 1 else f"Eviction number {evictions}"
    name = _name(jobset, job)
    if rule is not None and rule[1] == "FailJobSet":
        yield jobset.fault(
            f"{ends} fails the Job {name!r} with {reason}, and this rule then fails the JobSet.",
            at=(*_POLICY, "rules", rule[0], "action"),
        )
    elif rule is not None and rule[1].endswith("IgnoreMaxRestarts"):
        return
    elif (restarts := jobset.integer(*_POLICY, "maxRestarts") or 0) < 1:
        yield jobset.fault(
            f"{ends} fails the Job {name!r} and with it the JobSet, because maxRestarts is "
            f"{restarts}.",
            at=(*_POLICY, "maxRestarts"),
        )


def _end_of(job: Job) -> tuple[str | None, int]:
    """The reason for which evictions fail a Job, and how many it takes; None if they do not."""
    for rule in failure_rules_of(job):
        if rule.is_for_disruptions and rule.action == "FailJob":
            return "PodFailurePolicy", 1
    limit = job.backoff_limit
    if ignores_disruptions(job) or (limit is not None and limit >= _ROOMY_LIMIT):
        return None, 0
    if job.get("spec", "backoffLimitPerIndex") is not None:
        return None, 0
    return "BackoffLimitExceeded", (_BACKOFF_DEFAULT if limit is None else max(0, limit)) + 1


def _first_rule(jobset: KubernetesObject, job: Job, reason: str) -> tuple[int, str] | None:
    """The first JobSet rule that matches this failure: its index and its action."""
    name = _name(jobset, job)
    for index, rule in jobset.mappings(*_POLICY, "rules"):
        if _names(rule, "onJobFailureReasons", reason) and _names(
            rule, "targetReplicatedJobs", name
        ):
            # The failure message is not known in advance.
            if not rule.get("onJobFailureMessagePatterns"):
                return index, str(rule.get("action"))
    return None


def _name(jobset: KubernetesObject, job: Job) -> str:
    return jobset.text(*job.path[:-1], "name") or ""


def _names(rule: Map, key: str, word: str) -> bool:
    listed = rule.get(key)
    return not isinstance(listed, list) or not listed or word in listed
