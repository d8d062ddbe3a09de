"""Node pools from Config Connector: `ContainerNodePool` and `ContainerCluster` objects."""

from collections.abc import Iterator
from typing import Any

from outlast.manifests.lint.pools.kubelet import window_of
from outlast.manifests.lint.pools.model import (
    SANDBOX_TAINT,
    ClusterCapacity,
    NodePool,
    NodeTier,
    is_zone,
    taint_effect,
)
from outlast.manifests.lint.scheduling import Taint
from outlast.yamltext.nodes import Map, Path, Seq, get, span_at
from outlast.yamltext.source import SourceSpan, SourceText

CONFIG_CONNECTOR = "container.cnrm.cloud.google.com/"


def read_config_connector(source: SourceText, item: Map) -> ClusterCapacity:
    """The pool or the mode that an object of Config Connector describes."""
    if item.get("kind") == "ContainerNodePool":
        return ClusterCapacity(pools=(_pool(source, item),))
    if item.get("kind") == "ContainerCluster":
        return ClusterCapacity(is_autopilot=get(item, ("spec", "enableAutopilot")) is True)
    return ClusterCapacity()


def _pool(source: SourceText, item: Map) -> NodePool:
    spec = item.get("spec")
    config = get(spec, ("nodeConfig",))
    name = get(spec, ("resourceID",)) or get(item, ("metadata", "name"))
    accelerator = get(config, ("guestAccelerator", 0, "type"))
    machine = get(config, ("machineType",))
    kubelet = get(config, ("kubeletConfig",))
    return NodePool(
        name=str(name),
        tier=_tier(spec, config),
        place=_place(source, item, ("metadata", "name")),
        places={
            "tier": _place(source, item, ("spec", "nodeConfig", "spot")),
            "taints": _place(source, item, ("spec", "nodeConfig", "taint")),
            "max-nodes": _place(source, item, ("spec", "autoscaling")),
        },
        labels=_strings(get(config, ("labels",))),
        taints=tuple(_taints(config)),
        machine_type=machine if isinstance(machine, str) else None,
        accelerator=accelerator if isinstance(accelerator, str) else None,
        accelerator_count=_count(get(config, ("guestAccelerator", 0, "count"))) or 0,
        nodes_max=_count(get(spec, ("autoscaling", "totalMaxNodeCount")))
        or _count(get(spec, ("autoscaling", "maxNodeCount")))
        or _count(get(spec, ("nodeCount",))),
        zones=_zones(spec),
        window_seconds=window_of(
            get(kubelet, ("shutdownGracePeriodSeconds",)),
            get(kubelet, ("shutdownGracePeriodCriticalPodsSeconds",)),
        ),
    )


def _tier(spec: Any, config: Any) -> NodeTier:
    if get(config, ("flexStart",)) is True or get(spec, ("queuedProvisioning", "enabled")) is True:
        return NodeTier.FLEX_START
    is_spot = True in (get(config, ("spot",)), get(config, ("preemptible",)))
    return NodeTier.SPOT if is_spot else NodeTier.ON_DEMAND


def _zones(spec: Any) -> int | None:
    if _count(get(spec, ("autoscaling", "totalMaxNodeCount"))):
        return 1
    zones = get(spec, ("nodeLocations",))
    if isinstance(zones, Seq) and zones:
        return len(zones)
    return 1 if is_zone(str(get(spec, ("location",)))) else None


def _taints(config: Any) -> Iterator[Taint]:
    listed = get(config, ("taint",))
    for item in listed if isinstance(listed, Seq) else ():
        if isinstance(item, Map) and "key" in item:
            yield Taint(
                key=str(item["key"]),
                value=str(item.get("value") or ""),
                effect=taint_effect(str(item.get("effect"))),
            )
    if get(config, ("sandboxConfig",)):
        yield SANDBOX_TAINT


def _strings(value: Any) -> dict[str, str]:
    pairs = value.items() if isinstance(value, Map) else ()
    return {key: text for key, text in pairs if isinstance(text, str)}


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _place(source: SourceText, root: Map, path: Path) -> SourceSpan:
    start, end = span_at(root, path)
    return SourceSpan(source=source, start=start, end=end)
