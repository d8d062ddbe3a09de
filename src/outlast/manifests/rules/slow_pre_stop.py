"""A preStop hook that takes all the time there is.

Why: the hook spends the same grace period as the program, and SIGTERM comes only after it. A hook
that sleeps as long as the grace period, or as the window of a reclaimed Spot node (15 s on a
default pool), leaves nothing: the program is killed before it hears of the end.
Instead: shorten the hook so that hook and final save fit together. A training job needs none.
"""

from collections.abc import Iterator

from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.pod import GRACE_SECONDS_DEFAULT, Container, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.script import script_in, sleep_seconds
from outlast.manifests.lint.view import Fault

_HOOK = ("lifecycle", "preStop")


@pod_rule("OL109", Severity.WARNING)
def slow_pre_stop(pod: Pod, review: Review) -> Iterator[Fault]:
    grace = pod.grace_seconds if pod.grace_seconds is not None else GRACE_SECONDS_DEFAULT
    is_spot = review.aim(pod).includes_spot and pod.owner_kind != "DaemonSet"
    window = review.window_seconds(pod) if is_spot else grace
    budget = min(grace, window)
    for container in pod.containers:
        seconds, at = _duration(container)
        if seconds is None or seconds < budget or not budget:
            continue
        whose = "of its grace period" if budget == grace else "that a reclaimed Spot node gives"
        yield container.fault(
            f"The preStop hook takes {seconds:g} s, and the Pod has the {budget} s {whose}: "
            "nothing is left for the program.",
            at=at,
        )


def _duration(container: Container) -> tuple[float | None, Path]:
    """How long the hook sleeps, as far as it can be read, and where that is written."""
    seconds = container.integer(*_HOOK, "sleep", "seconds")
    if seconds is not None:
        return seconds, (*_HOOK, "sleep", "seconds")
    command: Path = (*_HOOK, "exec", "command")
    words = [word for word in container.listed(*command) if isinstance(word, str)]
    alone = sleep_seconds(words)
    if alone is not None:
        return alone, command
    script = script_in(container, command)
    # How often a loop runs cannot be known.
    if script is None or script.has_loop:
        return None, command
    found = [sleep_seconds(call.words) for call in script.calls]
    total = sum(one for one in found if one is not None)
    return (total or None), script.at
