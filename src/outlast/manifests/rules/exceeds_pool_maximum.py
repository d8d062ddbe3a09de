"""The Pods request more GPUs than the node pool can provide.

Why: a node pool stops growing at its maximum size. Pods that do not fit stay Pending until others
finish, and a distributed job whose Pods must all start together never starts.
Instead: run fewer Pods at once, or raise the maximum size of the pool, and the GPU quota if
necessary.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    GPU,
    POOL_LABEL,
    Evidence,
    Fault,
    NodePool,
    Pod,
    Review,
    Severity,
    built_in,
    pod_rule,
    pods_at_once,
)


@pod_rule("OL603", Severity.WARNING)
def exceeds_pool_maximum(pod: Pod, review: Review) -> Iterator[Fault]:
    count, gpus = pods_at_once(pod), pod.amount(GPU)
    if count is None or not gpus or not _knows_pools(pod, review):
        return
    pools = [
        pool
        for pool in review.pools
        if pod.demand.selects(pool.node_labels) and pod.demand.tolerates(pool.taints)
    ]
    room = [_room(pool, gpus) for pool in pools]
    known = [one for one in room if one is not None]
    if not pools or len(known) < len(room) or sum(known) >= count.pods:
        return
    names = " and ".join(repr(pool.name) for pool in pools)
    where = "node pool" if len(pools) == 1 else "node pools"
    noun = "GPU" if gpus == 1 else "GPUs"
    yield pod.manifest.fault(
        f"{count.pods} Pods with {gpus} {noun} each would run at once, but {where} {names} can "
        f"hold at most {sum(known)}.",
        at=count.at,
    )


def _knows_pools(pod: Pod, review: Review) -> bool:
    """Whether all pools that the Pod can run on are known: all of a cluster, or the one it names.

    A script or module may create only some of the pools with a label.
    """
    if review.placement(pod).by is Evidence.CLASS:
        # A ComputeClass creates pools of its own.
        return False
    asked = {requirement.key for term in pod.demand.alternatives for requirement in term}
    return review.capacity.is_complete or POOL_LABEL in asked


def _room(pool: NodePool, gpus: int) -> int | None:
    """How many Pods with this number of GPUs fit in a pool; None if unknown."""
    included = built_in(pool.machine_type) if pool.machine_type else None
    each = pool.accelerator_count or (included[1] if included else 0)
    nodes = pool.nodes_at_most
    return None if not each or nodes is None else (each // gpus) * nodes
