"""Node pools that have no node now, as `gcloud container clusters describe` shows them."""

from typing import Any

import pytest

from outlast.cluster.checks.pools import pool_result
from outlast.cluster.checks.result import CheckOutcome, CheckResult
from outlast.manifests.lint.scheduling import node_demand

SPOT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NO_SCHEDULE"}
POD: dict[str, Any] = {
    "nodeSelector": {"cloud.google.com/gke-spot": "true", "team": "a"},
    "tolerations": [{"key": "cloud.google.com/gke-spot", "operator": "Exists"}],
}


def pool(**config: Any) -> dict[str, Any]:
    given = {
        "machineType": "g2-standard-8",
        "spot": True,
        "labels": {"team": "a"},
        "taints": [SPOT],
        **config,
    }
    scaling = {"enabled": True, "totalMaxNodeCount": 4}
    return {"name": "spot-l4", "config": given, "autoscaling": scaling}


def result(
    *pools: dict[str, Any], pod: dict[str, Any] = POD, **described: Any
) -> CheckResult | None:
    return pool_result("Job 'tiny'", node_demand(pod), {"nodePools": list(pools), **described})


def test_a_pool_without_nodes_can_take_the_pod() -> None:
    found = result(pool())

    assert found is not None and found.outcome is CheckOutcome.OK
    assert found.text == (
        "Job 'tiny': no node matches now, but pool 'spot-l4' (g2-standard-8, up to 4 nodes) does, "
        "taints tolerated"
    )


def test_a_taint_of_the_pool_that_is_not_tolerated_fails() -> None:
    own = {"key": "team", "value": "b", "effect": "NO_SCHEDULE"}
    found = result(pool(taints=[SPOT, own]))

    assert found is not None and found.outcome is CheckOutcome.FAIL
    assert "does not tolerate team=b:NoSchedule" in found.text
    assert "team=b:NoSchedule" in found.next_step


def test_no_pool_with_the_labels_fails_unless_pools_are_created_when_needed() -> None:
    other = pool(labels={"team": "b"}, spot=False)
    nap = {"autoscaling": {"enableNodeAutoprovisioning": True}}

    missing, maybe = result(other), result(other, **nap)
    autopilot = result(other, autopilot={"enabled": True})

    assert missing is not None and missing.outcome is CheckOutcome.FAIL
    assert "none of the node pools (spot-l4) has the labels" in missing.text
    assert maybe is not None and maybe.outcome is CheckOutcome.UNKNOWN
    assert autopilot is not None and autopilot.outcome is CheckOutcome.OK


@pytest.mark.parametrize("key", ["topology.kubernetes.io/zone", "cloud.google.com/gke-boot-disk"])
def test_a_label_that_pools_do_not_show_decides_nothing(key: str) -> None:
    selector = {**POD["nodeSelector"], key: "x"}
    found = result(pool(), pod={**POD, "nodeSelector": selector})

    assert found is None


def test_without_pools_nothing_is_decided() -> None:
    assert result() is None
    assert pool_result("Job 'tiny'", node_demand(POD), {}) is None
