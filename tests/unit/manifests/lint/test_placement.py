"""Which tier a Pod is aimed at, by all that can tell."""

from typing import Any

import pytest

from outlast.manifests.lint.kubernetes.placement import (
    Evidence,
    Placement,
    find_placement,
    tolerated_tier,
)
from outlast.manifests.lint.pools.model import ClusterCapacity, NodePool, NodeTier
from outlast.manifests.lint.scheduling import Taint, Toleration, node_demand
from outlast.yamltext.source import SourceSpan, SourceText

PREFIX = "cloud.google.com/"
NOWHERE = SourceSpan(source=SourceText(name="pools", text=""), start=0, end=0)
DEDICATED = Taint(key="provisioning-tier", value="preemptible")
SPOT_POOL = NodePool(
    name="spot", tier=NodeTier.SPOT, place=NOWHERE, taints=(DEDICATED,), labels={"pool": "cheap"}
)
ON_DEMAND_POOL = NodePool(
    name="steady",
    tier=NodeTier.ON_DEMAND,
    place=NOWHERE,
    labels={"pool": "dear"},
    accelerator="nvidia-l4",
)
POOLS = ClusterCapacity(pools=(SPOT_POOL, ON_DEMAND_POOL))


def placement(spec: dict[str, Any], capacity: ClusterCapacity = POOLS, **more: Any) -> Placement:
    return find_placement(node_demand(spec), capacity, **more)


def selecting(**labels: str) -> dict[str, Any]:
    return {"nodeSelector": {PREFIX + key.replace("_", "-"): v for key, v in labels.items()}}


def affinity(kind: str, *terms: list[dict[str, Any]]) -> dict[str, Any]:
    if kind == "required":
        inner: Any = {"nodeSelectorTerms": [{"matchExpressions": term} for term in terms]}
    else:
        inner = [{"weight": 1, "preference": {"matchExpressions": term}} for term in terms]
    return {"affinity": {"nodeAffinity": {f"{kind}DuringSchedulingIgnoredDuringExecution": inner}}}


