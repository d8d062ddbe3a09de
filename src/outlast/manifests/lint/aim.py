"""Which tier a Pod is aimed at: Spot, flex-start, on-demand, several of them, or unknown.

Pure. It goes by what says most, in this order: the ComputeClass, the labels that GKE puts on nodes,
the known node pools that the Pod's selectors fit, its wishes, its tolerations, and what the cluster
is. A toleration opens a door and sends nobody through it: a Pod that only tolerates Spot may run
there, so it must survive Spot, but it is not pinned to it.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from outlast.manifests.lint.pools.model import (
    CLASS_LABEL,
    FLEX_START_LABEL,
    GKE_NODES,
    POOL_LABEL,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
    Capacity,
    NodePool,
    Tier,
)
from outlast.manifests.lint.scheduling import HARD_EFFECTS, Demand, Taint, Term, Toleration

TIER_KEYS = frozenset(
    (SPOT_LABEL, PREEMPTIBLE_LABEL, FLEX_START_LABEL, PROVISIONING_LABEL, QUEUED_LABEL)
)
_GKE_TAINTS = {
    SPOT_LABEL: Tier.SPOT,
    PREEMPTIBLE_LABEL: Tier.SPOT,
    FLEX_START_LABEL: Tier.FLEX_START,
    QUEUED_LABEL: Tier.FLEX_START,
}
# Those that come with Autopilot; all of them but one are bought on demand.
BUILT_IN_CLASSES = {
    **dict.fromkeys(
        ("Accelerator", "Balanced", "Performance", "Scale-Out", "autopilot", "autopilot-arm"),
        frozenset({Tier.ON_DEMAND}),
    ),
    "autopilot-spot": frozenset({Tier.SPOT}),
}


class By(StrEnum):
    """What told the tier."""

    CLASS = "compute class"
    LABELS = "node labels"
    POOLS = "node pools"
    PREFERENCE = "preferred affinity"
    TOLERATION = "toleration"
    CLUSTER = "cluster"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Aim:
    """The tiers that a Pod may get its node from; empty if nothing tells.

    `is_pinned`: it can run nowhere else. `toleration` is the one that told, if one did.
    """

    tiers: frozenset[Tier] = frozenset()
    by: By = By.NOTHING
    is_pinned: bool = False
    toleration: Toleration | None = None

    def is_only(self, tier: Tier) -> bool:
        return self.tiers == {tier}

    @property
    def includes_spot(self) -> bool:
        """Whether its node may be reclaimed at any time."""
        return Tier.SPOT in self.tiers


def find_aim(
    demand: Demand,
    capacity: Capacity,
    classes: Mapping[str, frozenset[Tier]] | None = None,
    *,
    default_class: str | None = None,
) -> Aim:
    """The aim of a Pod. `classes` are the tiers of known ComputeClasses, by name.

    `default_class` is that of its namespace, for a Pod that names none.
    """
    named = _class_tiers(demand, {**BUILT_IN_CLASSES, **(classes or {})}, default_class)
    by_label = _tiers_by_label(demand.alternatives)
    if named is not None and by_label is None:
        return Aim(tiers=named, by=By.CLASS, is_pinned=bool(named))
    if by_label is not None:
        return Aim(tiers=by_label, by=By.LABELS, is_pinned=True)
    return (
        _by_pools(demand, capacity.pools)
        or _by_preference(demand, capacity.pools)
        or _by_toleration(demand, capacity.pools)
        or _by_cluster(demand, capacity)
        or Aim()
    )


def tolerated_tier(toleration: Toleration, pools: Iterable[NodePool]) -> Tier | None:
    """The one tier whose nodes a toleration is for; None if it is for none or for several.

    Known by GKE's own taints, or by the taints of the pools. A toleration without a key tolerates
    everything and says nothing.
    """
    if not toleration.key:
        return None
    gke = _GKE_TAINTS.get(toleration.key)
    if gke is not None and any(
        toleration.matches(Taint(key=toleration.key, value="true", effect=effect))
        for effect in HARD_EFFECTS
    ):
        return gke
    tiers = {
        pool.tier
        for pool in pools
        if any(toleration.matches(taint) for taint in pool.taints if taint.effect in HARD_EFFECTS)
    }
    return next(iter(tiers)) if len(tiers) == 1 else None


def _class_tiers(
    demand: Demand, classes: Mapping[str, frozenset[Tier]], default_class: str | None
) -> frozenset[Tier] | None:
    """The tiers of the classes it asks for, empty if one is unknown; None if it asks for none."""
    names = {
        value
        for term in demand.alternatives
        for requirement in term
        if requirement.key == CLASS_LABEL and requirement.operator == "In"
        for value in requirement.values
    }
    if not names and default_class:
        names = {default_class}
    if not names:
        return None
    if any(name not in classes for name in names):
        return frozenset()
    return frozenset(tier for name in names for tier in classes[name])


def _tiers_by_label(alternatives: Iterable[Term]) -> frozenset[Tier] | None:
    """The tiers whose nodes, by the labels GKE gives them, fit; None if those labels do not tell.

    Each kind of node that GKE has is held against what is asked of these labels alone.
    """
    terms = [tuple(r for r in term if r.key in TIER_KEYS) for term in alternatives]
    if not any(terms) or not all(terms):
        return None
    asked = {
        word
        for term in terms
        for requirement in term
        if requirement.operator in ("In", "Exists")
        for word in (requirement.key, *requirement.values)
    }
    accepted = frozenset(
        node.tier
        for node in GKE_NODES
        # Nodes that few clusters have count only where they are asked for.
        if (not node.rare_words or node.rare_words & asked)
        and any(all(requirement.accepts(node.labels) for requirement in term) for term in terms)
    )
    if asked:
        return accepted
    # Who only says what it must not be keeps away from Spot, or has said nothing.
    return None if Tier.SPOT in accepted else frozenset({Tier.ON_DEMAND})


def _by_pools(demand: Demand, pools: Iterable[NodePool]) -> Aim | None:
    """By a label that someone gave to the nodes of a known pool, or by the pool's name.

    An accelerator or a machine type does not tell: nodes of any tier may have it.
    """
    asked = {requirement.key for term in demand.alternatives for requirement in term}
    fitting = [
        pool
        for pool in pools
        if asked & {POOL_LABEL, *pool.labels} and demand.selects(pool.node_labels)
    ]
    open_to_it = [pool for pool in fitting if demand.tolerates(pool.taints)] or fitting
    return _of_pools(open_to_it, By.POOLS, is_pinned=True)


def _by_preference(demand: Demand, pools: Iterable[NodePool]) -> Aim | None:
    """A wish for Spot: it may get there, and may as well not."""
    for term in demand.preferred:
        tiers = _tiers_by_label([term])
        if tiers is None and term:
            found = [p for p in pools if all(r.accepts(p.node_labels) for r in term)]
            tiers = frozenset(pool.tier for pool in found if pool.tier is not None)
        if tiers and Tier.SPOT in tiers:
            return Aim(tiers=tiers, by=By.PREFERENCE)
    return None


def _by_toleration(demand: Demand, pools: tuple[NodePool, ...]) -> Aim | None:
    for toleration in demand.tolerations:
        tier = tolerated_tier(toleration, pools)
        if tier is not None:
            return Aim(tiers=frozenset({tier}), by=By.TOLERATION, toleration=toleration)
    return None


def _by_cluster(demand: Demand, capacity: Capacity) -> Aim | None:
    if capacity.is_autopilot:
        return Aim(tiers=frozenset({Tier.ON_DEMAND}), by=By.CLUSTER, is_pinned=True)
    if not capacity.is_whole:
        return None
    fitting = [
        pool
        for pool in capacity.pools
        if demand.selects(pool.node_labels) and demand.tolerates(pool.taints)
    ]
    return _of_pools(fitting, By.CLUSTER, is_pinned=False)


def _of_pools(pools: list[NodePool], by: By, *, is_pinned: bool) -> Aim | None:
    if not pools or any(pool.tier is None for pool in pools):
        return None
    tiers = frozenset(pool.tier for pool in pools if pool.tier is not None)
    return Aim(tiers=tiers, by=by, is_pinned=is_pinned)
