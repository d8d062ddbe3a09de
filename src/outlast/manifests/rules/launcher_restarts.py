"""A launcher restarts its ranks on a node that is being reclaimed.

Why: with --max-restarts, torchrun and `accelerate launch` start all ranks of the Pod again when one
of them fails, and every exit code except 0 is a failure to them. When ranks save and exit because
of an eviction, they are restarted at once on the node that is about to disappear. Neither the Job
nor the JobSet learns that they were interrupted, and the rest of the grace period is lost.
Instead: set --max-restarts to 0, which is the default, and let the Job or the JobSet restart the
Pods. With a range of nodes (--nnodes 1:4) restarts are part of elastic training and not reported.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    ContainerLauncher,
    Fault,
    Pod,
    Review,
    Severity,
    launchers_in,
    pod_rule,
)


@pod_rule("OL113", Severity.WARNING)
def launcher_restarts(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not review.placement(pod).includes_spot:
        return
    for container in pod.containers:
        for launcher in launchers_in(container):
            yield from _restarting(launcher)


def _restarting(launcher: ContainerLauncher) -> Iterator[Fault]:
    restarts = launcher.setting("max-restarts")
    if restarts is None or not restarts.number or launcher.is_elastic:
        return
    container, change = launcher.container, restarts.put(0)
    times = "once" if restarts.number == 1 else f"up to {restarts.number} times"
    yield container.fault(
        f"{launcher.name} restarts its ranks {times} in the same Pod, so ranks that stop for an "
        "eviction start again on the node that is being reclaimed.",
        at=restarts.at,
        # Real failures are then retried by the Job, which has a limit of its own.
        fix=container.fix("Leave restarts to the Job", change, is_safe=False) if change else None,
    )
