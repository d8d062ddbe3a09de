"""A program in a Job that exits 0 when it is interrupted.

Why: guides tell programs to save on SIGTERM and exit 0. In a Job that is wrong: since Kubernetes
1.27 a Pod that exits 0 has succeeded, even on a node that goes away. The Job counts its work as
done, and it never will be. No podFailurePolicy can help, because none looks at a Pod that has not
failed.
Instead: exit 0 only when the work is finished, and with 75 when interrupted (OUTLAST_EXIT_CODE=75);
let a podFailurePolicy ignore that code. `outlast exec --distrust-zero` does it for a program that
cannot be changed.
"""

import re
from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.failure_policy import INTERRUPTED_CODE
from outlast.manifests.lint.pod import Container, Pod
from outlast.manifests.lint.pools.model import Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.script import Script, script_in
from outlast.manifests.lint.view import Fault

_VARIABLE = "OUTLAST_EXIT_CODE"
_SIGNALS = frozenset(("TERM", "SIGTERM", "15"))
_EXIT_ZERO = re.compile(r"\bexit\s+0\b")


@pod_rule("OL111", Severity.ERROR)
def exit_zero_in_job(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not review.aim(pod).tiers & {Tier.SPOT, Tier.FLEX_START}:
        return
    for container in pod.containers:
        yield from _by_variable(container)
        script = script_in(container, ("command",), ("args",))
        if script is not None and _traps_to_zero(script):
            yield container.fault(
                "The trap for SIGTERM exits 0, so that an eviction completes the Job.", at=script.at
            )


def _by_variable(container: Container) -> Iterator[Fault]:
    told = container.variables.get(_VARIABLE)
    if told is None or told.value is None or told.value.strip() != "0":
        return
    yield container.fault(
        f"{_VARIABLE} is 0, so that an eviction completes the Job.",
        at=told.at,
        # The Job must know what to make of the new code.
        fix=container.fix(
            f"Exit with {INTERRUPTED_CODE}",
            Put(told.at, str(INTERRUPTED_CODE)),
            is_safe=False,
        ),
    )


def _traps_to_zero(script: Script) -> bool:
    for call in script.calls:
        match call.words:
            case ("trap", handler, *signals) if _SIGNALS & set(signals):
                if _EXIT_ZERO.search(handler) or _EXIT_ZERO.search(_body(script, handler)):
                    return True
    return False


def _body(script: Script, name: str) -> str:
    """The body of a function of the script, empty if there is none."""
    if not re.fullmatch(r"\w+", name):
        return ""
    head = re.compile(rf"\b{name}\s*\(\s*\)\s*\{{(.*?)(?:\n\s*\}}|;\s*\}})", re.DOTALL)
    found = head.search(script.text)
    return found[1] if found else ""
