"""A Spot node pool without a taint.

Why: pools made by hand have the taints they are given and no others. Without one the scheduler puts
anything on Spot nodes, also the cluster's own controllers, monitoring and DNS, which then go with
every reclaimed node. Nodes with accelerators have a taint by themselves.
Instead: create the pool with --node-taints=cloud.google.com/gke-spot=true:NoSchedule (in Terraform
a taint block), let the work for Spot tolerate it, and keep an on-demand pool for the rest.
"""

from collections.abc import Iterator

from outlast.manifests.lint.pools.model import NodePool, Tier
from outlast.manifests.lint.review import Review
from outlast.manifests.lint.rule import Severity, review_rule
from outlast.manifests.lint.scheduling import HARD_EFFECTS
from outlast.manifests.lint.view import Fault

_TPU_MACHINES = ("ct", "tpu")


@review_rule("OL204", Severity.WARNING)
def untainted_spot_pool(review: Review) -> Iterator[Fault]:
    if review.capacity.is_autopilot:
        return
    for pool in review.pools:
        if pool.tier is Tier.SPOT and pool.knows_taints and _is_open(pool):
            yield pool.fault(
                f"The Spot pool {pool.name!r} has no taint: the cluster's own controllers may "
                "end up on its nodes.",
                at="tier",
            )


def _is_open(pool: NodePool) -> bool:
    # GKE taints nodes with GPUs and TPUs.
    if pool.accelerator is not None or (pool.machine_type or "").startswith(_TPU_MACHINES):
        return False
    return not any(taint.effect in HARD_EFFECTS for taint in pool.taints)
