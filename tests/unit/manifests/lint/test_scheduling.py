"""Selectors, affinity and tolerations match as the scheduler matches them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outlast.manifests.lint.scheduling import Requirement, Taint, Toleration, node_demand

SPOT = Taint(key="tier", value="spot", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "matches"),
    [
        (Toleration(key="tier", value="spot", effect="NoSchedule"), True),
        (Toleration(key="tier", value="spot"), True),
        (Toleration(key="tier", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="tier", value="other"), False),
        (Toleration(key="tier", value="spot", effect="NoExecute"), False),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(), False),
        (Toleration(key="tier", operator="Sometimes", value="spot"), False),
    ],
    ids=str,
)
def test_a_toleration_matches_a_taint(toleration: Toleration, matches: bool) -> None:
    assert toleration.matches(SPOT) is matches


@pytest.mark.parametrize(
    ("operator", "values", "labels", "accepts"),
    [
        ("In", ("a", "b"), {"k": "a"}, True),
        ("In", ("a",), {}, False),
        ("In", (), {"k": "a"}, False),
        ("NotIn", ("a",), {}, True),
        ("NotIn", ("a",), {"k": "a"}, False),
        ("Exists", (), {"k": ""}, True),
        ("DoesNotExist", (), {"k": ""}, False),
        ("DoesNotExist", (), {}, True),
        ("Gt", ("3",), {"k": "4"}, True),
        ("Lt", ("3",), {"k": "4"}, False),
        ("Gt", ("3",), {"k": "many"}, False),
        ("Near", ("a",), {"k": "a"}, False),
    ],
)
def test_a_requirement_accepts_labels(
    operator: str, values: tuple[str, ...], labels: dict[str, str], accepts: bool
) -> None:
    assert Requirement(key="k", operator=operator, values=values).accepts(labels) is accepts


def required(*terms: Any) -> dict[str, Any]:
    selection = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": selection}}


def expression(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": list(values)}


def test_the_selector_and_one_term_of_the_affinity_must_hold() -> None:
    demand = node_demand(
        {
            "nodeSelector": {"zone": "a"},
            "affinity": required(
                {"matchExpressions": [expression("gpu", "l4"), expression("tier", "spot")]},
                {"matchExpressions": [expression("gpu", "t4")]},
            ),
        }
    )

    assert demand.selects({"zone": "a", "gpu": "t4"})
    assert demand.selects({"zone": "a", "gpu": "l4", "tier": "spot"})
    assert not demand.selects({"zone": "a", "gpu": "l4"})
    assert not demand.selects({"zone": "b", "gpu": "t4"})


def test_an_empty_term_matches_nothing() -> None:
    assert not node_demand({"affinity": required({})}).selects({"any": "label"})
    assert node_demand({}).selects({})


def test_a_soft_taint_and_the_taint_of_a_gpu_keep_nobody_off() -> None:
    demand = node_demand({})

    assert demand.tolerates([Taint(key="k", effect="PreferNoSchedule")])
    assert demand.tolerates([Taint(key="nvidia.com/gpu", value="present")])
    assert not demand.tolerates([SPOT])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "nodeSelector",
                    "tolerations",
                    "affinity",
                    "nodeAffinity",
                    "requiredDuringSchedulingIgnoredDuringExecution",
                    "preferredDuringSchedulingIgnoredDuringExecution",
                    "nodeSelectorTerms",
                    "preference",
                    "matchExpressions",
                    "key",
                    "operator",
                    "values",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(["nodeSelector", "tolerations", "affinity"]), JSON))
def test_anything_in_a_spec_is_a_demand(spec: dict[str, Any]) -> None:
    demand = node_demand(spec)

    demand.selects({"key": "value"})
    demand.tolerates([SPOT])


def test_values_without_quotes_count_as_the_text_that_was_meant() -> None:
    expression = {"key": "pool", "operator": "In", "values": [7, True]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    demand = node_demand(
        {
            "nodeSelector": {"cloud.google.com/gke-spot": True, "nothing": None},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
            "tolerations": [{"key": "cloud.google.com/gke-spot", "value": True}],
        }
    )

    assert demand.selector == {"cloud.google.com/gke-spot": "true"}
    assert demand.required == ((Requirement(key="pool", operator="In", values=("7", "true")),),)
    assert [one.value for one in demand.tolerations] == ["true"]
