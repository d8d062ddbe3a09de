"""The grace period is longer than a reclaimed Spot node allows.

Why: when a Spot node is reclaimed, the kubelet kills its Pods at the end of its own shutdown
window, even if their grace period is longer: after 15 s on a default node pool, or after 105 s if
the pool sets shutdownGracePeriodSeconds to 120. A final save that needs more time is killed before
it completes. Manual tests do not show this, because a drain or a deletion allows the full grace
period.
Instead: make the final save fit into the window and set terminationGracePeriodSeconds to the same
value, or give the pool the longer window (GKE 1.35 and later).
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import Fault, Pod, Put, Review, Severity, pod_rule


@pod_rule("OL102", Severity.WARNING)
def grace_beyond_window(pod: Pod, review: Review) -> Iterator[Fault]:
    grace = pod.grace_seconds
    if grace is None or pod.owner_kind == "DaemonSet" or not review.placement(pod).includes_spot:
        return
    window = review.window_seconds(pod)
    if grace <= window:
        return
    at = ("spec", "terminationGracePeriodSeconds")
    given = f"kills the Pod after {window} s" if window else "gives the Pod no time at all"
    yield pod.fault(
        f"The grace period is {grace} s, but a reclaimed Spot node {given}.",
        at=at,
        # A drain allows the full grace period, and someone may rely on that.
        fix=pod.fix(f"Set the grace period to {window} s", Put(at, window), is_safe=False)
        if window
        else None,
        # A server has nothing to save; the rest of the time is for its rollouts.
        is_minor=pod.is_server,
    )
