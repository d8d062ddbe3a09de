"""A rule of a podFailurePolicy that never gets its turn, or that Kubernetes refuses.

Why: the first rule that matches wins. A rule on exit codes that also takes 137 and 143 stands
before the one that ignores evictions: an evicted container leaves with one of these, so the
eviction counts, or fails the Job. And a policy with more than 20 rules, with FailIndex but without
backoffLimitPerIndex, or for a container that does not exist is refused as a whole.
Instead: put Ignore on DisruptionTarget first, then narrow rules before wide ones.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.failure_policy import FailureRule, rules_of
from outlast.manifests.lint.pod import Job, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

RULES_MAX = 20
_RULES = ("spec", "podFailurePolicy", "rules")


@pod_rule("OL107", Severity.ERROR)
def shadowed_failure_rule(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not pod.job.failure_rules:
        return
    rules = rules_of(pod.job)
    yield from _shadowed(pod.job, rules)
    yield from _refused(pod, pod.job, rules)


def _shadowed(job: Job, rules: list[FailureRule]) -> Iterator[Fault]:
    for position, rule in enumerate(rules):
        # The same action twice is idle, but does no harm.
        earlier = [one for one in rules[:position] if one.action != rule.action]
        covering = next((one for one in earlier if one.covers(rule)), None)
        at = (*_RULES, rule.index, "action")
        if covering is not None:
            yield job.fault(
                f"Rule {rule.index + 1} never matches: rule {covering.index + 1} "
                f"({covering.action}) takes all that it would.",
                at=at,
            )
        elif rule.is_for_disruptions and rule.action == "Ignore":
            greedy = next((one for one in earlier if one.takes_killed), None)
            if greedy is not None:
                yield job.fault(
                    f"Evictions are ignored too late: an evicted container leaves with 137 or 143, "
                    f"and rule {greedy.index + 1} ({greedy.action}) takes that first.",
                    at=at,
                )


def _refused(pod: Pod, job: Job, rules: list[FailureRule]) -> Iterator[Fault]:
    if len(rules) > RULES_MAX:
        yield job.fault(
            f"There are {len(rules)} rules, and Kubernetes takes {RULES_MAX} at most.", at=_RULES
        )
    names = {container.name for container in pod.all_containers}
    per_index = job.get("spec", "backoffLimitPerIndex")
    for rule in rules:
        if rule.action == "FailIndex" and per_index is None and not job.manifest.is_base:
            yield job.fault(
                "FailIndex needs backoffLimitPerIndex, which is not set: Kubernetes refuses the "
                "Job.",
                at=(*_RULES, rule.index, "action"),
                hint="Set backoffLimitPerIndex, which an Indexed Job can have, or use FailJob.",
                fix=job.fix(
                    "Set backoffLimitPerIndex to 0",
                    Put(("spec", "backoffLimitPerIndex"), 0),
                    is_safe=False,
                )
                if job.is_indexed
                else None,
            )
        container = rule.codes.container if rule.codes else None
        if container is not None and container not in names and names:
            yield job.fault(
                f"There is no container {container!r} in the Pod: Kubernetes refuses the Job.",
                at=(*_RULES, rule.index, "onExitCodes", "containerName"),
                hint=f"It has {', '.join(map(repr, sorted(names)))}.",
            )
