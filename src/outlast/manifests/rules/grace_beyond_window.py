"""A Spot Pod counts on more time than a reclaimed node gives.

Why: when a Spot node is reclaimed, the kubelet kills Pods at the end of its own window, however
long their grace period is: after 15 s on a default pool, after 105 s where the pool sets
shutdownGracePeriodSeconds to 120. A final save that was planned with more is killed halfway. A
drain or a deletion does give the whole grace period, so tests by hand do not show it.
Instead: make the final save fit into the window and set terminationGracePeriodSeconds to it, or
give the pool the longer window (GKE 1.35 and newer).
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL102", Severity.WARNING)
def grace_beyond_window(pod: Pod, review: Review) -> Iterator[Fault]:
    grace = pod.grace_seconds
    if grace is None or pod.owner_kind == "DaemonSet" or not review.aim(pod).includes_spot:
        return
    window = review.window_seconds(pod)
    if grace <= window:
        return
    at = ("spec", "terminationGracePeriodSeconds")
    given = f"kills it after {window} s" if window else "gives no time at all"
    yield pod.fault(
        f"The grace period is {grace} s, but a reclaimed Spot node {given}.",
        at=at,
        # At a drain the whole grace period counts, and somebody may rely on it there.
        fix=pod.fix(f"Set the grace period to {window} s", Put(at, window), is_safe=False)
        if window
        else None,
    )
