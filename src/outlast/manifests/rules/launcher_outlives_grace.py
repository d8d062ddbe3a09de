"""A launcher waits longer for its ranks than the Pod has to stop.

Why: after SIGTERM, torchrun and `accelerate launch` give their ranks 30 s before they kill them,
but a reclaimed Spot node kills the Pod after 15 s unless its pool has a longer window. A rank that
hangs in a collective is then killed together with its launcher, which cannot report what happened:
the container exits with 137, as if it had run out of memory.
Instead: run the launcher under `outlast exec --`, which fits the timeout to the grace period, or
set TORCH_ELASTIC_SHUTDOWN_TIMEOUT a few seconds below what the Pod really gets.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    GRACE_SECONDS_DEFAULT,
    SHUTDOWN_SECONDS_DEFAULT,
    SHUTDOWN_VARIABLE,
    ContainerLauncher,
    Fault,
    Pod,
    Review,
    Severity,
    launchers_in,
    pod_rule,
)

_RESERVE_SECONDS = 2


@pod_rule("OL115", Severity.WARNING)
def launcher_outlives_grace(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not review.placement(pod).includes_spot:
        return
    grace = GRACE_SECONDS_DEFAULT if pod.grace_seconds is None else pod.grace_seconds
    given = min(grace, review.window_seconds(pod))
    for container in pod.containers:
        for launcher in launchers_in(container):
            yield from _outliving(launcher, given)


def _outliving(launcher: ContainerLauncher, given: int) -> Iterator[Fault]:
    timeout, container = launcher.setting("shutdown-timeout", SHUTDOWN_VARIABLE), launcher.container
    if timeout is None:
        if not launcher.is_supervised and given < SHUTDOWN_SECONDS_DEFAULT:
            yield container.fault(
                f"{launcher.name} waits {SHUTDOWN_SECONDS_DEFAULT} s for its ranks by default, but "
                f"the Pod is killed {given} s after the notice.",
                at=launcher.at,
            )
        return
    if timeout.number is None or timeout.number <= given:
        return
    better = max(1, given - _RESERVE_SECONDS)
    change = timeout.put(better)
    yield container.fault(
        f"{launcher.name} waits {timeout.number} s for its ranks, but the Pod is killed {given} s "
        "after the notice.",
        at=timeout.at,
        # A drain allows the full grace period, and someone may rely on that.
        fix=container.fix(f"Wait {better} s", change, is_safe=False) if change else None,
    )
