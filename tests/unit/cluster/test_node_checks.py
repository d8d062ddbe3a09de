"""What the doctor finds out about the nodes for a Pod."""

from typing import Any, cast

import pytest

from outlast.cluster.checks.nodes import check_nodes
from outlast.cluster.checks.result import CheckOutcome, CheckResult, Subject
from tests.unit.cluster.fake_cluster import FakeCluster

SPOT = {"cloud.google.com/gke-spot": "true"}


def _result(pod: dict[str, Any], *labels: dict[str, str]) -> CheckResult:
    nodes = [
        {"kind": "Node", "metadata": {"name": f"n{n}", "uid": f"n{n}", "labels": given}}
        for n, given in enumerate(labels)
    ]
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "tiny"},
        "spec": {"template": {"spec": {"containers": [], **pod}}},
    }
    cluster = cast("Any", FakeCluster(*nodes))
    [result] = check_nodes(Subject(cluster=cluster, namespace="team-a", objects=(job,)))
    return result


def _affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


@pytest.mark.parametrize(
    ("pod", "wanted"),
    [
        ({"nodeSelector": {"pool": "a"}}, "pool=a"),
        (
            _affinity({"key": "cloud.google.com/gke-spot", "operator": "DoesNotExist"}),
            "!cloud.google.com/gke-spot",
        ),
        (
            _affinity(
                {"key": "zone", "operator": "In", "values": ["a", "b"]},
                {"key": "team", "operator": "NotIn", "values": ["c"]},
                {"key": "disks", "operator": "Gt", "values": ["2"]},
                {"key": "gpu", "operator": "Exists"},
            ),
            "zone in (a,b), team notin (c), disks>2, gpu",
        ),
    ],
    ids=["selector", "excluded", "operators"],
)
def test_the_labels_that_no_node_matches_are_named(pod: dict[str, Any], wanted: str) -> None:
    result, without_nodes = _result(pod, SPOT), _result(pod)

    assert result.outcome is without_nodes.outcome is CheckOutcome.UNKNOWN
    assert f"none of 1 nodes matches {wanted} now;" in result.text
    assert f"the cluster has no node that matches {wanted} now;" in without_nodes.text