def asks(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": PREFIX + key, "operator": operator, "values": list(values)}


@pytest.mark.parametrize(
    ("spec", "tiers"),
    [
        (selecting(gke_spot="true"), {NodeTier.SPOT}),
        (selecting(gke_provisioning="spot"), {NodeTier.SPOT}),
        (selecting(gke_provisioning="preemptible"), {NodeTier.SPOT}),
        (selecting(gke_preemptible="true"), {NodeTier.SPOT}),
        (selecting(gke_flex_start="true"), {NodeTier.FLEX_START}),
        (selecting(gke_queued="true"), {NodeTier.FLEX_START}),
        (selecting(gke_provisioning="standard"), {NodeTier.ON_DEMAND}),
        (selecting(gke_spot="true", gke_flex_start="true"), set()),
        (affinity("required", [asks("gke-spot", "In", "true")]), {NodeTier.SPOT}),
        (affinity("required", [asks("gke-spot", "Exists")]), {NodeTier.SPOT}),
        (affinity("required", [asks("gke-spot", "DoesNotExist")]), {NodeTier.ON_DEMAND}),
        (affinity("required", [asks("gke-provisioning", "NotIn", "spot")]), {NodeTier.ON_DEMAND}),
        (
            affinity("required", [asks("gke-provisioning", "In", "spot", "standard")]),
            {NodeTier.SPOT, NodeTier.ON_DEMAND},
        ),
        (
            affinity("required", [asks("gke-spot", "Exists")], [asks("gke-flex-start", "Exists")]),
            {NodeTier.SPOT, NodeTier.FLEX_START},
        ),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else str(value),
)
def test_the_labels_of_gke_tell_and_pin(spec: dict[str, Any], tiers: set[NodeTier]) -> None:
    found = placement(spec, ClusterCapacity())

    assert found == Placement(tiers=frozenset(tiers), by=Evidence.LABELS, is_pinned=True)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        selecting(gke_accelerator="nvidia-l4"),
        affinity("required", [asks("gke-flex-start", "DoesNotExist")]),
        affinity("required", [asks("gke-spot", "Exists")], [asks("gke-accelerator", "Exists")]),
        {"tolerations": [{"operator": "Exists"}]},
        {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
        {"tolerations": [{"key": "team", "value": "ml"}]},
    ],
    ids=str,
)
def test_what_says_nothing_about_a_tier_is_unknown(spec: dict[str, Any]) -> None:
    assert placement(spec) == Placement()


def test_a_label_of_a_known_pool_tells_and_pins() -> None:
    found = placement({"nodeSelector": {"pool": "cheap"}})

    assert found == Placement(tiers=frozenset({NodeTier.SPOT}), by=Evidence.POOLS, is_pinned=True)


def test_the_name_of_a_known_pool_tells() -> None:
    assert placement(selecting(gke_nodepool="steady")).is_only(NodeTier.ON_DEMAND)
    assert placement(selecting(gke_nodepool="unheard-of")) == Placement()


def test_of_several_fitting_pools_those_count_that_let_the_pod_in() -> None:
    open_pool = NodePool(name="b", tier=NodeTier.ON_DEMAND, place=NOWHERE, labels={"pool": "cheap"})
    capacity = ClusterCapacity(pools=(SPOT_POOL, open_pool))

    assert placement({"nodeSelector": {"pool": "cheap"}}, capacity).is_only(NodeTier.ON_DEMAND)


def test_a_toleration_of_a_spot_pool_allows_but_does_not_pin() -> None:
    found = placement({"tolerations": [{"key": "provisioning-tier", "value": "preemptible"}]})

    assert found.is_only(NodeTier.SPOT)
    assert (found.by, found.is_pinned) == (Evidence.TOLERATION, False)
    assert found.toleration is not None and found.toleration.index == 0


def test_without_the_pool_nobody_knows_what_a_toleration_is_for() -> None:
    spec = {"tolerations": [{"key": "provisioning-tier", "value": "preemptible"}]}

    assert placement(spec, ClusterCapacity()) == Placement()


def test_an_accelerator_is_no_reason_to_land_on_spot() -> None:
    spot = NodePool(
        name="s", tier=NodeTier.SPOT, place=NOWHERE, taints=(DEDICATED,), accelerator="nvidia-l4"
    )
    spec = {
        **selecting(gke_accelerator="nvidia-l4"),
        "tolerations": [{"key": "provisioning-tier", "operator": "Exists"}],
    }

    found = placement(spec, ClusterCapacity(pools=(spot,)))

    assert (found.by, found.is_pinned) == (Evidence.TOLERATION, False)


def test_a_preference_may_lead_to_spot() -> None:
    found = placement(affinity("preferred", [asks("gke-spot", "In", "true")]), ClusterCapacity())

    assert found == Placement(tiers=frozenset({NodeTier.SPOT}), by=Evidence.PREFERENCE)


def test_a_toleration_of_the_taint_of_two_tiers_tells_nothing() -> None:
    both = NodePool(name="f", tier=NodeTier.FLEX_START, place=NOWHERE, taints=(DEDICATED,))
    toleration = Toleration(key="provisioning-tier", operator="Exists")

    assert tolerated_tier(toleration, [SPOT_POOL]) is NodeTier.SPOT
    assert tolerated_tier(toleration, [SPOT_POOL, both]) is None


def test_a_toleration_of_the_wrong_value_is_for_nobody() -> None:
    assert tolerated_tier(Toleration(key=PREFIX + "gke-spot", value="yes"), []) is None
    assert tolerated_tier(Toleration(key=PREFIX + "gke-spot", value="true"), []) is NodeTier.SPOT


def test_a_compute_class_gives_all_its_tiers() -> None:
    classes = {"thrifty": frozenset({NodeTier.SPOT, NodeTier.ON_DEMAND})}

    found = placement(selecting(compute_class="thrifty"), classes=classes)

    assert found == Placement(tiers=classes["thrifty"], by=Evidence.CLASS, is_pinned=True)
    assert found.includes_spot and not found.is_only(NodeTier.SPOT)


def test_a_compute_class_that_nobody_defined_is_unknown() -> None:
    assert placement(selecting(compute_class="elsewhere")).tiers == frozenset()


def test_the_class_of_the_namespace_counts_for_a_pod_without_one() -> None:
    classes = {"thrifty": frozenset({NodeTier.SPOT})}

    assert placement({}, classes=classes, default_class="thrifty").is_only(NodeTier.SPOT)


def test_autopilot_is_on_demand_unless_spot_is_selected() -> None:
    autopilot = ClusterCapacity(is_autopilot=True)

    assert placement({}, autopilot).is_only(NodeTier.ON_DEMAND)
    assert placement(selecting(compute_class="Scale-Out"), autopilot).is_only(NodeTier.ON_DEMAND)
    assert placement(selecting(compute_class="Scale-Out", gke_spot="true"), autopilot).is_only(
        NodeTier.SPOT
    )


def test_all_pools_of_a_cluster_tell_where_a_plain_pod_runs() -> None:
    whole = ClusterCapacity(pools=POOLS.pools, is_complete=True)
    untainted = NodePool(name="u", tier=NodeTier.SPOT, place=NOWHERE)

    assert placement({}, whole).is_only(NodeTier.ON_DEMAND)
    assert placement(
        {}, ClusterCapacity(pools=(*POOLS.pools, untainted), is_complete=True)
    ).tiers == {
        NodeTier.SPOT,
        NodeTier.ON_DEMAND,
    }


def test_a_pool_of_an_unknown_tier_leaves_it_open() -> None:
    unknown = NodePool(name="x", tier=None, place=NOWHERE, labels={"pool": "cheap"})

    assert (
        placement({"nodeSelector": {"pool": "cheap"}}, ClusterCapacity(pools=(unknown,)))
        == Placement()
    )


def test_a_pod_that_waits_for_queued_provisioning_has_a_lease() -> None:
    found = placement({}, is_provisioned=True)

    assert found.is_only(NodeTier.FLEX_START)
    assert (found.by, found.is_pinned) == (Evidence.REQUEST, True)
    # A label is stronger evidence.
    assert placement(selecting(gke_spot="true"), is_provisioned=True).is_only(NodeTier.SPOT)
