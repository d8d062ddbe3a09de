"""A program in a Job exits 0 when it is interrupted.

Why: many guides recommend saving on SIGTERM and exiting 0. In a Job, that loses work: since
Kubernetes 1.27, a Pod that exits 0 has succeeded, even on a node that is shutting down, so the Job
is marked as complete and the rest of the work is never done. A podFailurePolicy cannot prevent
this, because it applies only to failed Pods.
Instead: exit 0 only when the work is finished, exit with 75 when interrupted
(OUTLAST_EXIT_CODE=75), and add a podFailurePolicy that ignores that code. For a program that you
cannot change, use `outlast exec --distrust-zero`.
"""

import re
from collections.abc import Iterator

from outlast.manifests.rules.api import (
    INTERRUPTED_CODE,
    Container,
    Fault,
    NodeTier,
    Pod,
    Put,
    Review,
    Severity,
    ShellScript,
    pod_rule,
    script_in,
)

_VARIABLE = "OUTLAST_EXIT_CODE"
_SIGNALS = frozenset(("TERM", "SIGTERM", "15"))
_EXIT_ZERO = re.compile(r"\bexit\s+0\b")


@pod_rule("OL111", Severity.ERROR)
def exit_zero_in_job(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not review.placement(pod).tiers & {NodeTier.SPOT, NodeTier.FLEX_START}:
        return
    for container in pod.containers:
        yield from _by_variable(container)
        script = script_in(container, ("command",), ("args",))
        if script is not None and _traps_to_zero(script):
            yield container.fault(
                "The trap for SIGTERM exits 0, so an eviction marks the Job as complete.",
                at=script.at,
            )


def _by_variable(container: Container) -> Iterator[Fault]:
    variable = container.variables.get(_VARIABLE)
    if variable is None or variable.value is None or variable.value.strip() != "0":
        return
    yield container.fault(
        f"{_VARIABLE} is 0, so an eviction marks the Job as complete.",
        at=variable.at,
        # The Job needs a policy for the new code.
        fix=container.fix(
            f"Exit with {INTERRUPTED_CODE}",
            Put(variable.at, str(INTERRUPTED_CODE)),
            is_safe=False,
        ),
    )


def _traps_to_zero(script: ShellScript) -> bool:
    for call in script.calls:
        match call.words:
            case ("trap", handler, *signals) if _SIGNALS & set(signals):
                if _EXIT_ZERO.search(handler) or _EXIT_ZERO.search(_body(script, handler)):
                    return True
    return False


def _body(script: ShellScript, name: str) -> str:
    """The body of a shell function in the script; empty if it is not defined."""
    if not re.fullmatch(r"\w+", name):
        return ""
    head = re.compile(rf"\b{name}\s*\(\s*\)\s*\{{(.*?)(?:\n\s*\}}|;\s*\}})", re.DOTALL)
    found = head.search(script.text)
    return found[1] if found else ""
