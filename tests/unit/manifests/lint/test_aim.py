"""Which tier a Pod is aimed at, by all that can tell."""

from typing import Any

import pytest

from outlast.manifests.lint.aim import Aim, By, find_aim, tolerated_tier
from outlast.manifests.lint.pools.model import Capacity, NodePool, Tier
from outlast.manifests.lint.scheduling import Taint, Toleration, demand_of
from outlast.manifests.lint.source import Place, Source

PREFIX = "cloud.google.com/"
NOWHERE = Place(source=Source(name="pools", text=""), start=0, end=0)
DEDICATED = Taint(key="provisioning-tier", value="preemptible")
SPOT_POOL = NodePool(
    name="spot", tier=Tier.SPOT, place=NOWHERE, taints=(DEDICATED,), labels={"pool": "cheap"}
)
ON_DEMAND_POOL = NodePool(
    name="steady",
    tier=Tier.ON_DEMAND,
    place=NOWHERE,
    labels={"pool": "dear"},
    accelerator="nvidia-l4",
)
POOLS = Capacity(pools=(SPOT_POOL, ON_DEMAND_POOL))


def aim(spec: dict[str, Any], capacity: Capacity = POOLS, **more: Any) -> Aim:
    return find_aim(demand_of(spec), capacity, **more)


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
        (selecting(gke_spot="true"), {Tier.SPOT}),
        (selecting(gke_provisioning="spot"), {Tier.SPOT}),
        (selecting(gke_provisioning="preemptible"), {Tier.SPOT}),
        (selecting(gke_preemptible="true"), {Tier.SPOT}),
        (selecting(gke_flex_start="true"), {Tier.FLEX_START}),
        (selecting(gke_queued="true"), {Tier.FLEX_START}),
        (selecting(gke_provisioning="standard"), {Tier.ON_DEMAND}),
        (selecting(gke_spot="true", gke_flex_start="true"), set()),
        (affinity("required", [asks("gke-spot", "In", "true")]), {Tier.SPOT}),
        (affinity("required", [asks("gke-spot", "Exists")]), {Tier.SPOT}),
        (affinity("required", [asks("gke-spot", "DoesNotExist")]), {Tier.ON_DEMAND}),
        (affinity("required", [asks("gke-provisioning", "NotIn", "spot")]), {Tier.ON_DEMAND}),
        (
            affinity("required", [asks("gke-provisioning", "In", "spot", "standard")]),
            {Tier.SPOT, Tier.ON_DEMAND},
        ),
        (
            affinity("required", [asks("gke-spot", "Exists")], [asks("gke-flex-start", "Exists")]),
            {Tier.SPOT, Tier.FLEX_START},
        ),
    ],
    ids=str,
)
def test_the_labels_of_gke_tell_and_pin(spec: dict[str, Any], tiers: set[Tier]) -> None:
    found = aim(spec, Capacity())

    assert found == Aim(tiers=frozenset(tiers), by=By.LABELS, is_pinned=True)


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
    assert aim(spec) == Aim()


def test_a_label_of_a_known_pool_tells_and_pins() -> None:
    found = aim({"nodeSelector": {"pool": "cheap"}})

    assert found == Aim(tiers=frozenset({Tier.SPOT}), by=By.POOLS, is_pinned=True)


def test_the_name_of_a_known_pool_tells() -> None:
    assert aim(selecting(gke_nodepool="steady")).is_only(Tier.ON_DEMAND)
    assert aim(selecting(gke_nodepool="unheard-of")) == Aim()


def test_of_several_fitting_pools_those_count_that_let_the_pod_in() -> None:
    open_pool = NodePool(name="b", tier=Tier.ON_DEMAND, place=NOWHERE, labels={"pool": "cheap"})
    capacity = Capacity(pools=(SPOT_POOL, open_pool))

    assert aim({"nodeSelector": {"pool": "cheap"}}, capacity).is_only(Tier.ON_DEMAND)


