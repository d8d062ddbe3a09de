"""A Job may run longer than its flex-start node and has nothing to resume from.

Why: a flex-start node, or a node of queued provisioning (DWS), is deleted at the end of its maximum
run duration, after seven days at the latest. Work that takes longer is killed, and without durable
storage it starts over on the next node, where it is killed again.
Instead: save to an object store and resume from it (OUTLAST_RUN_URL), or set a deadline and a run
duration that fit the work.
"""

from collections.abc import Iterator

from outlast._base.durations import format_duration
from outlast.manifests.rules.api import (
    LABEL_PREFIX,
    Fault,
    NodeTier,
    ObjectView,
    Path,
    Pod,
    Review,
    Severity,
    may_reach_store,
    pod_rule,
)

RUN_SECONDS_MAX = 7 * 86_400
_DURATION_LABEL = LABEL_PREFIX + "gke-max-run-duration-seconds"
_DURATION_ANNOTATION = "provreq.kueue.x-k8s.io/maxRunDurationSeconds"


@pod_rule("OL703", Severity.WARNING)
def exceeds_run_duration(pod: Pod, review: Review) -> Iterator[Fault]:
    if pod.job is None or not review.placement(pod).is_only(NodeTier.FLEX_START):
        return
    run_seconds = _run_seconds(pod, review)
    view, at, allowed_seconds = _deadline(pod)
    if allowed_seconds is None or allowed_seconds <= run_seconds or may_reach_store(pod, review):
        return
    yield view.fault(
        f"The work may take {format_duration(allowed_seconds)}, but its node is deleted after "
        f"{format_duration(run_seconds)}, and nothing it mounts or refers to survives that node.",
        at=at,
    )


def _deadline(pod: Pod) -> tuple[ObjectView, Path, int | None]:
    """How long the work may take according to its Pod or its Job."""
    at: Path = ("spec", "activeDeadlineSeconds")
    if pod.integer(*at) is not None or pod.job is None:
        return pod, at, pod.integer(*at)
    return pod.job, at, pod.job.integer(*at)


def _run_seconds(pod: Pod, review: Review) -> float:
    """The requested run duration, else that of the pool, else the longest allowed."""
    request = review.find("ProvisioningRequest", pod.provisioning_request or "", near=pod.manifest)
    for text in (
        pod.text("spec", "nodeSelector", _DURATION_LABEL),
        pod.manifest.annotations.get(_DURATION_ANNOTATION),
        request.text("spec", "parameters", "maxRunDurationSeconds") if request else None,
    ):
        if text is not None and text.isascii() and text.isdecimal() and len(text) < 10:
            return min(int(text), RUN_SECONDS_MAX)
    durations = [
        pool.run_seconds_max or RUN_SECONDS_MAX
        for pool in review.pools
        if pod.demand.selects(pool.node_labels)
    ]
    return max(durations, default=RUN_SECONDS_MAX)
