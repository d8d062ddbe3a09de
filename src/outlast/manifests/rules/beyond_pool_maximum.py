"""More GPUs are asked for than the node pool can have.

Why: the pool stops growing at its maximum. The Pods beyond it stay Pending until others have ended,
and work whose Pods start together never starts at all.
Instead: run fewer Pods at once, or raise the maximum of the pool, and the quota with it.
"""

from collections.abc import Iterator

from outlast.capacity.machines import built_in
from outlast.manifests.lint.aim import By
from outlast.manifests.lint.counting import pods_at_once
from outlast.manifests.lint.pod import GPU, Pod
from outlast.manifests.lint.pools.model import NodePool
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, pod_rule
from outlast.manifests.lint.view import Fault


@pod_rule("OL603", Severity.WARNING)
def beyond_pool_maximum(pod: Pod, review: Review) -> Iterator[Fault]:
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
    many = "GPU" if gpus == 1 else "GPUs"
    yield pod.manifest.fault(
        f"{count.pods} Pods with {gpus} {many} each are to run at once; there is room for at most "
        f"{sum(known)} in the node pool {names}.",
        at=count.at,
    )


def _knows_pools(pod: Pod, review: Review) -> bool:
    """Whether the pools it can run on are among those that are known."""
    aim = review.aim(pod)
    # A class makes pools of its own.
    return review.capacity.is_whole or (aim.is_pinned and aim.by in (By.LABELS, By.POOLS))


def _room(pool: NodePool, gpus: int) -> int | None:
    """How many Pods with so many GPUs fit a pool; None if that is not known."""
    brought = built_in(pool.machine_type) if pool.machine_type else None
    each = pool.accelerator_count or (brought[1] if brought else 0)
    nodes = pool.nodes_at_most
    return None if not each or nodes is None else (each // gpus) * nodes
