"""Where Pods may run: selectors, tolerations and affinity for each tier."""

from outlast.capacity.vocabulary import Tier
from outlast.manifests.render.settled import (
    ACCELERATOR,
    COMPUTE_CLASS,
    FLEX_START,
    MAX_RUN,
    NODE_POOL,
    PREEMPTIBLE,
    QUEUED,
    SPOT,
    Settled,
)
from outlast.manifests.render.text import Value, Why


def placement(settled: Settled) -> dict[str, Value]:
    """The keys of a Pod's spec that choose its node."""
    keys: dict[str, Value] = {}
    if selector := _selector(settled):
        keys["nodeSelector"] = selector
    if tolerations := _tolerations(settled):
        keys["tolerations"] = tolerations
    if settled.tier is Tier.ON_DEMAND and not settled.is_autopilot:
        keys["affinity"] = _away_from_preemptible()
    return keys


def _selector(settled: Settled) -> dict[str, Value]:
    if settled.tier is Tier.HYBRID:
        # The class decides on the hardware; a second selector could contradict one of its choices.
        reason = "The ComputeClass tries its tiers in order. No gke-spot selector beside it: GKE "
        reason += "can reject such Pods."
        return {COMPUTE_CLASS: Why(settled.cluster_wide_name, reason)}
    selector: dict[str, Value] = {}
    if settled.tier is Tier.SPOT:
        selector[SPOT] = Why(
            "true", "A toleration alone sends nothing to Spot: only this selector does."
        )
    if settled.tier is Tier.FLEX_START:
        selector.update(_flex_start_selector(settled))
    if settled.workload.accelerator is not None:
        selector[ACCELERATOR] = settled.workload.accelerator.type
    if settled.pool is not None:
        selector.update(settled.pool.labels)
    return selector


def _flex_start_selector(settled: Settled) -> dict[str, Value]:
    selector: dict[str, Value] = {}
    if settled.is_queued:
        assert settled.pool is not None
        reason = "Queued nodes are made for the request alone, in this pool."
        selector[NODE_POOL] = Why(settled.pool.name, reason)
    else:
        reason = "Asks for a flex-start node: not preempted, but gone at the end of its lease."
        selector[FLEX_START] = Why("true", reason)
    if settled.is_autopilot:
        seconds = int(settled.workload.max_run.total_seconds())
        selector[MAX_RUN] = Why(str(seconds), "How long the node lives, in seconds.")
    return selector


def _tolerations(settled: Settled) -> list[Value]:
    # GPU taints need none: the admission plug-in adds theirs from the requests.
    tolerations: list[Value] = []
    if settled.pool is not None:
        for index, taint in enumerate(settled.pool.taints):
            toleration: dict[str, Value] = {
                "key": taint.key,
                "operator": "Equal",
                "value": taint.value,
                "effect": str(taint.effect),
            }
            if index == 0:
                pool = settled.pool.name
                toleration["key"] = Why(taint.key, f"The taint of node pool {pool}, word for word.")
            tolerations.append(toleration)
    if settled.is_queued:
        tolerations.append(
            {
                "key": Why(QUEUED, "GKE puts this taint on every pool for queued provisioning."),
                "operator": "Equal",
                "value": "true",
                "effect": "NoSchedule",
            }
        )
    return tolerations


def _away_from_preemptible() -> Value:
    expressions: list[Value] = [
        {"key": key, "operator": "DoesNotExist"} for key in (SPOT, PREEMPTIBLE, FLEX_START)
    ]
    return {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": Why(
                {"nodeSelectorTerms": [{"matchExpressions": expressions}]},
                "All three at once: stays off every kind of node that is taken away.",
            )
        }
    }