def test_a_toleration_of_a_spot_pool_allows_but_does_not_pin() -> None:
    found = aim({"tolerations": [{"key": "provisioning-tier", "value": "preemptible"}]})

    assert found.is_only(Tier.SPOT)
    assert (found.by, found.is_pinned) == (By.TOLERATION, False)
    assert found.toleration is not None and found.toleration.index == 0


def test_without_the_pool_nobody_knows_what_a_toleration_is_for() -> None:
    spec = {"tolerations": [{"key": "provisioning-tier", "value": "preemptible"}]}

    assert aim(spec, Capacity()) == Aim()


def test_an_accelerator_is_no_reason_to_land_on_spot() -> None:
    spot = NodePool(
        name="s", tier=Tier.SPOT, place=NOWHERE, taints=(DEDICATED,), accelerator="nvidia-l4"
    )
    spec = {
        **selecting(gke_accelerator="nvidia-l4"),
        "tolerations": [{"key": "provisioning-tier", "operator": "Exists"}],
    }

    found = aim(spec, Capacity(pools=(spot,)))

    assert (found.by, found.is_pinned) == (By.TOLERATION, False)


def test_a_preference_may_lead_to_spot() -> None:
    found = aim(affinity("preferred", [asks("gke-spot", "In", "true")]), Capacity())

    assert found == Aim(tiers=frozenset({Tier.SPOT}), by=By.PREFERENCE)


def test_a_toleration_of_the_taint_of_two_tiers_tells_nothing() -> None:
    both = NodePool(name="f", tier=Tier.FLEX_START, place=NOWHERE, taints=(DEDICATED,))
    toleration = Toleration(key="provisioning-tier", operator="Exists")

    assert tolerated_tier(toleration, [SPOT_POOL]) is Tier.SPOT
    assert tolerated_tier(toleration, [SPOT_POOL, both]) is None


def test_a_toleration_of_the_wrong_value_is_for_nobody() -> None:
    assert tolerated_tier(Toleration(key=PREFIX + "gke-spot", value="yes"), []) is None
    assert tolerated_tier(Toleration(key=PREFIX + "gke-spot", value="true"), []) is Tier.SPOT


def test_a_compute_class_gives_all_its_tiers() -> None:
    classes = {"thrifty": frozenset({Tier.SPOT, Tier.ON_DEMAND})}

    found = aim(selecting(compute_class="thrifty"), classes=classes)

    assert found == Aim(tiers=classes["thrifty"], by=By.CLASS, is_pinned=True)
    assert found.includes_spot and not found.is_only(Tier.SPOT)


def test_a_compute_class_that_nobody_defined_is_unknown() -> None:
    assert aim(selecting(compute_class="elsewhere")).tiers == frozenset()


def test_the_class_of_the_namespace_counts_for_a_pod_without_one() -> None:
    classes = {"thrifty": frozenset({Tier.SPOT})}

    assert aim({}, classes=classes, default_class="thrifty").is_only(Tier.SPOT)


def test_autopilot_is_on_demand_unless_spot_is_selected() -> None:
    autopilot = Capacity(is_autopilot=True)

    assert aim({}, autopilot).is_only(Tier.ON_DEMAND)
    assert aim(selecting(compute_class="Scale-Out"), autopilot).is_only(Tier.ON_DEMAND)
    assert aim(selecting(compute_class="Scale-Out", gke_spot="true"), autopilot).is_only(Tier.SPOT)


def test_all_pools_of_a_cluster_tell_where_a_plain_pod_runs() -> None:
    whole = Capacity(pools=POOLS.pools, is_whole=True)
    untainted = NodePool(name="u", tier=Tier.SPOT, place=NOWHERE)

    assert aim({}, whole).is_only(Tier.ON_DEMAND)
    assert aim({}, Capacity(pools=(*POOLS.pools, untainted), is_whole=True)).tiers == {
        Tier.SPOT,
        Tier.ON_DEMAND,
    }


def test_a_pool_of_an_unknown_tier_leaves_it_open() -> None:
    unknown = NodePool(name="x", tier=None, place=NOWHERE, labels={"pool": "cheap"})

    assert aim({"nodeSelector": {"pool": "cheap"}}, Capacity(pools=(unknown,))) == Aim()
