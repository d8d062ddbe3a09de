"""A rule of a podFailurePolicy never applies, or Kubernetes rejects the policy.

Why: the first rule that matches wins. An evicted container exits with 137 or 143, so if a rule that
matches these exit codes comes before the rule that ignores evictions, an eviction counts as a
failure or fails the Job. Kubernetes rejects the entire policy if it has more than 20 rules, uses
FailIndex without backoffLimitPerIndex, or names a container that does not exist.
Instead: put Ignore on DisruptionTarget first, then specific rules before general ones.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    FailureRule,
    Fault,
    Job,
    Pod,
    Put,
    Review,
    Severity,
    failure_rules_of,
    pod_rule,
)

RULES_MAX = 20
_RULES = ("spec", "podFailurePolicy", "rules")


@pod_rule("OL107", Severity.ERROR)
def shadowed_failure_rule(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not pod.job.failure_rules:
        return
    rules = failure_rules_of(pod.job)
    yield from _shadowed(pod.job, rules)
    yield from _refused(pod, pod.job, rules)


def _shadowed(job: Job, rules: list[FailureRule]) -> Iterator[Fault]:
    for position, rule in enumerate(rules):
        # The same action twice is redundant, but harmless.
        earlier = [one for one in rules[:position] if one.action != rule.action]
        covering = next((one for one in earlier if one.covers(rule)), None)
        at = (*_RULES, rule.index, "action")
        if covering is not None:
            yield job.fault(
                f"Rule {rule.index + 1} never applies: rule {covering.index + 1} "
                f"({covering.action}) matches everything that it would match.",
                at=at,
            )
        elif rule.is_for_disruptions and rule.action == "Ignore":
            greedy = next((one for one in earlier if one.takes_killed), None)
            if greedy is not None:
                yield job.fault(
                    f"Evictions are ignored too late: an evicted container exits with 137 or 143, "
                    f"which rule {greedy.index + 1} ({greedy.action}) matches first.",
                    at=at,
                )


def _refused(pod: Pod, job: Job, rules: list[FailureRule]) -> Iterator[Fault]:
    if len(rules) > RULES_MAX:
        yield job.fault(
            f"There are {len(rules)} rules, but Kubernetes allows at most {RULES_MAX}.", at=_RULES
        )
    names = {container.name for container in pod.all_containers}
    per_index = job.get("spec", "backoffLimitPerIndex")
    for rule in rules:
        if rule.action == "FailIndex" and per_index is None and not job.manifest.is_base:
            yield job.fault(
                "FailIndex requires backoffLimitPerIndex, which is not set: Kubernetes rejects the "
                "Job.",
                at=(*_RULES, rule.index, "action"),
                hint="Set backoffLimitPerIndex (Indexed Jobs only), or use FailJob.",
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
                f"The Pod has no container {container!r}: Kubernetes rejects the Job.",
                at=(*_RULES, rule.index, "onExitCodes", "containerName"),
                hint=f"Its containers: {', '.join(map(repr, sorted(names)))}.",
            )
