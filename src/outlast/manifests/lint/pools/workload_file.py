"""Node pools from a workload file, as `outlast render` reads it."""

from typing import Any

from outlast.manifests.lint.nodes import Map, get, span_at
from outlast.manifests.lint.pools.model import Capacity, NodePool, Quota, Tier
from outlast.manifests.lint.scheduling import Taint
from outlast.manifests.lint.source import Place, Source

_KINDS = ("training", "sweep", "batch-inference", "serving", "ci")


def is_workload(document: Any) -> bool:
    """Whether a document is a workload file and no object."""
    return isinstance(document, Map) and document.get("kind") in _KINDS and "image" in document


def read_workload(source: Source, document: Map) -> tuple[Capacity, str | None]:
    """The pools of its cluster; if the file cannot be used, none and a notice that says why."""
    if not isinstance(get(document, ("cluster",)), Map):
        return Capacity(), None
    # Loading the model takes longer than a lint of one file, so only who needs it does.
    from outlast.capacity.errors import WorkloadError
    from outlast.capacity.vocabulary import ClusterMode
    from outlast.capacity.workload import Workload

    try:
        cluster = Workload.parse(source.text, name=source.name).cluster
    except WorkloadError as error:
        return Capacity(), f"The node pools of this workload file are not used: {error}"
    found = Capacity(
        pools=tuple(
            NodePool(
                name=pool.name,
                tier=Tier(pool.tier.value),
                place=_place(source, document, index),
                labels=dict(pool.labels),
                taints=tuple(
                    Taint(key=taint.key, value=taint.value, effect=taint.effect.value)
                    for taint in pool.taints
                ),
                machine_type=pool.machine,
                nodes_max=pool.max_nodes,
                window_seconds=cluster.spot_grace_seconds,
            )
            for index, pool in enumerate(cluster.pools)
        ),
        is_autopilot=cluster.mode is ClusterMode.AUTOPILOT,
        quota=Quota(preemptible=cluster.quota.preemptible, on_demand=cluster.quota.on_demand),
    )
    return found, None


def _place(source: Source, document: Map, index: int) -> Place:
    start, end = span_at(document, ("cluster", "pools", index, "name"))
    return Place(source=source, start=start, end=end)
