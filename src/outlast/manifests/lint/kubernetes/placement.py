"""Where a Pod may run: on which tiers, and how long it can run once its Spot node is reclaimed.

Pure. The tier is derived from the strongest evidence, in this order: the ComputeClass, the labels
that GKE gives to nodes, the known node pools that match the Pod's selectors, its preferred
affinity, its tolerations, and the cluster. A Pod that only tolerates Spot may run there, so it must
survive Spot, but it is not pinned to it.

A pool whose kubelet settings cannot be read is assumed to give the longest window, so that nothing
is reported that may be fine.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from outlast.manifests.conventions import (
    CLASS_LABEL,
    FLEX_START_LABEL,
    POOL_LABEL,
    PREEMPTIBLE_LABEL,
    PROVISIONING_LABEL,
    QUEUED_LABEL,
    SPOT_LABEL,
)
from outlast.manifests.lint.pools.kubelet import window_in
from outlast.manifests.lint.pools.model import (
    GKE_NODES,
    WINDOW_SECONDS_DEFAULT,
    WINDOW_SECONDS_MAX,
    ClusterCapacity,
    NodePool,
    NodeTier,
)
from outlast.manifests.lint.scheduling import (
    HARD_EFFECTS,
    NodeDemand,
    Requirement,
    Taint,
    Term,
    Toleration,
)
from outlast.manifests.lint.view import KubernetesObject
from outlast.yamltext.nodes import get

TIER_KEYS = frozenset(
    (SPOT_LABEL, PREEMPTIBLE_LABEL, FLEX_START_LABEL, PROVISIONING_LABEL, QUEUED_LABEL)
)
_GKE_TAINTS = {
    SPOT_LABEL: NodeTier.SPOT,
    PREEMPTIBLE_LABEL: NodeTier.SPOT,
    FLEX_START_LABEL: NodeTier.FLEX_START,
    QUEUED_LABEL: NodeTier.FLEX_START,
}
# The classes built into Autopilot; all but one are on-demand.
BUILT_IN_CLASSES = {
    **dict.fromkeys(
        ("Accelerator", "Balanced", "Performance", "Scale-Out", "autopilot", "autopilot-arm"),
        frozenset({NodeTier.ON_DEMAND}),
    ),
    "autopilot-spot": frozenset({NodeTier.SPOT}),
}
# Kubernetes and GKE add labels with these prefixes to nodes, and not all of them are known here.
_GIVEN_PREFIXES = (
    "kubernetes.io/",
    "beta.kubernetes.io/",
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
    "topology.gke.io/",
    "failure-domain.beta.kubernetes.io/",
    "cloud.google.com/",
)


class Evidence(StrEnum):
    """What the tier was derived from."""

    CLASS = "compute class"
    LABELS = "node labels"
    POOLS = "node pools"
    PREFERENCE = "preferred affinity"
    TOLERATION = "toleration"
    REQUEST = "provisioning request"
    CLUSTER = "cluster"
    NOTHING = "nothing"


@dataclass(frozen=True, kw_only=True, slots=True)
class Placement:
    """The tiers that a Pod may run on, empty if unknown.

    `is_pinned`: it cannot run anywhere else. `toleration` is the evidence if `by` says so.
    """

    tiers: frozenset[NodeTier] = frozenset()
    by: Evidence = Evidence.NOTHING
    is_pinned: bool = False
    toleration: Toleration | None = None

    def is_only(self, tier: NodeTier) -> bool:
        return self.tiers == {tier}

    @property
    def includes_spot(self) -> bool:
        """Whether its node may be reclaimed at any time."""
        return NodeTier.SPOT in self.tiers


def find_placement(
    demand: NodeDemand,
    capacity: ClusterCapacity,
    classes: Mapping[str, frozenset[NodeTier]] | None = None,
    *,
    default_class: str | None = None,
    is_provisioned: bool = False,
) -> Placement:
    """Where a Pod may run. `classes` are the tiers of known ComputeClasses, by name.

    `default_class` is the class of its namespace, for a Pod that names none. `is_provisioned`: it
    waits for the nodes of a request for queued provisioning.
    """
    named = _class_tiers(demand, {**BUILT_IN_CLASSES, **(classes or {})}, default_class)
    by_label = _tiers_by_label(demand.alternatives)
    if named is not None and by_label is None:
        return Placement(tiers=named, by=Evidence.CLASS, is_pinned=bool(named))
    if by_label is not None:
        return Placement(tiers=by_label, by=Evidence.LABELS, is_pinned=True)
    if is_provisioned:
        tiers = frozenset({NodeTier.FLEX_START})
        return Placement(tiers=tiers, by=Evidence.REQUEST, is_pinned=True)
    return (
        _by_pools(demand, capacity.pools)
        or _by_preference(demand, capacity.pools)
        or _by_toleration(demand, capacity.pools)
        or _by_cluster(demand, capacity)
        or Placement()
    )


def selects_pool(demand: NodeDemand) -> bool:
    """Whether a Pod selects nodes by their pool, or by a label that people give to pools."""
    return bool(demand.alternatives) and all(
        any(
            one.operator in ("In", "Exists")
            and (one.key == POOL_LABEL or not one.key.startswith(_GIVEN_PREFIXES))
            for one in term
        )
        for term in demand.alternatives
    )


def tolerated_tier(toleration: Toleration, pools: Iterable[NodePool]) -> NodeTier | None:
    """The tier whose nodes a toleration is for, None if that is not exactly one.

    Derived from GKE's own taints or the taints of the pools. A toleration without a key tolerates
    everything, so it is for no tier.
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
    demand: NodeDemand, classes: Mapping[str, frozenset[NodeTier]], default_class: str | None
) -> frozenset[NodeTier] | None:
    """The tiers of the classes it selects, empty if one is unknown, None if it selects none."""
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


