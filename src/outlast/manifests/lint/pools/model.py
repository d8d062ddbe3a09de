"""A node pool, and what is known about the cluster around it."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from outlast._base.durations import parse_duration
from outlast.manifests.lint.scheduling import Taint
from outlast.manifests.lint.source import Place
from outlast.manifests.lint.view import Fault

LABEL_PREFIX = "cloud.google.com/"
SPOT_LABEL = LABEL_PREFIX + "gke-spot"
PREEMPTIBLE_LABEL = LABEL_PREFIX + "gke-preemptible"
FLEX_START_LABEL = LABEL_PREFIX + "gke-flex-start"
PROVISIONING_LABEL = LABEL_PREFIX + "gke-provisioning"
QUEUED_LABEL = LABEL_PREFIX + "gke-queued"
POOL_LABEL = LABEL_PREFIX + "gke-nodepool"
CLASS_LABEL = LABEL_PREFIX + "compute-class"
ACCELERATOR_LABEL = LABEL_PREFIX + "gke-accelerator"
WINDOW_SECONDS_DEFAULT = 15
"""What a reclaimed Spot node gives to ordinary Pods unless its pool says otherwise."""
WINDOW_SECONDS_MAX = 105
"""The most that a pool can ask for."""
ZONES_MAX = 4
"""The most zones that a region has, for a pool that does not say how many it spans."""


class Tier(StrEnum):
    """How a node is bought."""

    SPOT = "spot"
    FLEX_START = "flex-start"
    ON_DEMAND = "on-demand"


@dataclass(frozen=True, kw_only=True, slots=True)
class GkeNode:
    """A kind of node that GKE has, with the labels it gives to it.

    `rare_words` are labels or values that name it, for a kind that few clusters have.
    """

    tier: Tier
    labels: Mapping[str, str]
    rare_words: frozenset[str] = frozenset()


GKE_NODES = (
    GkeNode(tier=Tier.SPOT, labels={SPOT_LABEL: "true", PROVISIONING_LABEL: "spot"}),
    GkeNode(
        tier=Tier.FLEX_START, labels={FLEX_START_LABEL: "true", PROVISIONING_LABEL: "flex-start"}
    ),
    GkeNode(tier=Tier.ON_DEMAND, labels={PROVISIONING_LABEL: "standard"}),
    GkeNode(
        tier=Tier.SPOT,
        labels={PREEMPTIBLE_LABEL: "true", PROVISIONING_LABEL: "preemptible"},
        rare_words=frozenset({PREEMPTIBLE_LABEL, "preemptible"}),
    ),
    GkeNode(
        tier=Tier.FLEX_START,
        labels={QUEUED_LABEL: "true", PROVISIONING_LABEL: "flex-start"},
        rare_words=frozenset({QUEUED_LABEL}),
    ),
    GkeNode(
        tier=Tier.FLEX_START,
        labels={QUEUED_LABEL: "true", FLEX_START_LABEL: "true", PROVISIONING_LABEL: "flex-start"},
        rare_words=frozenset({QUEUED_LABEL}),
    ),
)


@dataclass(frozen=True, kw_only=True)
class NodePool:
    """A group of equal nodes. `tier` is None where the text leaves it open.

    `place` is where it is named; `places` says where else: `tier`, `taints`, `labels`, `max-nodes`.
    `knows_taints` is false if they are computed where we cannot follow. `nodes_max` counts for each
    of its `zones`, which are None if nothing tells how many there are. `run_seconds_max` is how
    long a node may live, where that is limited. `window_seconds` is what ordinary Pods get when a
    Spot node is reclaimed, None where that is written in a `config_file` that was not read.
    """

    name: str
    tier: Tier | None
    place: Place
    places: Mapping[str, Place] = field(default_factory=dict)
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
        """The labels of its nodes: those given, and those that GKE adds."""
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
        """The nodes it can have in all zones together; None if nothing limits them."""
        return None if self.nodes_max is None else self.nodes_max * (self.zones or ZONES_MAX)

    def fault(self, message: str, *, at: str = "", hint: str | None = None) -> Fault:
        """Something is wrong with the pool: at one of its `places`, or where it is named."""
        return Fault(message=message, place=self.places.get(at, self.place), hint=hint)


@dataclass(frozen=True, kw_only=True, slots=True)
class Quota:
    """How many accelerators may be held at once; None where nothing says so.

    Spot and flex-start draw on the preemptible quota.
    """

    preemptible: int | None = None
    on_demand: int | None = None

    def of(self, tier: Tier) -> int | None:
        return self.on_demand if tier is Tier.ON_DEMAND else self.preemptible


@dataclass(frozen=True, kw_only=True, slots=True)
class Capacity:
    """What is known of the nodes. `is_autopilot` is None where nothing says so.

    `is_whole`: these are all the pools of the cluster, as an export of them is; a script may
    have made only some. `knows_empty_pools`: those that have no node right now are among them.
    """

    pools: tuple[NodePool, ...] = ()
    is_autopilot: bool | None = None
    is_whole: bool = False
    knows_empty_pools: bool = False
    quota: Quota = Quota()


def joined(parts: Iterable[Capacity]) -> Capacity:
    """All that the parts know. A pool that a script and Terraform both make is one."""
    found = list(parts)
    pools: dict[object, NodePool] = {}
    for part in found:
        for pool in part.pools:
            key = (pool.name, pool.tier, pool.taints, pool.machine_type)
            known = pools.setdefault(key, pool)
            if known.window_seconds is None:
                pools[key] = known = replace(known, window_seconds=pool.window_seconds)
            # Where they disagree, nobody knows which one counts: the larger hurts nobody.
            if (known.nodes_at_most or 0) < (pool.nodes_at_most or 0):
                pools[key] = replace(known, nodes_max=pool.nodes_max, zones=pool.zones)
    modes = [part.is_autopilot for part in found if part.is_autopilot is not None]
    return Capacity(
        pools=tuple(pools.values()),
        is_autopilot=any(modes) if modes else None,
        is_whole=any(part.is_whole for part in found),
        knows_empty_pools=any(part.knows_empty_pools for part in found),
        quota=next((part.quota for part in found if part.quota != Quota()), Quota()),
    )


def is_zone(place: str) -> bool:
    """Whether a place is a zone such as `us-central1-a`, and no region."""
    return re.fullmatch(r"[a-z]+-[a-z]+[0-9]+-[a-z]", place) is not None


def seconds_of(text: object) -> float | None:
    """A duration as GKE writes it, such as `604800s` or `7d`; None for anything else."""
    try:
        return parse_duration(text) if isinstance(text, str) else None
    except ValueError:
        return None


def taint_effect(text: str) -> str:
    """The effect as Kubernetes writes it; the API of GKE writes `NO_SCHEDULE`."""
    return {
        "NO_SCHEDULE": "NoSchedule",
        "NO_EXECUTE": "NoExecute",
        "PREFER_NO_SCHEDULE": "PreferNoSchedule",
    }.get(text, text)
