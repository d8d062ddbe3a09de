"""Whether a node pool could take a Pod, for pools that have no matching node now. Pure.

Labels and taints are those of the pools themselves, as gcloud describes them.
"""

import json
from typing import Any

from outlast.cluster.checks.result import CheckResult, fail, ok, unknown
from outlast.manifests.conventions import (
    ACCELERATOR_LABEL,
    FLEX_START_LABEL,
    POOL_LABEL,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
    SYSTEM_DOMAINS,
)
from outlast.manifests.lint.pools.exports import read_export
from outlast.manifests.lint.pools.model import ClusterCapacity, NodePool
from outlast.manifests.lint.scheduling import NodeDemand
from outlast.yamltext.reading import read
from outlast.yamltext.source import SourceText

_SHOWN = (
    ACCELERATOR_LABEL,
    FLEX_START_LABEL,
    POOL_LABEL,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
)
"""Labels of GKE's own that follow from what a pool shows. Others, such as the zone, do not."""


def pools_of(described: dict[str, Any]) -> ClusterCapacity:
    """The node pools in the answer of `gcloud container clusters describe`."""
    text = json.dumps(described)
    found = (read_export(SourceText(name="gcloud", text=text), one) for one in read(text).documents)
    return next((one for one in found if one is not None), ClusterCapacity())


def pool_result(title: str, demand: NodeDemand, described: dict[str, Any]) -> CheckResult | None:
    """What the pools say about a Pod for which there is no node, None if they do not decide."""
    capacity = pools_of(described)
    if capacity.is_autopilot:
        return ok(f"{title}: no node matches now; Autopilot creates one")
    selected = [pool for pool in capacity.pools if demand.selects(pool.node_labels)]
    fitting = fitting_pools(demand, capacity)
    if fitting:
        names = ", ".join(_named(pool) for pool in fitting)
        return ok(f"{title}: no node matches now, but pool {names} does, taints tolerated")
    if selected:
        barring = [str(one) for one in selected[0].taints if not demand.tolerates([one])]
        return fail(
            f"{title}: pool {_named(selected[0])} matches, but the Pod does not tolerate "
            f"{', '.join(barring)}",
            f"Add a toleration for {barring[0]} to the Pod, or use a pool without the taint.",
        )
    return _no_pool(title, demand, capacity, described)


def fitting_pools(demand: NodeDemand, capacity: ClusterCapacity) -> list[NodePool]:
    """The pools whose nodes a Pod selects and tolerates."""
    return [
        pool
        for pool in capacity.pools
        if demand.selects(pool.node_labels) and demand.tolerates(pool.taints)
    ]


def _no_pool(
    title: str, demand: NodeDemand, capacity: ClusterCapacity, described: dict[str, Any]
) -> CheckResult | None:
    if (described.get("autoscaling") or {}).get("enableNodeAutoprovisioning") is True:
        return unknown(
            f"{title}: no node pool matches; whether node auto-provisioning would create one is "
            "not visible here",
            "See its limits: gcloud container clusters describe CLUSTER",
        )
    asked = {one.key for term in demand.alternatives for one in term}
    if not capacity.pools or any(_is_hidden(key, capacity) for key in asked):
        return None
    names = ", ".join(pool.name for pool in capacity.pools)
    return fail(
        f"{title}: none of the node pools ({names}) has the labels that it selects, and node "
        "auto-provisioning is off",
        "Create the pool: `outlast render FILE` writes the command to setup/.",
    )


def _is_hidden(key: str, capacity: ClusterCapacity) -> bool:
    """Whether nodes may have a label that their pool does not show."""
    if key in _SHOWN or any(key in pool.node_labels for pool in capacity.pools):
        return False
    domain, slash, _ = key.rpartition("/")
    return bool(slash) and domain.endswith(SYSTEM_DOMAINS)


def _named(pool: NodePool) -> str:
    most = f"up to {pool.nodes_at_most} nodes" if pool.nodes_at_most else ""
    details = ", ".join(filter(None, (pool.machine_type, most)))
    return f"{pool.name!r} ({details})" if details else repr(pool.name)
