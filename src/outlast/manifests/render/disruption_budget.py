"""The PodDisruptionBudget, only where one works."""

from outlast.capacity.vocabulary import Kind
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value, Why


def disruption_budget_file(settled: Settled) -> RenderedFile | None:
    """For servers with a spare replica, and for training that must not be disturbed.

    None on capacity that is reclaimed: a budget gates evictions through the API only.
    """
    workload = settled.workload
    if workload.kind is Kind.SERVING:
        if workload.pods < 2:
            return None
        limit: dict[str, Value] = {
            "maxUnavailable": Why(1, "One at a time; a drain waits until its replacement serves.")
        }
    elif workload.kind is Kind.TRAINING and not workload.interruptible:
        limit = {
            "minAvailable": Why(
                workload.pods,
                "An integer: over Pods of a Job, percentages and maxUnavailable never work.",
            )
        }
    else:
        return None
    body: Value = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {
            "name": settled.name,
            "namespace": settled.namespace,
            "labels": settled.labels,
        },
        "spec": {**limit, "selector": {"matchLabels": settled.selector}},
    }
    reason = "Gates drains and upgrades. It does not stop a Spot reclaim, nor the end of a lease."
    return manifest("55-pod-disruption-budget.yaml", body, reason=reason)
