"""A podFailurePolicy that counts evictions as failures of the program.

Why: an evicted Pod is a failed Pod with the condition DisruptionTarget. Where no rule ignores that
condition, each eviction spends one of the Job's retries, and a rule that fails the Job on it ends
the work at the first one.
Instead: let the first rule be Ignore on the condition DisruptionTarget. Inside a JobSet that
restarts all its Jobs together, FailJob on it is right.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Append, Fix
from outlast.manifests.lint.failure_policy import (
    IGNORE_DISRUPTIONS,
    FailureRule,
    ignores_disruptions,
    rules_of,
)
from outlast.manifests.lint.pod import Job, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

# Whoever allows this many retries has left room for evictions.
_ROOMY_LIMIT = 50
_RULES = ("spec", "podFailurePolicy", "rules")


@pod_rule("OL105", Severity.WARNING)
def disruption_not_ignored(pod: Pod, review: Review) -> Iterator[Fault]:
    # A JobSet restarts its Jobs by a policy of its own.
    if pod.job is None or pod.owner_kind == "JobSet" or not review.aim(pod).includes_spot:
        return
    job, rules = pod.job, rules_of(pod.job)
    if job.get("spec", "podFailurePolicy") is None or ignores_disruptions(job):
        return
    ending = next((r for r in rules if r.is_for_disruptions and r.action.startswith("Fail")), None)
    if ending is not None:
        lost = "the Job" if ending.action == "FailJob" else "its index"
        yield job.fault(
            f"{ending.action} on DisruptionTarget ends {lost} at the first eviction.",
            at=(*_RULES, ending.index, "action"),
        )
    elif (job.backoff_limit or 0) < _ROOMY_LIMIT:
        yield job.fault(
            "No rule ignores DisruptionTarget, so each eviction counts as a failure of the "
            "program.",
            at=_RULES,
            fix=_ignoring(job, rules),
        )


def _ignoring(job: Job, rules: list[FailureRule]) -> Fix | None:
    # At the end of the list it only works if nothing before it takes evicted Pods.
    if any(rule.takes_killed or rule.is_for_disruptions for rule in rules):
        return None
    change = Append(_RULES, IGNORE_DISRUPTIONS)
    return job.fix("Ignore disruptions", change, is_safe=False)
