"""No alert says that a workload still waits for its nodes.

Why: Spot and flex-start nodes come when there are some. A Pod that waits is Pending, not failed, so
nothing restarts, nothing logs, and a Job can wait for days before somebody looks.
Instead: alert on the time that Pods are Pending, for instance on kube_pod_status_phase with
phase="Pending", or on kueue_pending_workloads where Kueue holds the Jobs. `outlast render` writes
such rules.
"""

import re
from collections.abc import Iterator

from outlast.manifests.lint.alerts import alert_texts
from outlast.manifests.lint.pools.model import Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, review_rule
from outlast.manifests.lint.view import Fault, Manifest

_WAITING = re.compile(r"pending|unschedulable|admission_wait", re.IGNORECASE)


@review_rule("OL301", Severity.INFO)
def no_pending_alert(review: Review) -> Iterator[Fault]:
    if any(_watches_waiting(manifest) for manifest in review.manifests):
        return
    waiting = [
        pod
        for pod in review.pods
        if pod.owner_kind != "DaemonSet" and review.aim(pod).tiers & {Tier.SPOT, Tier.FLEX_START}
    ]
    owners = {id(pod.manifest) for pod in waiting}
    if waiting:
        others = f" and {len(owners) - 1} more" if len(owners) > 1 else ""
        first = waiting[0].manifest
        yield first.fault(
            f"{first}{others} may wait long for nodes, and no alert in these files watches that.",
            at=("metadata", "name"),
        )


def _watches_waiting(manifest: Manifest) -> bool:
    return any(_WAITING.search(text) for _, text in alert_texts(manifest))
