"""Node pools from Terraform: `google_container_node_pool`, `google_container_cluster`, and the
`node_pools` of the module terraform-google-modules/kubernetes-engine.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from outlast.manifests.lint.pools.hcl import UNKNOWN, HclAttribute, HclBlock, read_hcl_file
from outlast.manifests.lint.pools.kubelet import window_of
from outlast.manifests.lint.pools.model import (
    SANDBOX_TAINT,
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

MODULE_DEPTH_MAX = 4
_FLAGS = {"spot": NodeTier.SPOT, "preemptible": NodeTier.SPOT, "flex_start": NodeTier.FLEX_START}


_MODULE = "terraform-google-modules/kubernetes-engine/google"
_LOCAL_SOURCE = re.compile(r'\bsource\s*=\s*(?:"[.\\]|var\.)')
_VARIABLE = re.compile(r'\bvariable\s+["\w]')


def is_terraform(source: SourceText) -> bool:
    return "google_container_" in source.text or _MODULE in source.text


def read_terraform(sources: Iterable[SourceText]) -> dict[Path, ClusterCapacity]:
    """The pools in Terraform files, by folder: the files in one are a module.

    What a module creates belongs to the folders that use it, with the values they pass.
    """
    folders: dict[Path, _Folder] = defaultdict(_Folder)
    for source in sources:
        folder = source.path.parent if source.path else Path()
        folders[folder.resolve()].sources.append(source)
    used: set[Path] = set()
    found = {folder: _read_folder(folder, {}, folders, used, depth=0) for folder in folders}
    return {folder: capacity for folder, capacity in found.items() if folder not in used}


@dataclass
class _Folder:
    """The Terraform files in one folder."""

    sources: list[SourceText] = field(default_factory=list)

    @cached_property
    def defaults(self) -> dict[str, Any]:
        """The default values of its variables."""
        return {
            block.labels[0]: block.value("default")
            for source in self.sources
            if _VARIABLE.search(source.text)
            for block in read_hcl_file(source).all_blocks("variable")
            if block.labels and "default" in block.attributes
        }


def _read_folder(
    folder: Path,
    given: dict[str, Any],
    folders: dict[Path, _Folder],
    used: set[Path],
    *,
    depth: int,
) -> ClusterCapacity:
    own = folders[folder]
    parts: list[ClusterCapacity] = []
    called: list[HclBlock] = []
    for source in own.sources:
        has_pools = is_terraform(source)
        has_modules = depth < MODULE_DEPTH_MAX and _may_call_folder(source)
        if has_pools or has_modules:
            root = read_hcl_file(source, {**own.defaults, **given})
            parts += [_read_pools(source, root)] if has_pools else []
            called += root.all_blocks("module") if has_modules else ()
    for block in called:
        path = block.value("source")
        if not isinstance(path, str) or not path.startswith("."):
            continue
        target = (folder / path).resolve()
        if target in folders and target != folder:
            used.add(target)
            passed = {name: one.value for name, one in block.attributes.items()}
            parts.append(_read_folder(target, passed, folders, used, depth=depth + 1))
    return joined(parts)


def _may_call_folder(source: SourceText) -> bool:
    """Whether a file may use a module in another folder, whose path starts with a dot."""
    return "module" in source.text and _LOCAL_SOURCE.search(source.text) is not None


def _read_pools(source: SourceText, root: HclBlock) -> ClusterCapacity:
    pools: list[NodePool] = []
    modes: set[bool] = set()
    for block in root.all_blocks("module"):
        path = block.value("source")
        if isinstance(path, str) and _MODULE in path:
            modes.add("autopilot" in path)
            pools += _module_pools(source, block)
    for block in root.all_blocks("resource"):
        match block.labels:
            case ["google_container_node_pool", label]:
                pools.append(_pool(source, block, label))
            case ["google_container_cluster", _]:
                autopilot = block.value("enable_autopilot")
                if autopilot in (True, False, None):
                    modes.add(bool(autopilot))
                pools += [_pool(source, one, "") for one in block.all_blocks("node_pool")]
    # With clusters of both modes in one file, which one is meant is unknown.
    is_autopilot = next(iter(modes)) if len(modes) == 1 else None
    return ClusterCapacity(pools=tuple(pools), is_autopilot=is_autopilot)


def _module_pools(source: SourceText, block: HclBlock) -> Iterator[NodePool]:
    """The pools of the module for GKE, whose labels and taints are in variables of their own."""
    attribute = block.attributes.get("node_pools")
    listed = attribute.value if attribute is not None else None
    labels, taints = block.value("node_pools_labels"), block.value("node_pools_taints")
    for pool in listed if isinstance(listed, list) else ():
        if not isinstance(pool, dict) or not isinstance(pool.get("name"), str):
            continue
        name, place = pool["name"], _place(source, attribute)
        assert place is not None
        tier = next((tier for flag, tier in _FLAGS.items() if pool.get(flag) is True), None)
        is_known = all(pool.get(flag) in (None, True, False) for flag in _FLAGS)
        yield NodePool(
            name=name,
            tier=tier or (NodeTier.ON_DEMAND if is_known else None),
            place=place,
            labels=_labels({**_of_pool(labels, "all", {}), **_of_pool(labels, name, {})}),
            taints=tuple(
                Taint(
                    key=str(item.get("key")),
                    value=_as_text(item.get("value")) or "",
                    effect=taint_effect(str(item.get("effect"))),
                )
                for key in ("all", name)
                for item in _of_pool(taints, key, [])
                if isinstance(item, dict)
            ),
            knows_taints=taints is None or isinstance(taints, dict),
            machine_type=_text(pool.get("machine_type")),
            accelerator=_text(pool.get("accelerator_type")) or None,
            accelerator_count=_count(pool.get("accelerator_count")) or 0,
            nodes_max=_count(pool.get("total_max_count")) or _count(pool.get("max_count")),
            zones=1 if _count(pool.get("total_max_count")) else None,
        )


def _accelerator(config: HclBlock) -> tuple[str | None, int]:
    """The type and number of accelerators, from a block or a list of mappings."""
    if block := config.block("guest_accelerator"):
        return _text(block.value("type")), _count(block.value("count")) or 0
    given = config.value("guest_accelerator")
    first = given[0] if isinstance(given, list) and given else given
    if not isinstance(first, dict):
        return None, 0
    return _text(first.get("type")), _count(first.get("count")) or 0


def _of_pool(values: Any, name: str, default: Any) -> Any:
    found = values.get(name) if isinstance(values, dict) else None
    return found if isinstance(found, type(default)) else default


def _pool(source: SourceText, block: HclBlock, label: str) -> NodePool:
    config = block.block("node_config") or HclBlock(type="", labels=(), start=0, end=0)
    scaling = block.block("autoscaling") or HclBlock(type="", labels=(), start=0, end=0)
    accelerator, accelerator_count = _accelerator(config)
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
        accelerator=accelerator,
        accelerator_count=accelerator_count,
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
    if config.block("sandbox_config"):
        yield SANDBOX_TAINT


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
