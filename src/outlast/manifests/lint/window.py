"""How long a Pod lives once its Spot node is reclaimed: what the nodes that it may get leave to it.

Pure. A pool whose settings cannot be read is taken to give the longest window there is, so that
nobody is told of a shortage that may not be one.
"""

from collections.abc import Iterable, Mapping

from outlast.manifests.lint.nodes import get
from outlast.manifests.lint.pools.kubelet import window_in
from outlast.manifests.lint.pools.model import (
    CLASS_LABEL,
    WINDOW_SECONDS_DEFAULT,
    WINDOW_SECONDS_MAX,
    NodePool,
    Tier,
)
from outlast.manifests.lint.scheduling import Demand, Requirement
from outlast.manifests.lint.view import Manifest

# Kubernetes and GKE put labels under these on every node, and not all of them are known here.
_GIVEN_PREFIXES = (
    "kubernetes.io/",
    "beta.kubernetes.io/",
    "node.kubernetes.io/",
    "topology.kubernetes.io/",
    "topology.gke.io/",
    "failure-domain.beta.kubernetes.io/",
    "cloud.google.com/",
)


def find_window(demand: Demand, pools: Iterable[NodePool], classes: Mapping[str, int]) -> int:
    """The shortest window of the Spot nodes that a Pod may get."""
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


def class_window(manifest: Manifest, pools: Iterable[NodePool]) -> int:
    """The shortest window of the Spot nodes that a ComputeClass makes or names."""
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
            if pool.tier is Tier.SPOT
        ),
        default=WINDOW_SECONDS_DEFAULT,
    )


def _may_select(demand: Demand, labels: Mapping[str, str]) -> bool:
    return any(
        all(_may_accept(requirement, labels) for requirement in term)
        for term in demand.alternatives
    )


def _may_accept(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    is_unknown = requirement.key not in labels and requirement.key.startswith(_GIVEN_PREFIXES)
    return is_unknown or requirement.accepts(labels)
