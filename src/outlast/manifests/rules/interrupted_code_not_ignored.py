"""The exit code of an interrupted program counts as a failure.

Why: a program that is told to leave saves, and exits with a code of its own: 75 with Outlast, or
what OUTLAST_EXIT_CODE says. Not every interruption marks the Pod with DisruptionTarget: one that
leaves ahead of the end of its flex-start lease does so by its own clock, and a node that shuts down
may be gone before it could tell. Without a rule for the code, that spends the Job's retries.
Instead: add the action Ignore on this exit code behind the one on DisruptionTarget.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Append, Fix
from outlast.manifests.lint.failure_policy import INTERRUPTED_CODE, ignoring_code, rules_of
from outlast.manifests.lint.pod import Container, Job, Pod
from outlast.manifests.lint.pools.model import Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault

CODE_VARIABLE = "OUTLAST_EXIT_CODE"
_RULES = ("spec", "podFailurePolicy", "rules")


@pod_rule("OL106", Severity.WARNING)
def interrupted_code_not_ignored(pod: Pod, review: Review) -> Iterator[Fault]:
    # A JobSet restarts its Jobs by a policy of its own.
    if pod.job is None or pod.owner_kind == "JobSet":
        return
    tiers = review.aim(pod).tiers
    has_policy = pod.job.get("spec", "podFailurePolicy") is not None
    # A Spot Job without any policy is the business of another rule.
    if not (tiers & {Tier.SPOT, Tier.FLEX_START} if has_policy else tiers == {Tier.FLEX_START}):
        return
    for container in pod.containers:
        code = _code_of(container)
        # Exit code 0 has a rule of its own.
        if not code or _is_handled(pod.job, code, container):
            continue
        told = container.variables.get(CODE_VARIABLE)
        yield container.fault(
            f"When interrupted, this container exits with {code}, and no rule of a "
            "podFailurePolicy ignores that: it counts as a failure.",
            at=told.at if told is not None else ("name",),
            fix=_fix(pod.job, code),
        )


def _code_of(container: Container) -> int | None:
    """What it exits with when interrupted; None where nothing tells."""
    told = container.variables.get(CODE_VARIABLE)
    if told is not None:
        is_number = told.value is not None and told.value.isdecimal() and len(told.value) < 4
        return int(told.value) if is_number and told.value else None
    names = [word.rpartition("/")[2] for word in container.words[:1]]
    is_ours = "outlast" in names or "OUTLAST_RUN_URL" in container.variables
    return INTERRUPTED_CODE if is_ours else None


def _is_handled(job: Job, code: int, container: Container) -> bool:
    """Whether some rule was written for it, so that somebody has decided."""
    return any(
        rule.codes is not None
        and rule.codes.has(code, container.name)
        and (rule.action == "Ignore" or not rule.codes.is_negated)
        for rule in rules_of(job)
    )


def _fix(job: Job, code: int) -> Fix | None:
    if not job.listed(*_RULES):
        return None
    # At the end of the list it only works if nothing before it takes this code.
    if any(rule.codes is not None and rule.codes.has(code) for rule in rules_of(job)):
        return None
    change = Append(_RULES, ignoring_code(code))
    return job.fix(f"Ignore exit code {code}", change, is_safe=False)
