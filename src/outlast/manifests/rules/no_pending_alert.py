"""No alert fires when a workload waits for nodes.

Why: Spot and flex-start nodes start only when capacity is available. A Pod that waits for one is
Pending, not failed, so nothing restarts and nothing is logged, and a Job can wait for days before
anyone notices.
Instead: alert on how long Pods are Pending, for example with kube_pod_status_phase and
phase="Pending", or with kueue_pending_workloads if Kueue queues the Jobs. `outlast render`
generates such alerts.
"""

import re
from collections.abc import Iterator

from outlast.manifests.rules.api import (
    Evidence,
    Fault,
    KubernetesObject,
    NodeTier,
    Pod,
    Review,
    Severity,
    alert_texts,
    review_rule,
    selects_pool,
)

# Nobody waits for a Pod of a DaemonSet. A Pod without an owner is watched by who created it.
_NOT_AWAITED = ("DaemonSet", "Pod")
_WAITING = re.compile(r"pending|unschedulable|admission_wait", re.IGNORECASE)


@review_rule("OL301", Severity.INFO)
def no_pending_alert(review: Review) -> Iterator[Fault]:
    if any(_watches_waiting(manifest) for manifest in review.manifests):
        return
    waiting = [
        pod
        for pod in review.own_pods
        if pod.owner_kind not in _NOT_AWAITED and _may_wait(pod, review) and not pod.only_waits
    ]
    owners = {id(pod.manifest) for pod in waiting}
    if waiting:
        others = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
        first = waiting[0].manifest
        yield first.fault(
            f"{first}{others} may wait a long time for nodes, but no alert in these files covers "
            "that.",
            at=("metadata", "name"),
        )


def _may_wait(pod: Pod, review: Review) -> bool:
    aim = review.placement(pod)
    if aim.by is Evidence.PREFERENCE:
        return False
    # On-demand nodes without an accelerator are seldom hard to get.
    if not pod.accelerators and (aim.by is Evidence.TOLERATION or NodeTier.ON_DEMAND in aim.tiers):
        return False
    # It may select a pool of another tier, too, which is not in these files.
    if aim.by is Evidence.TOLERATION and selects_pool(pod.demand):
        return False
    return bool(aim.tiers & {NodeTier.SPOT, NodeTier.FLEX_START})


def _watches_waiting(manifest: KubernetesObject) -> bool:
    return any(_WAITING.search(text) for _, text in alert_texts(manifest))
