"""A Pod selects a node pool but does not tolerate its taint.

Why: the selector allows only nodes of that pool, and the taint keeps the Pod off all of them. The
Pod stays Pending indefinitely, and the autoscaler adds no node for it.
Instead: add a toleration with the key, value and effect of the taint.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    CLASS_LABEL,
    POOL_LABEL,
    QUEUE_LABEL,
    QUEUED_LABEL,
    TIER_KEYS,
    Append,
    Change,
    Fault,
    NodePool,
    Path,
    Pod,
    Put,
    Review,
    Severity,
    Taint,
    pod_rule,
    queue_of,
)

# GKE adds the tolerations for these itself.
_GKE_TOLERATES = (CLASS_LABEL, QUEUED_LABEL, "google.com/tpu", "kubernetes.io/arch")
_GKE_TOLERATES_BELOW = ("sandbox.gke.io/",)
# These depend on the state of a node.
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node.gke.io/")
_PASSING_NAMES = ("DeletionCandidateOfClusterAutoscaler", "ToBeDeletedByClusterAutoscaler")


@pod_rule("OL507", Severity.WARNING)
def untolerated_taint(pod: Pod, review: Review) -> Iterator[Fault]:
    # Autopilot adds the tolerations for its taints, and Kueue flavors add their own.
    if review.capacity.is_autopilot or pod.owner_kind == "DaemonSet" or _is_queued(pod):
        return
    selected = [pool for pool in review.pools if _is_meant(pod, pool, review)]
    kept_off = [(pool, _untolerated(pod, pool)) for pool in selected]
    if not kept_off or any(not taints or not pool.knows_taints for pool, taints in kept_off):
        return
    pool, taints = kept_off[0]
    shown = ", ".join(repr(str(taint)) for taint in taints)
    others = f" (nor the taints of {len(kept_off) - 1} more)" if len(kept_off) > 1 else ""
    yield pod.fault(
        f"The Pod selects nodes of the pool {pool.name!r} but does not tolerate {shown}{others}, "
        "so it cannot run on any of them.",
        at=_place(pod, pool),
        # The taint may exclude the Pod on purpose.
        fix=pod.fix("Tolerate the taint", _toleration(pod, taints), is_safe=False)
        if len(kept_off) == len(taints) == 1
        else None,
    )


def _is_queued(pod: Pod) -> bool:
    return queue_of(pod.manifest) is not None or QUEUE_LABEL in pod.labels


def _is_meant(pod: Pod, pool: NodePool, review: Review) -> bool:
    """Whether the Pod selects this pool by its name, labels or tier.

    Other labels are inconclusive: unless all pools are known, another pool may have them.
    """
    asked = {requirement.key for term in pod.demand.alternatives for requirement in term}
    is_asked = asked & {POOL_LABEL, *pool.labels, *TIER_KEYS} or review.capacity.knows_empty_pools
    return bool(is_asked and pod.demand.selects(pool.node_labels))


def _untolerated(pod: Pod, pool: NodePool) -> list[Taint]:
    return [
        taint
        for taint in pool.taints
        if not pod.demand.tolerates([taint])
        and taint.key not in (*_GKE_TOLERATES, *_PASSING_NAMES)
        and not taint.key.startswith((*_GKE_TOLERATES_BELOW, *_PASSING))
    ]


def _place(pod: Pod, pool: NodePool) -> Path:
    """The path of the selector for the pool."""
    for key in pod.mapping("spec", "nodeSelector"):
        if key in pool.node_labels:
            return ("spec", "nodeSelector", key)
    return ("spec", "affinity", "nodeAffinity") if pod.mapping("spec", "affinity") else ("spec",)


def _toleration(pod: Pod, taints: list[Taint]) -> Change:
    (taint,) = taints
    toleration = {"key": taint.key, "operator": "Equal", "value": taint.value}
    if not taint.value:
        toleration = {"key": taint.key, "operator": "Exists"}
    toleration["effect"] = taint.effect
    if pod.listed("spec", "tolerations"):
        return Append(("spec", "tolerations"), toleration)
    return Put(("spec", "tolerations"), [toleration])
