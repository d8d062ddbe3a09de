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
    Fault,
    KubernetesObject,
    NodeTier,
    Review,
    Severity,
    alert_texts,
    review_rule,
)

_WAITING = re.compile(r"pending|unschedulable|admission_wait", re.IGNORECASE)


@review_rule("OL301", Severity.INFO)
def no_pending_alert(review: Review) -> Iterator[Fault]:
    if any(_watches_waiting(manifest) for manifest in review.manifests):
        return
    waiting = [
        pod
        for pod in review.own_pods
        if pod.owner_kind != "DaemonSet"
        and review.placement(pod).tiers & {NodeTier.SPOT, NodeTier.FLEX_START}
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


def _watches_waiting(manifest: KubernetesObject) -> bool:
    return any(_WAITING.search(text) for _, text in alert_texts(manifest))
