"""A Pod tolerates the taint of Spot nodes but does not select them.

Why: a toleration permits a node, but does not request it. Without a selector the scheduler uses any
node that fits, and while an on-demand node has room, the Pod runs there at full price.
Instead: add the nodeSelector cloud.google.com/gke-spot: "true", or select the pool by its own
label.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    SPOT_LABEL,
    Change,
    Evidence,
    Fault,
    NodeTier,
    Pod,
    Put,
    Review,
    Severity,
    pod_rule,
    selects_pool,
)

_ACCELERATOR_TAINTS = ("nvidia.com/gpu", "amd.com/gpu", "google.com/tpu")


@pod_rule("OL501", Severity.WARNING)
def tolerated_not_selected(pod: Pod, review: Review) -> Iterator[Fault]:
    aim = review.placement(pod)
    if aim.by is not Evidence.TOLERATION or aim.toleration is None or pod.owner_kind == "DaemonSet":
        return
    # Kueue assigns queued nodes to a Pod without a selector.
    if not aim.is_only(NodeTier.SPOT) or selects_pool(pod.demand):
        return
    # The taint of accelerator nodes: all Pods that request one tolerate it, on any tier.
    if aim.toleration.key in _ACCELERATOR_TAINTS:
        return
    if _tolerates_on_demand(pod, review) or _is_for_several_pools(pod):
        return
    yield pod.fault(
        f"The Pod tolerates the taint {str(aim.toleration)!r} of Spot nodes but does not select "
        "them, so it may use on-demand nodes.",
        at=("spec", "tolerations", aim.toleration.index, "key"),
        # The Pod may stay Pending where it runs today.
        fix=pod.fix("Select Spot nodes", _selection(pod), is_safe=False),
    )


def _tolerates_on_demand(pod: Pod, review: Review) -> bool:
    """Whether it names the taint of an on-demand pool too, and is meant for both."""
    taints = [
        taint for pool in review.pools if pool.tier is NodeTier.ON_DEMAND for taint in pool.taints
    ]
    return any(one.key and one.matches(taint) for one in pod.demand.tolerations for taint in taints)


def _is_for_several_pools(pod: Pod) -> bool:
    """Whether it tolerates two values of one key, which no node has at once."""
    values: dict[str, set[str]] = {}
    for one in pod.demand.tolerations:
        if one.key and one.value:
            values.setdefault(one.key, set()).add(one.value)
    return any(len(found) > 1 for found in values.values())


def _selection(pod: Pod) -> Change:
    if pod.mapping("spec", "nodeSelector"):
        return Put(("spec", "nodeSelector", SPOT_LABEL), "true")
    return Put(("spec", "nodeSelector"), {SPOT_LABEL: "true"})
