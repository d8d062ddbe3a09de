"""A Spot node pool has no taint.

Why: a manually created pool has only the taints that you give it. Without one, the scheduler places
any Pod on Spot nodes, including the cluster's own controllers, monitoring and DNS, which are lost
each time a node is reclaimed. GKE itself taints nodes with accelerators.
Instead: create the pool with --node-taints=cloud.google.com/gke-spot=true:NoSchedule (in Terraform,
a taint block), add the toleration to workloads for Spot, and keep an on-demand pool for the rest.
"""

from collections.abc import Iterator

from outlast.manifests.rules.api import (
    HARD_EFFECTS,
    Fault,
    NodePool,
    NodeTier,
    Review,
    Severity,
    review_rule,
)

# Machine types that always have GPUs or TPUs.
_ACCELERATED = ("a2-", "a3-", "a4-", "a4x-", "ct", "g2-", "g4-", "tpu")


@review_rule("OL204", Severity.WARNING)
def untainted_spot_pool(review: Review) -> Iterator[Fault]:
    if review.capacity.is_autopilot:
        return
    for pool in review.pools:
        if pool.tier is NodeTier.SPOT and pool.knows_taints and _is_open(pool):
            yield pool.fault(
                f"The Spot pool {pool.name!r} has no taint, so the cluster's own controllers may "
                "run on its nodes.",
                at="tier",
            )


def _is_open(pool: NodePool) -> bool:
    # GKE taints nodes with GPUs and TPUs itself.
    if pool.accelerator is not None or (pool.machine_type or "").startswith(_ACCELERATED):
        return False
    return not any(taint.effect in HARD_EFFECTS for taint in pool.taints)
