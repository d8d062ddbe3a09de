"""Node pools, and what is known about the cluster."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from outlast._base.durations import parse_duration
from outlast.manifests.conventions import (
    ACCELERATOR_LABEL,
    FLEX_START_LABEL,
    POOL_LABEL,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
)
from outlast.manifests.lint.scheduling import Taint
from outlast.manifests.lint.view import Fault
from outlast.yamltext.source import SourceSpan

WINDOW_SECONDS_DEFAULT = 15
"""The seconds that regular Pods get on a reclaimed Spot node by default."""
WINDOW_SECONDS_MAX = 105
"""The longest window that a pool can set."""
ZONES_MAX = 4
"""The most zones of any region, for a pool whose number of zones is unknown."""


class NodeTier(StrEnum):
    """How the capacity of a node is bought."""

    SPOT = "spot"
    FLEX_START = "flex-start"
    ON_DEMAND = "on-demand"


# GKE adds it to the nodes of a pool that runs containers in gVisor.
SANDBOX_TAINT = Taint(key="sandbox.gke.io/runtime", value="gvisor")


@dataclass(frozen=True, kw_only=True, slots=True)
class GkeNode:
    """A kind of GKE node, with the labels that GKE gives to it.

    `rare_words` are labels or values that refer to it, for a kind that few clusters have.
    """

    tier: NodeTier
    labels: Mapping[str, str]
    rare_words: frozenset[str] = frozenset()


GKE_NODES = (
    GkeNode(tier=NodeTier.SPOT, labels={SPOT_LABEL: "true", PROVISIONING_LABEL: "spot"}),
    GkeNode(
        tier=NodeTier.FLEX_START,
        labels={FLEX_START_LABEL: "true", PROVISIONING_LABEL: "flex-start"},
    ),
    GkeNode(tier=NodeTier.ON_DEMAND, labels={PROVISIONING_LABEL: "standard"}),
    GkeNode(
        tier=NodeTier.SPOT,
        labels={PREEMPTIBLE_LABEL: "true", PROVISIONING_LABEL: "preemptible"},
        rare_words=frozenset({PREEMPTIBLE_LABEL, "preemptible"}),
    ),
    GkeNode(
        tier=NodeTier.FLEX_START,
        labels={QUEUED_LABEL: "true", PROVISIONING_LABEL: "flex-start"},
        rare_words=frozenset({QUEUED_LABEL}),
    ),
    GkeNode(
        tier=NodeTier.FLEX_START,
        labels={QUEUED_LABEL: "true", FLEX_START_LABEL: "true", PROVISIONING_LABEL: "flex-start"},
        rare_words=frozenset({QUEUED_LABEL}),
    ),
)


@dataclass(frozen=True, kw_only=True)
class NodePool:
    """A node pool. `tier` is None if unknown.

    `place` is where its name is; `places` has the positions of `tier`, `taints`, `labels` and
    `max-nodes`. `knows_taints` is false if they are computed in a way we cannot evaluate.
    `nodes_max` applies to each of its `zones`, which is None if unknown. `run_seconds_max` is the
    maximum lifetime of a node, if limited. `window_seconds` is what regular Pods get when a Spot
    node is reclaimed, None if it is set in a `config_file` that was not read.
    """

    name: str
    tier: NodeTier | None
    place: SourceSpan
    places: Mapping[str, SourceSpan] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    knows_taints: bool = True
    machine_type: str | None = None
    accelerator: str | None = None
    accelerator_count: int = 0
    nodes_max: int | None = None
    zones: int | None = 1
    run_seconds_max: float | None = None
    is_queued: bool = False
    window_seconds: int | None = WINDOW_SECONDS_DEFAULT
    config_file: str | None = None

    @cached_property
    def node_labels(self) -> dict[str, str]:
        """The labels of its nodes: the configured ones and those that GKE adds."""
        own = next((node.labels for node in GKE_NODES if node.tier is self.tier), {})
        found = {POOL_LABEL: self.name, **own}
        if self.is_queued:
            found[QUEUED_LABEL] = "true"
        if self.machine_type is not None:
            found["node.kubernetes.io/instance-type"] = self.machine_type
        if self.accelerator is not None:
            found[ACCELERATOR_LABEL] = self.accelerator
        return {**found, **self.labels}

    @property
    def nodes_at_most(self) -> int | None:
        """The maximum number of nodes over all zones, None if unlimited."""
        return None if self.nodes_max is None else self.nodes_max * (self.zones or ZONES_MAX)

    def fault(self, message: str, *, at: str = "", hint: str | None = None) -> Fault:
        """Something is wrong with the pool, at one of its `places` or at its name."""
        return Fault(message=message, place=self.places.get(at, self.place), hint=hint)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """How many accelerators may be used at once, None if unknown.

    Spot and flex-start use the preemptible quota.
    """

    preemptible: int | None = None
    on_demand: int | None = None

    def of(self, tier: NodeTier) -> int | None:
        return self.on_demand if tier is NodeTier.ON_DEMAND else self.preemptible


@dataclass(frozen=True, kw_only=True, slots=True)
class ClusterCapacity:
    """What is known about the nodes of a cluster. `is_autopilot` is None if unknown.

    `is_complete`: these are all pools of the cluster, as in an export; a script may create only
    some. `knows_empty_pools`: they include pools that have no node right now.
    """

    pools: tuple[NodePool, ...] = ()
    is_autopilot: bool | None = None
    is_complete: bool = False
    knows_empty_pools: bool = False
    quota: Quota = Quota()


def joined(parts: Iterable[ClusterCapacity]) -> ClusterCapacity:
    """The capacity of all parts. A pool in both a script and Terraform counts once."""
    found = list(parts)
    pools: dict[object, NodePool] = {}
    for part in found:
        for pool in part.pools:
            key = (pool.name, pool.tier, pool.taints, pool.machine_type)
            known = pools.setdefault(key, pool)
            if known.window_seconds is None:
                pools[key] = known = replace(known, window_seconds=pool.window_seconds)
            # If they disagree, the larger one is the safe assumption.
            if (known.nodes_at_most or 0) < (pool.nodes_at_most or 0):
                pools[key] = replace(known, nodes_max=pool.nodes_max, zones=pool.zones)
    modes = {part.is_autopilot for part in found if part.is_autopilot is not None}
    return ClusterCapacity(
        pools=tuple(pools.values()),
        # Clusters of both modes: which one is meant is unknown.
        is_autopilot=next(iter(modes)) if len(modes) == 1 else None,
        is_complete=any(part.is_complete for part in found),
        knows_empty_pools=any(part.knows_empty_pools for part in found),
        quota=next((part.quota for part in found if part.quota != Quota()), Quota()),
    )


def is_zone(place: str) -> bool:
    """Whether a location is a zone such as `us-central1-a`, not a region."""
    return re.fullmatch(r"[a-z]+-[a-z]+[0-9]+-[a-z]", place) is not None


def seconds_of(text: object) -> float | None:
    """A duration in GKE's notation, such as `604800s` or `7d`, None for anything else."""
    try:
        return parse_duration(text) if isinstance(text, str) else None
    except ValueError:
        return None


def taint_effect(text: str) -> str:
    """The effect in Kubernetes' notation; GKE's API uses `NO_SCHEDULE`."""
    return {
        "NO_SCHEDULE": "NoSchedule",
        "NO_EXECUTE": "NoExecute",
        "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    }.get(text, text)
