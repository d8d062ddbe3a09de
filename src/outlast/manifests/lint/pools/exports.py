"""Node pools from descriptions in JSON or YAML.

These are the output of `gcloud container node-pools list|describe`, `gcloud container clusters
describe` (with `--format=json`) and `kubectl get nodes -o json`, and workload files.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from outlast.manifests.conventions import (
    FLEX_START_LABEL,
    POOL_LABEL,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
)
from outlast.manifests.lint.pools.kubelet import window_in
from outlast.manifests.lint.pools.model import (
    ClusterCapacity,
    NodePool,
    NodeTier,
    Quota,
    seconds_of,
    taint_effect,
)
from outlast.manifests.lint.scheduling import Taint
from outlast.yamltext.nodes import Map, Path, Seq, get, span_at
from outlast.yamltext.source import SourceSpan, SourceText

_PROVISIONING = {
    "spot": NodeTier.SPOT,
    "preemptible": NodeTier.SPOT,
    "flex-start": NodeTier.FLEX_START,
    "standard": NodeTier.ON_DEMAND,
}
_KINDS = ("training", "sweep", "batch-inference", "serving", "ci")


def read_export(source: SourceText, document: Any) -> ClusterCapacity | None:
    """The pools in the output of gcloud, None if the document is something else."""
    if isinstance(document, Map) and isinstance(document.get("nodePools"), Seq):
        listed = document["nodePools"]
        autopilot = get(document, ("autopilot", "enabled")) is True
        pools = _pools(source, listed)
        return ClusterCapacity(
            pools=pools, is_autopilot=autopilot, is_complete=True, knows_empty_pools=True
        )
    if isinstance(document, Seq) and document and all(map(_is_pool, document)):
        return ClusterCapacity(
            pools=_pools(source, document), is_complete=True, knows_empty_pools=True
        )
    if _is_pool(document):
        return ClusterCapacity(pools=(_pool(source, document),))
    return None


def read_nodes(source: SourceText, nodes: Iterable[Map]) -> ClusterCapacity:
    """The pools of the nodes in the output of `kubectl get nodes`."""
    pools: dict[str, NodePool] = {}
    for node in nodes:
        labels = _strings(get(node, ("metadata", "labels")))
        name = labels.get(POOL_LABEL) or str(get(node, ("metadata", "name"), "node"))
        if name not in pools:
            pools[name] = NodePool(
                name=name,
                tier=_tier_of_labels(labels),
                place=_place(source, node, ("metadata", "name")),
                places={"taints": _place(source, node, ("spec", "taints"))},
                labels=labels,
                taints=tuple(_taints(get(node, ("spec", "taints")))),
            )
    return ClusterCapacity(pools=tuple(pools.values()), is_complete=True)


def _is_pool(value: Any) -> bool:
    return (
        isinstance(value, Map)
        and "kind" not in value
        and isinstance(value.get("name"), str)
        and isinstance(value.get("config"), Map)
        and ("instanceGroupUrls" in value or "machineType" in value["config"])
    )


def _pools(source: SourceText, listed: Seq) -> tuple[NodePool, ...]:
    return tuple(_pool(source, pool) for pool in listed if _is_pool(pool))


def _pool(source: SourceText, pool: Map) -> NodePool:
    config = pool["config"]
    queued = get(pool, ("queuedProvisioning", "enabled")) is True
    accelerator = get(config, ("accelerators", 0, "acceleratorType"))
    machine = config.get("machineType")
    return NodePool(
        name=pool["name"],
        tier=_tier_of_config(config, is_queued=queued),
        place=_place(source, pool, ("name",)),
        places={
            "tier": _place(source, pool, ("config", _tier_key(config))),
            "taints": _place(source, pool, ("config", "taints")),
            "max-nodes": _place(source, pool, ("autoscaling",)),
        },
        labels=_strings(config.get("labels")),
        taints=tuple(_taints(config.get("taints"))),
        machine_type=machine if isinstance(machine, str) else None,
        accelerator=accelerator if isinstance(accelerator, str) else None,
        accelerator_count=_count(get(config, ("accelerators", 0, "acceleratorCount"))) or 0,
        nodes_max=_nodes_max(pool),
        zones=_zones(pool),
        run_seconds_max=seconds_of(config.get("maxRunDuration")),
        is_queued=queued,
        window_seconds=window_in(config.get("kubeletConfig")),
    )


def _tier_key(config: Map) -> str:
    keys = ("spot", "preemptible", "flexStart")
    return next((key for key in keys if config.get(key) is True), "")


def _tier_of_config(config: Map, *, is_queued: bool) -> NodeTier:
    key = _tier_key(config)
    if key == "flexStart" or is_queued:
        return NodeTier.FLEX_START
    return NodeTier.SPOT if key else NodeTier.ON_DEMAND


def _tier_of_labels(labels: dict[str, str]) -> NodeTier:
    if labels.get(PROVISIONING_LABEL) in _PROVISIONING:
        return _PROVISIONING[labels[PROVISIONING_LABEL]]
    if "true" in (labels.get(SPOT_LABEL), labels.get(PREEMPTIBLE_LABEL)):
        return NodeTier.SPOT
    if "true" in (labels.get(FLEX_START_LABEL), labels.get(QUEUED_LABEL)):
        return NodeTier.FLEX_START
    return NodeTier.ON_DEMAND


def _nodes_max(pool: Map) -> int | None:
    scaling = pool.get("autoscaling")
    if isinstance(scaling, Map) and scaling.get("enabled") is True:
        return _count(scaling.get("totalMaxNodeCount")) or _count(scaling.get("maxNodeCount"))
    return _count(pool.get("initialNodeCount"))


def _zones(pool: Map) -> int | None:
    """The number of zones that the maximum applies to; 1 for a total."""
    scaling, locations = pool.get("autoscaling"), pool.get("locations")
    if isinstance(scaling, Map) and _count(scaling.get("totalMaxNodeCount")):
        return 1
    return len(locations) if isinstance(locations, list) and locations else None


def _taints(listed: Any) -> Iterator[Taint]:
    for item in listed if isinstance(listed, list) else []:
        if isinstance(item, Map) and isinstance(item.get("key"), str):
            value, effect = item.get("value"), item.get("effect")
            yield Taint(
                key=item["key"],
                value=value if isinstance(value, str) else "",
                effect=taint_effect(effect) if isinstance(effect, str) else "",
            )


def _strings(value: Any) -> dict[str, str]:
    if not isinstance(value, Map):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}


def _count(value: Any) -> int | None:
    if isinstance(value, str) and value.isdecimal() and len(value) < 7:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _place(source: SourceText, root: Map, path: Path) -> SourceSpan:
    start, end = span_at(root, path)
    return SourceSpan(source=source, start=start, end=end)


def is_workload(document: Any) -> bool:
    """Whether a document is a workload file, not an object."""
    return isinstance(document, Map) and document.get("kind") in _KINDS and "image" in document


def read_workload(source: SourceText, document: Map) -> tuple[ClusterCapacity, str | None]:
    """The pools of its cluster. If the file is invalid, none, and a notice that says why."""
    if not isinstance(get(document, ("cluster",)), Map):
        return ClusterCapacity(), None
    # Imported here because importing the model takes longer than linting a file.
    from outlast.capacity.errors import WorkloadError
    from outlast.capacity.vocabulary import ClusterMode
    from outlast.capacity.workload.file import Workload

    try:
        cluster = Workload.parse(source.text, name=source.name).cluster
    except WorkloadError as error:
        return ClusterCapacity(), f"Ignored the node pools of a workload file: {error}"
    found = ClusterCapacity(
        pools=tuple(
            NodePool(
                name=pool.name,
                tier=NodeTier(pool.tier.value),
                place=_pool_place(source, document, index),
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


def _pool_place(source: SourceText, document: Map, index: int) -> SourceSpan:
    start, end = span_at(document, ("cluster", "pools", index, "name"))
    return SourceSpan(source=source, start=start, end=end)
