"""The exit code of an interrupted program counts as a failure.

Why: an interrupted program saves and exits with a code of its own: 75 with Outlast, or the value of
OUTLAST_EXIT_CODE. Not every interruption marks the Pod with DisruptionTarget: a program that stops
before its flex-start node expires does so on its own, and a node that shuts down may be gone before
it reports the condition. Without a rule for the exit code, these interruptions use up the Job's
retries.
Instead: add a rule with the action Ignore for this exit code, after the rule for DisruptionTarget.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    CODE_VARIABLE,
    Append,
    Container,
    Fault,
    Fix,
    Job,
    NodeTier,
    Pod,
    Review,
    Severity,
    failure_rules_of,
    ignoring_code,
    interrupted_code_of,
    pod_rule,
)

_RULES = ("spec", "podFailurePolicy", "rules")


@pod_rule("OL106", Severity.WARNING)
def exit_code_not_ignored(pod: Pod, review: Review) -> Iterator[Fault]:
    # A JobSet restarts its Jobs by its own policy.
    if pod.job is None or pod.owner_kind == "JobSet":
        return
    tiers = review.placement(pod).tiers
    has_policy = pod.job.get("spec", "podFailurePolicy") is not None
    # Another rule reports a Spot Job without any policy.
    if not (
        tiers & {NodeTier.SPOT, NodeTier.FLEX_START}
        if has_policy
        else tiers == {NodeTier.FLEX_START}
    ):
        return
    for container in pod.containers:
        code = interrupted_code_of(container)
        # Exit code 0 has its own rule.
        if not code or _is_handled(pod.job, code, container):
            continue
        variable = container.variables.get(CODE_VARIABLE)
        yield container.fault(
            f"When interrupted, this container exits with {code}, but no rule of a "
            "podFailurePolicy ignores that code, so it counts as a failure.",
            at=variable.at if variable is not None else ("name",),
            fix=_fix(pod.job, code),
        )


def _is_handled(job: Job, code: int, container: Container) -> bool:
    """Whether a rule already handles this code explicitly."""
    return any(
        rule.codes is not None
        and rule.codes.has(code, container.name)
        and (rule.action == "Ignore" or not rule.codes.is_negated)
        for rule in failure_rules_of(job)
    )


def _fix(job: Job, code: int) -> Fix | None:
    if not job.listed(*_RULES):
        return None
    # At the end of the list, it only works if no earlier rule matches this code.
    if any(rule.codes is not None and rule.codes.has(code) for rule in failure_rules_of(job)):
        return None
    change = Append(_RULES, ignoring_code(code))
    return job.fix(f"Ignore exit code {code}", change, is_safe=False)
