"""The PriorityClass: evictable work gives way, but is still worth a node."""

from outlast.capacity.vocabulary import Kind
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value, Why


def priority_class_name(settled: Settled) -> str | None:
    """Named by its value, because a class is immutable and shared by the whole cluster."""
    if settled.workload.kind is Kind.SERVING:
        return None
    value = settled.workload.priority
    side = "below" if value < 0 else "above"
    return f"outlast-{abs(value)}-{side}-zero"


def priority_class_file(settled: Settled) -> RenderedFile | None:
    name = priority_class_name(settled)
    if name is None:
        return None
    body: Value = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name, "labels": {"app.kubernetes.io/managed-by": "outlast"}},
        "value": Why(
            settled.workload.priority,
            "Below 0, so that servers go first; not below -10, or the autoscaler makes no node.",
        ),
        "preemptionPolicy": Why("Never", "It waits for room and pushes nobody out."),
        "globalDefault": False,
        "description": "Work that can wait and survives eviction.",
    }
    return manifest("15-priority-class.yaml", body)
