"""Which Pods are evicted first: the PriorityClass, and the PodDisruptionBudget if it helps."""

from outlast.capacity.vocabulary import WorkloadKind
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value


def priority_class_name(resolved: ResolvedWorkload) -> str | None:
    """Named after its value, because a class is immutable and shared by the entire cluster."""
    if resolved.workload.kind is WorkloadKind.SERVING:
        return None
    value = resolved.workload.priority
    if value == 0:
        return "outlast-zero"
    side = "below" if value < 0 else "above"
    return f"outlast-{abs(value)}-{side}-zero"


def priority_class_file(resolved: ResolvedWorkload) -> RenderedFile | None:
    name = priority_class_name(resolved)
    if name is None:
        return None
    body: Value = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "outlast"}},
        "value": Commented(resolved.workload.priority, _value_reason(resolved)),
        "preemptionPolicy": Commented(
            "Never", "It waits for capacity and never preempts other Pods."
        ),
        "description": "Workloads that can wait and that survive eviction.",
    }
    return manifest("15-priority-class.yaml", body)


def _value_reason(resolved: ResolvedWorkload) -> str:
    if resolved.workload.priority < 0:
        return (
            "Below 0, so that servers are scheduled first; below -10 the autoscaler adds no nodes."
        )
    if resolved.workload.nodes > 1:
        return "Not below 0: preempting one Pod would restart all nodes."
    return ""


def disruption_budget_file(resolved: ResolvedWorkload) -> RenderedFile | None:
    """For servers with a spare replica, and for training that must not be interrupted.

    None on capacity that can be reclaimed: a budget only limits evictions through the API.
    """
    workload = resolved.workload
    if workload.kind is WorkloadKind.SERVING:
        if workload.pods < 2:
            return None
        limit: dict[str, Value] = {
            "maxUnavailable": Commented(
                1, "One at a time: a drain waits until the replacement is ready."
            )
        }
    elif workload.kind is WorkloadKind.TRAINING and not workload.interruptible:
        limit = {
            "minAvailable": Commented(
                workload.pods,
                "An integer: percentages and maxUnavailable do not work for the Pods of a Job.",
            )
        }
    else:
        return None
    body: Value = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": resolved.metadata,
        "spec": {
            **limit,
            "unhealthyPodEvictionPolicy": Commented(
                "AlwaysAllow", "Pods that are not ready anyway must not block a drain."
            ),
            "selector": {"matchLabels": resolved.selector},
        },
    }
    reason = "Limits drains and upgrades. It cannot stop a Spot reclaim or the end of a lease."
    return manifest("55-pod-disruption-budget.yaml", body, reason=reason)
