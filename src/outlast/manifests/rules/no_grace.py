"""A Spot Pod that does not say how long its final save may take.

Why: when a Spot node is reclaimed, a Pod gets the smaller of its grace period and the kubelet's
window, which is 15 s on a default pool. Without a written grace period it is 30 s, so a save that
was planned with it is killed halfway, and the work since the last one is lost.
Instead: set terminationGracePeriodSeconds to what the node pool's window really leaves, 15 on a
default pool, and keep the final save shorter than that.
"""

from collections.abc import Iterator

from outlast.manifests.lint.changes import Put
from outlast.manifests.lint.pod import GRACE_SECONDS_DEFAULT, Pod
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL101", Severity.WARNING)
def no_grace(pod: Pod, review: Review) -> Iterator[Fault]:
    if not review.aim(pod).includes_spot or pod.owner_kind == "DaemonSet":
        return
    if pod.get("spec", "terminationGracePeriodSeconds") is not None:
        return
    at = ("spec", "terminationGracePeriodSeconds")
    window = review.window_seconds(pod)
    yield pod.fault(
        f"No grace period is set, so the default of {GRACE_SECONDS_DEFAULT} s is promised; "
        f"a reclaimed Spot node gives {window} s.",
        at=at,
        # It also changes the time at a drain, where the whole grace period counts.
        fix=pod.fix(f"Set the grace period to {window} s", Put(at, window), is_safe=False)
        if window
        else None,
    )
