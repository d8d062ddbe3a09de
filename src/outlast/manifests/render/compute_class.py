"""The ComputeClass of a hybrid: GKE tries its tiers in order and makes the nodes itself."""

from outlast.capacity.cluster import LONG_WINDOW
from outlast.capacity.vocabulary import Tier
from outlast.manifests.render.files import RenderedFile, manifest
from outlast.manifests.render.settled import Settled
from outlast.manifests.render.text import Value, Why


def compute_class_file(settled: Settled) -> RenderedFile | None:
    if settled.tier is not Tier.HYBRID:
        return None
    body: Value = {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": settled.cluster_wide_name, "labels": settled.labels},
        "spec": {
            "priorities": [_priority(settled, tier) for tier in settled.hybrid_order],
            "nodePoolAutoCreation": {"enabled": True},
            "activeMigration": {
                "optimizeRulePriority": Why(
                    False, "Moving back to a cheaper node would be one more interruption."
                )
            },
            "whenUnsatisfiable": Why(
                "DoNotScaleUp", "Any other node would lack the accelerator, or cost the most."
            ),
        },
    }
    reason = f"Tried from the top: {', '.join(settled.hybrid_order)}. {settled.tier_reason}"
    return manifest("35-compute-class.yaml", body, reason=reason)


def _priority(settled: Settled, tier: Tier) -> Value:
    workload = settled.workload
    priority: dict[str, Value] = {"machineType": workload.machine_type}
    if workload.accelerator is not None:
        priority["gpu"] = {
            "type": workload.accelerator.type,
            "count": workload.accelerator.count,
            "driverVersion": "default",
        }
    if tier is Tier.SPOT:
        priority["spot"] = True
        if workload.cluster.shutdown_window == LONG_WINDOW:
            seconds = int(LONG_WINDOW.total_seconds())
            priority["nodeSystemConfig"] = {
                "kubeletConfig": {"shutdownGracePeriodSeconds": seconds}
            }
    if tier is Tier.ON_DEMAND:
        priority["spot"] = False
    if tier is Tier.FLEX_START:
        lead = int(workload.hybrid.recycle_lead.total_seconds())
        priority["maxRunDurationSeconds"] = int(workload.max_run.total_seconds())
        priority["flexStart"] = {
            "enabled": True,
            "nodeRecycling": Why(
                {"leadTimeSeconds": lead},
                "A replacement is sought this long before the lease ends.",
            ),
        }
    return priority
