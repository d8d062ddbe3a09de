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
    FAILURE_POLICY,
    Fault,
    Pod,
    Review,
    Severity,
    ending_by_disruptions,
    jobset_rules,
    max_restarts_of,
    pod_rule,
    replicated_job_name,
)


@pod_rule("OL112", Severity.WARNING)
def jobset_without_restarts(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or pod.owner_kind != "JobSet" or not review.placement(pod).includes_spot:
        return
    job, jobset = pod.job, pod.manifest
    ending = ending_by_disruptions(job)
    if ending is None:
        return
    matching = jobset_rules(jobset, job, ending.reason)
    # The failure message is not known in advance.
    rule = next((rule for rule in matching if not rule.needs_message), None)
    number = ending.failures
    ends = "The first eviction" if number == 1 else f"Eviction number {number}"
    name = replicated_job_name(jobset, job)
    if rule is not None and rule.action == "FailJobSet":
        yield jobset.fault(
            f"{ends} fails the Job {name!r} with {ending.reason}, and this rule then fails the "
            "JobSet.",
            at=(*FAILURE_POLICY, "rules", rule.index, "action"),
        )
    elif rule is not None and rule.is_free:
        return
    elif (restarts := max_restarts_of(jobset)) < 1:
        yield jobset.fault(
            f"{ends} fails the Job {name!r} and with it the JobSet, because maxRestarts is "
            f"{restarts}.",
            at=(*FAILURE_POLICY, "maxRestarts"),
        )
