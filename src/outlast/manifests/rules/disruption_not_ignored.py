"""A podFailurePolicy counts evictions as failures of the program.

Why: an evicted Pod is a failed Pod with the condition DisruptionTarget. If no rule ignores that
condition, each eviction uses up one of the Job's retries. If a rule fails the Job on that
condition, the first eviction ends the Job.
Instead: make Ignore on the condition DisruptionTarget the first rule. The exception is a JobSet
that restarts all its Jobs together: there, FailJob on DisruptionTarget is correct.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    IGNORE_DISRUPTIONS,
    ROOMY_LIMIT,
    Append,
    FailureRule,
    Fault,
    Fix,
    Job,
    Pod,
    Review,
    Severity,
    failure_rules_of,
    ignores_disruptions,
    pod_rule,
)

_RULES = ("spec", "podFailurePolicy", "rules")


@pod_rule("OL105", Severity.WARNING)
def disruption_not_ignored(pod: Pod, review: Review) -> Iterator[Fault]:
    # A JobSet restarts its Jobs by its own policy.
    if pod.job is None or pod.owner_kind == "JobSet" or not review.placement(pod).includes_spot:
        return
    job, rules = pod.job, failure_rules_of(pod.job)
    if job.get("spec", "podFailurePolicy") is None or ignores_disruptions(job):
        return
    ending = next((r for r in rules if r.is_for_disruptions and r.action.startswith("Fail")), None)
    if ending is not None:
        lost = "the Job" if ending.action == "FailJob" else "its index"
        yield job.fault(
            f"{ending.action} on DisruptionTarget ends {lost} at the first eviction.",
            at=(*_RULES, ending.index, "action"),
        )
    elif (job.backoff_limit or 0) < ROOMY_LIMIT:
        yield job.fault(
            "No rule ignores DisruptionTarget, so each eviction counts as a failure of the "
            "program.",
            at=_RULES,
            fix=_ignoring(job, rules),
        )


def _ignoring(job: Job, rules: list[FailureRule]) -> Fix | None:
    # At the end of the list, it only works if no earlier rule matches evicted Pods.
    if any(rule.takes_killed or rule.is_for_disruptions for rule in rules):
        return None
    change = Append(_RULES, IGNORE_DISRUPTIONS)
    return job.fix("Ignore disruptions", change, is_safe=False)
