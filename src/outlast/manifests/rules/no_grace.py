"""A Spot Pod does not set its grace period.

Why: when a Spot node is reclaimed, a Pod gets the shorter of its grace period and the kubelet's
shutdown window, which is 15 s on a default node pool. The default grace period is 30 s, so a final
save that relies on it is killed before it completes, and the work since the previous save is lost.
Instead: set terminationGracePeriodSeconds to the shutdown window of the node pool, 15 on a default
pool, and keep the final save shorter than that.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    GRACE_SECONDS_DEFAULT,
    Evidence,
    Fault,
    Pod,
    Put,
    Review,
    Severity,
    pod_rule,
)


@pod_rule("OL101", Severity.WARNING)
def no_grace(pod: Pod, review: Review) -> Iterator[Fault]:
    placement = review.placement(pod)
    if not placement.includes_spot or pod.owner_kind == "DaemonSet":
        return
    if pod.get("spec", "terminationGracePeriodSeconds") is not None or pod.only_waits:
        return
    at = ("spec", "terminationGracePeriodSeconds")
    window = review.window_seconds(pod)
    yield pod.fault(
        f"No grace period is set. The default is {GRACE_SECONDS_DEFAULT} s, but a reclaimed Spot "
        f"node gives the Pod {window} s.",
        at=at,
        # It also changes the time that a drain allows, which is the full grace period.
        fix=pod.fix(f"Set the grace period to {window} s", Put(at, window), is_safe=False)
        if window
        else None,
        # A server keeps no state: the next replica answers. A preference may never take hold.
        is_minor=pod.is_server or placement.by is Evidence.PREFERENCE,
    )
