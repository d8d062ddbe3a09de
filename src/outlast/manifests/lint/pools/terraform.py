"""Node pools from Terraform: `google_container_node_pool` and `google_container_cluster`."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from outlast.manifests.lint.pools.hcl import UNKNOWN, HclAttribute, HclBlock, read_hcl
from outlast.manifests.lint.pools.kubelet import window_of
from outlast.manifests.lint.pools.model import (
    ClusterCapacity,
    NodePool,
    NodeTier,
    is_zone,
    joined,
    seconds_of,
    taint_effect,
)
from outlast.manifests.lint.scheduling import Taint
from outlast.yamltext.source import SourceSpan, SourceText

_FLAGS = {"spot": NodeTier.SPOT, "preemptible": NodeTier.SPOT, "flex_start": NodeTier.FLEX_START}


def is_terraform(source: SourceText) -> bool:
    return "google_container_" in source.text


def read_terraform(sources: Iterable[SourceText]) -> ClusterCapacity:
    """The pools in Terraform files. Files in one folder are a module and share their variables."""
    folders: dict[Any, list[SourceText]] = defaultdict(list)
    for source in sources:
        folders[source.path.parent if source.path else None].append(source)
    return joined(
        _read_file(source, variables)
        for files in folders.values()
        for variables in [_defaults(files)]
        for source in files
        if is_terraform(source)
    )


def _defaults(sources: Iterable[SourceText]) -> dict[str, Any]:
    return {
        block.labels[0]: block.value("default")
        for source in sources
        if "variable" in source.text
        for block in read_hcl(source.text).all_blocks("variable")
        if block.labels and "default" in block.attributes
    }


def _read_file(source: SourceText, variables: dict[str, Any]) -> ClusterCapacity:
    pools: list[NodePool] = []
    is_autopilot: bool | None = None
    for block in read_hcl(source.text, variables).all_blocks("resource"):
        match block.labels:
            case ["google_container_node_pool", label]:
                pools.append(_pool(source, block, label))
            case ["google_container_cluster", _]:
                autopilot = block.value("enable_autopilot")
                if autopilot in (True, False, None):
                    is_autopilot = bool(is_autopilot or autopilot)
                pools += [_pool(source, one, "") for one in block.all_blocks("node_pool")]
    return ClusterCapacity(pools=tuple(pools), is_autopilot=is_autopilot)


def _pool(source: SourceText, block: HclBlock, label: str) -> NodePool:
    config = block.block("node_config") or HclBlock(type="", labels=(), start=0, end=0)
    scaling = block.block("autoscaling") or HclBlock(type="", labels=(), start=0, end=0)
    accelerator = config.block("guest_accelerator")
    name = block.value("name")
    tier, tier_attribute = _tier(block, config)
    places = {
        "tier": _place(source, tier_attribute),
        "taints": _place(source, next(config.all_blocks("taint"), None)),
        "labels": _place(source, config.attributes.get("labels")),
        "max-nodes": _place(source, _nodes_max(scaling)),
    }
    nodes_max = _nodes_max(scaling)
    return NodePool(
        name=name if isinstance(name, str) else label,
        tier=tier,
        place=SourceSpan(source=source, start=block.start, end=block.end),
        places={key: place for key, place in places.items() if place is not None},
        labels=_labels(config.value("labels")),
        taints=tuple(_taints(config)),
        knows_taints=_knows_taints(config),
        machine_type=_text(config.value("machine_type")),
        accelerator=_text(accelerator.value("type")) if accelerator else None,
        accelerator_count=_count(accelerator.value("count")) or 0 if accelerator else 0,
        nodes_max=_count(nodes_max.value) if nodes_max else _count(block.value("node_count")),
        zones=_zones(block, scaling),
        run_seconds_max=seconds_of(config.value("max_run_duration")),
        is_queued=_is_queued(block),
        window_seconds=_window(config),
    )


def _tier(block: HclBlock, config: HclBlock) -> tuple[NodeTier | None, HclAttribute | None]:
    for name, tier in _FLAGS.items():
        attribute = config.attributes.get(name)
        if attribute is not None and attribute.value is not False:
            return (tier if attribute.value is True else None), attribute
    if _is_queued(block):
        return NodeTier.FLEX_START, None
    return NodeTier.ON_DEMAND, None


def _is_queued(block: HclBlock) -> bool:
    queued = block.block("queued_provisioning")
    return queued is not None and queued.value("enabled") is True


def _window(config: HclBlock) -> int | None:
    kubelet = config.block("kubelet_config")
    if kubelet is None:
        computed = [name for block in config.all_blocks("dynamic") for name in block.labels]
        return window_of(UNKNOWN if "kubelet_config" in computed else None, None)
    return window_of(
        kubelet.value("shutdown_grace_period_seconds"),
        kubelet.value("shutdown_grace_period_critical_pods_seconds"),
    )


def _taints(config: HclBlock) -> Iterator[Taint]:
    for block in config.all_blocks("taint"):
        key, value, effect = (block.value(name) for name in ("key", "value", "effect"))
        if isinstance(key, str) and isinstance(effect, str):
            yield Taint(key=key, value=_as_text(value) or "", effect=taint_effect(effect))


def _knows_taints(config: HclBlock) -> bool:
    if any("taint" in block.labels for block in config.all_blocks("dynamic")):
        return False
    return all(
        isinstance(block.value(name), str)
        for block in config.all_blocks("taint")
        for name in ("key", "effect")
    )


def _labels(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    pairs = ((key, _as_text(text)) for key, text in value.items())
    return {key: text for key, text in pairs if text is not None}


def _nodes_max(scaling: HclBlock) -> HclAttribute | None:
    names = ("total_max_node_count", "max_node_count")
    return next((scaling.attributes[name] for name in names if name in scaling.attributes), None)


def _zones(block: HclBlock, scaling: HclBlock) -> int | None:
    """The number of zones that the maximum applies to; 1 for a total."""
    if "total_max_node_count" in scaling.attributes:
        return 1
    zones = block.value("node_locations")
    if isinstance(zones, list) and zones:
        return len(zones)
    place = _text(block.value("location"))
    return 1 if place is not None and is_zone(place) else None


def _place(source: SourceText, found: HclAttribute | HclBlock | None) -> SourceSpan | None:
    return None if found is None else SourceSpan(source=source, start=found.start, end=found.end)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value is not UNKNOWN else None


def _as_text(value: Any) -> str | None:
    """A string, or what Terraform converts to one: `value = true` is the string `true`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else _text(value)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
