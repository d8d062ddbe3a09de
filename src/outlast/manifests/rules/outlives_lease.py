"""Work that may take longer than its flex-start lease, and has nothing to resume from.

Why: a flex-start node is gone when its lease ends, after seven days at the most. What runs beyond
it is killed, and without a store to resume from it starts at zero on the next node, to be killed
there again.
Instead: save to an object store and resume from it (OUTLAST_RUN_URL); or set a deadline and a lease
that fit the work.
"""

from collections.abc import Iterator

from outlast._base.durations import format_duration
from outlast.manifests.lint.durability import may_reach_store
from outlast.manifests.lint.nodes import Path
from outlast.manifests.lint.pod import Pod
from outlast.manifests.lint.pools.model import LABEL_PREFIX, Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault, View

LEASE_SECONDS_MAX = 7 * 86_400
_LEASE_LABEL = LABEL_PREFIX + "gke-max-run-duration-seconds"
_LEASE_ANNOTATION = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"


@pod_rule("OL703", Severity.WARNING)
def outlives_lease(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not review.aim(pod).is_only(Tier.FLEX_START):
        return
    lease_seconds = _lease_seconds(pod, review)
    view, at, allowed_seconds = _deadline(pod)
    if allowed_seconds is None or allowed_seconds <= lease_seconds or may_reach_store(pod, review):
        return
    yield view.fault(
        f"The work may take {format_duration(allowed_seconds)}, the lease of its node ends after "
        f"{format_duration(lease_seconds)}, and nothing it mounts or names outlives that node.",
        at=at,
    )


def _deadline(pod: Pod) -> tuple[View, Path, int | None]:
    """How long the work is allowed to take: by its Pod, or by its Job."""
    at: Path = ("spec", "activeDeadlineSeconds")
    if pod.integer(*at) is not None or pod.job is None:
        return pod, at, pod.integer(*at)
    return pod.job, at, pod.job.integer(*at)


def _lease_seconds(pod: Pod, review: Review) -> float:
    """The lease that is asked for, else that of the pool, else the longest there is."""
    for text in (
        pod.text("spec", "nodeSelector", _LEASE_LABEL),
        pod.manifest.annotations.get(_LEASE_ANNOTATION),
    ):
        if text is not None and text.isascii() and text.isdecimal() and len(text) < 10:
            return min(int(text), LEASE_SECONDS_MAX)
    leases = [
        pool.run_seconds_max or LEASE_SECONDS_MAX
        for pool in review.pools
        if pod.demand.selects(pool.node_labels)
    ]
    return max(leases, default=LEASE_SECONDS_MAX)
