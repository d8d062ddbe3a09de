"""Where Pods may run: the selectors, tolerations and affinity of each tier."""

from outlast.capacity.vocabulary import Tier
from outlast.manifests.conventions import (
    ACCELERATOR_LABEL,
    CLASS_LABEL,
    FLEX_START_LABEL,
    MAX_RUN_LABEL,
    POOL_LABEL,
    PREEMPTIBLE_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
)
from outlast.manifests.render.resolved import ResolvedWorkload
from outlast.yamltext.writing import Commented, Value


def placement(resolved: ResolvedWorkload) -> dict[str, Value]:
    """The keys of a Pod's spec that choose its node."""
    keys: dict[str, Value] = {}
    if selector := _selector(resolved):
        keys["nodeSelector"] = selector
    if tolerations := _tolerations(resolved):
        keys["tolerations"] = tolerations
    if resolved.tier is Tier.ON_DEMAND and not resolved.is_autopilot:
        keys["affinity"] = _away_from_preemptible()
    return keys


def _selector(resolved: ResolvedWorkload) -> dict[str, Value]:
    if resolved.tier is Tier.HYBRID:
        # The class chooses the hardware; a second selector could contradict it.
        reason = (
            "The ComputeClass tries its tiers in order. Do not add a gke-spot selector: GKE can "
        )
        reason += "reject such Pods."
        return {CLASS_LABEL: Commented(resolved.cluster_wide_name, reason)}
    selector: dict[str, Value] = {}
    if resolved.tier is Tier.SPOT:
        selector[SPOT_LABEL] = Commented(
            "true", "Required: a toleration alone does not place Pods on Spot nodes."
        )
    if resolved.tier is Tier.FLEX_START:
        selector.update(_flex_start_selector(resolved))
    if resolved.workload.accelerator is not None:
        selector[ACCELERATOR_LABEL] = resolved.workload.accelerator.type
    if resolved.pool is not None:
        selector.update(resolved.pool.labels)
    return selector


def _flex_start_selector(resolved: ResolvedWorkload) -> dict[str, Value]:
    selector: dict[str, Value] = {}
    if resolved.is_queued:
        assert resolved.pool is not None
        reason = "Nodes for queued requests are created in this node pool only."
        selector[POOL_LABEL] = Commented(resolved.pool.name, reason)
    else:
        reason = "Requests a flex-start node: not preempted, but removed when its lease ends."
        selector[FLEX_START_LABEL] = Commented("true", reason)
    if resolved.is_autopilot:
        seconds = int(resolved.workload.max_run.total_seconds())
        selector[MAX_RUN_LABEL] = Commented(str(seconds), "The lifetime of the node in seconds.")
    return selector


def _tolerations(resolved: ResolvedWorkload) -> list[Value]:
    # GPU taints need no toleration here: an admission plugin adds it to Pods that request GPUs.
    tolerations: list[Value] = []
    if resolved.pool is not None:
        for index, taint in enumerate(resolved.pool.taints):
            toleration: dict[str, Value] = {
                "key": taint.key,
                "operator": "Equal",
                "value": taint.value,
                "effect": str(taint.effect),
            }
            if index == 0:
                pool = resolved.pool.name
                toleration["key"] = Commented(
                    taint.key, f"Must match the taint of node pool {pool} exactly."
                )
            tolerations.append(toleration)
    if resolved.is_queued:
        tolerations.append(
            {
                "key": Commented(
                    QUEUED_LABEL, "GKE adds this taint to every node pool for queued provisioning."
                ),
                "operator": "Equal",
                "value": "true",
                "effect": "NoSchedule",
            }
        )
    return tolerations


def _away_from_preemptible() -> Value:
    expressions: list[Value] = [
        {"key": key, "operator": "DoesNotExist"}
        for key in (SPOT_LABEL, PREEMPTIBLE_LABEL, FLEX_START_LABEL)
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": Commented(
                {"nodeSelectorTerms": [{"matchExpressions": expressions}]},
                "All three: keeps the Pod off every kind of node that can be taken away.",
            )
        }
    }
