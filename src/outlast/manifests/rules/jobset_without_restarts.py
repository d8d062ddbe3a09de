"""A JobSet on Spot that evictions end for good.

Why: when one of its Jobs fails, a JobSet restarts all of them, up to maxRestarts times, and that is
0 if it is not set. Without a failurePolicy the first failed Job fails the whole JobSet. Evictions
fail a Job at once with a backoffLimit of 0, and else when its retries are spent.
Instead: set failurePolicy.maxRestarts; better, let the Jobs fail at once on DisruptionTarget
(FailJob, backoffLimit 0) and let a rule for the reason PodFailurePolicy restart the JobSet with
RestartJobSetAndIgnoreMaxRestarts, so that only real failures are counted.
"""

from collections.abc import Iterator

from outlast.manifests.lint.failure_policy import ignores_disruptions, rules_of
from outlast.manifests.lint.nodes import Map
from outlast.manifests.lint.pod import Job, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault, Manifest

_BACKOFF_DEFAULT = 6
# Whoever allows this many retries has left room for evictions.
_ROOMY_LIMIT = 50
_POLICY = ("spec", "failurePolicy")


@pod_rule("OL112", Severity.WARNING)
def jobset_without_restarts(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or pod.owner_kind != "JobSet" or not review.aim(pod).includes_spot:
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
            f"{ends} fails the Job {name!r} by {reason}, and this rule then fails the JobSet.",
            at=(*_POLICY, "rules", rule[0], "action"),
        )
    elif rule is not None and rule[1].endswith("IgnoreMaxRestarts"):
        return
    elif (jobset.integer(*_POLICY, "maxRestarts") or 0) < 1:
        yield jobset.fault(
            f"{ends} fails the Job {name!r} and with it the JobSet: no restart is allowed.",
            at=(*_POLICY, "maxRestarts"),
        )


def _end_of(job: Job) -> tuple[str | None, int]:
    """For which reason evictions fail a Job, and how many it takes; no reason if none do."""
    for rule in rules_of(job):
        if rule.is_for_disruptions and rule.action == "FailJob":
            return "PodFailurePolicy", 1
    limit = job.backoff_limit
    if ignores_disruptions(job) or (limit is not None and limit >= _ROOMY_LIMIT):
        return None, 0
    if job.get("spec", "backoffLimitPerIndex") is not None:
        return None, 0
    return "BackoffLimitExceeded", (_BACKOFF_DEFAULT if limit is None else max(0, limit)) + 1


def _first_rule(jobset: Manifest, job: Job, reason: str) -> tuple[int, str] | None:
    """The rule of the JobSet that such a failure meets: its place and its action."""
    name = _name(jobset, job)
    for index, rule in jobset.mappings(*_POLICY, "rules"):
        if _names(rule, "onJobFailureReasons", reason) and _names(
            rule, "targetReplicatedJobs", name
        ):
            # What it says of messages cannot be foreseen.
            if not rule.get("onJobFailureMessagePatterns"):
                return index, str(rule.get("action"))
    return None


def _name(jobset: Manifest, job: Job) -> str:
    return jobset.text(*job.path[:-1], "name") or ""


def _names(rule: Map, key: str, word: str) -> bool:
    listed = rule.get(key)
    return not isinstance(listed, list) or not listed or word in listed