def _tiers_by_label(alternatives: Iterable[Term]) -> frozenset[NodeTier] | None:
    """The tiers whose nodes match by GKE's own labels, None if those labels do not decide.

    Each kind of GKE node is checked against the requirements on these labels only.
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
        # Nodes that few clusters have count only if they are named.
        if (not node.rare_words or node.rare_words & asked)
        and any(all(requirement.accepts(node.labels) for requirement in term) for term in terms)
    )
    if asked:
        return accepted
    # Only exclusions: the Pod avoids Spot, or nothing is known.
    return None if NodeTier.SPOT in accepted else frozenset({NodeTier.ON_DEMAND})


def _by_pools(demand: NodeDemand, pools: Iterable[NodePool]) -> Placement | None:
    """By a label of a known node pool, or by its name.

    An accelerator or a machine type does not count: nodes of any tier may have it.
    """
    asked = {requirement.key for term in demand.alternatives for requirement in term}
    fitting = [
        pool
        for pool in pools
        if asked & {POOL_LABEL, *pool.labels} and demand.selects(pool.node_labels)
    ]
    open_to_it = [pool for pool in fitting if demand.tolerates(pool.taints)] or fitting
    return _of_pools(open_to_it, Evidence.POOLS, is_pinned=True)


def _by_preference(demand: NodeDemand, pools: Iterable[NodePool]) -> Placement | None:
    """A preference for Spot: it may run there, or elsewhere."""
    for term in demand.preferred:
        # To prefer other nodes than some is no wish for Spot.
        if not any(requirement.operator in ("In", "Exists") for requirement in term):
            continue
        tiers = _tiers_by_label([term])
        if tiers is None and term:
            found = [p for p in pools if all(r.accepts(p.node_labels) for r in term)]
            tiers = frozenset(pool.tier for pool in found if pool.tier is not None)
        if tiers and NodeTier.SPOT in tiers:
            return Placement(tiers=tiers, by=Evidence.PREFERENCE)
    return None


def _by_toleration(demand: NodeDemand, pools: tuple[NodePool, ...]) -> Placement | None:
    for toleration in demand.tolerations:
        tier = tolerated_tier(toleration, pools)
        if tier is not None:
            return Placement(tiers=frozenset({tier}), by=Evidence.TOLERATION, toleration=toleration)
    return None


def _by_cluster(demand: NodeDemand, capacity: ClusterCapacity) -> Placement | None:
    if capacity.is_autopilot:
        return Placement(tiers=frozenset({NodeTier.ON_DEMAND}), by=Evidence.CLUSTER, is_pinned=True)
    if not capacity.is_complete:
        return None
    fitting = [
        pool
        for pool in capacity.pools
        if demand.selects(pool.node_labels) and demand.tolerates(pool.taints)
    ]
    return _of_pools(fitting, Evidence.CLUSTER, is_pinned=False)


def _of_pools(pools: list[NodePool], by: Evidence, *, is_pinned: bool) -> Placement | None:
    if not pools or any(pool.tier is None for pool in pools):
        return None
    tiers = frozenset(pool.tier for pool in pools if pool.tier is not None)
    return Placement(tiers=tiers, by=by, is_pinned=is_pinned)


def find_window(demand: NodeDemand, pools: Iterable[NodePool], classes: Mapping[str, int]) -> int:
    """The shortest window, in seconds, of the Spot nodes that a Pod may run on."""
    named = [
        value
        for term in demand.alternatives
        for requirement in term
        if requirement.key == CLASS_LABEL and requirement.operator == "In"
        for value in requirement.values
    ]
    if named:
        return min(classes.get(name, WINDOW_SECONDS_DEFAULT) for name in named)
    return _shortest(
        pool
        for pool in pools
        if _may_select(demand, pool.node_labels) and demand.tolerates(pool.taints)
    )


def class_window(manifest: KubernetesObject, pools: Iterable[NodePool]) -> int:
    """The shortest window, in seconds, of the Spot nodes that a ComputeClass creates or names."""
    listed = list(pools)
    default = manifest.get("spec", "priorityDefaults", "nodeSystemConfig", "kubeletConfig")
    windows = []
    for _, priority in manifest.mappings("spec", "priorities"):
        named = priority.get("nodepools")
        if isinstance(named, list):
            windows.append(_shortest(pool for pool in listed if pool.name in named))
        elif priority.get("spot") is True:
            own = get(priority, ("nodeSystemConfig", "kubeletConfig"), default)
            window = window_in(own)
            windows.append(WINDOW_SECONDS_MAX if window is None else window)
    return min(windows, default=WINDOW_SECONDS_DEFAULT)


def _shortest(pools: Iterable[NodePool]) -> int:
    return min(
        (
            WINDOW_SECONDS_MAX if pool.window_seconds is None else pool.window_seconds
            for pool in pools
            if pool.tier is NodeTier.SPOT
        ),
        default=WINDOW_SECONDS_DEFAULT,
    )


def _may_select(demand: NodeDemand, labels: Mapping[str, str]) -> bool:
    return any(
        all(_may_accept(requirement, labels) for requirement in term)
        for term in demand.alternatives
    )


def _may_accept(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    is_unknown = requirement.key not in labels and requirement.key.startswith(_GIVEN_PREFIXES)
    return is_unknown or requirement.accepts(labels)
