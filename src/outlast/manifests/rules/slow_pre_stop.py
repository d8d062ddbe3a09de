"""A preStop hook uses up the entire grace period.

Why: the hook and the program share one grace period, and SIGTERM is sent only after the hook ends.
A hook that sleeps for the entire grace period, or for the window of a reclaimed Spot node (15 s on
a default pool), leaves no time: the program is killed before it receives SIGTERM.
Instead: shorten the hook so that the hook and the final save fit together. A training job needs no
preStop hook.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    GRACE_SECONDS_DEFAULT,
    Container,
    Fault,
    Path,
    Pod,
    Review,
    Severity,
    pod_rule,
    script_in,
    sleep_seconds,
)

_HOOK = ("lifecycle", "preStop")


@pod_rule("OL109", Severity.WARNING)
def slow_pre_stop(pod: Pod, review: Review) -> Iterator[Fault]:
    grace = pod.grace_seconds if pod.grace_seconds is not None else GRACE_SECONDS_DEFAULT
    is_spot = review.placement(pod).includes_spot and pod.owner_kind != "DaemonSet"
    window = review.window_seconds(pod) if is_spot else grace
    budget = min(grace, window)
    for container in pod.containers:
        seconds, at = _duration(container)
        if seconds is None or seconds < budget or not budget:
            continue
        limit = "the grace period is" if budget == grace else "a reclaimed Spot node gives the Pod"
        yield container.fault(
            f"The preStop hook takes {seconds:g} s, but {limit} {budget} s: no time is left for "
            "the program.",
            at=at,
        )


def _duration(container: Container) -> tuple[float | None, Path]:
    """How long the hook sleeps, if that can be determined, and where that is set."""
    seconds = container.integer(*_HOOK, "sleep", "seconds")
    if seconds is not None:
        return seconds, (*_HOOK, "sleep", "seconds")
    command: Path = (*_HOOK, "exec", "command")
    words = [word for word in container.listed(*command) if isinstance(word, str)]
    alone = sleep_seconds(words)
    if alone is not None:
        return alone, command
    script = script_in(container, command)
    # How often a loop runs is unknown.
    if script is None or script.has_loop:
        return None, command
    found = [sleep_seconds(call.words) for call in script.calls]
    total = sum(one for one in found if one is not None)
    return (total or None), script.at
