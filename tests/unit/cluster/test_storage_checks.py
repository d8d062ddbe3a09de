"""What the doctor finds out about the way from a Pod to its bucket."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from outlast.cluster.checks.result import CheckOutcome, CheckResult, Subject
from outlast.cluster.checks.storage import check_storage
from outlast.cluster.connection.google_cloud import GcloudFailed
from outlast.cluster.resources import Object
from outlast.manifests.conventions import FUSE_DRIVER
from tests.unit.cluster.fake_cluster import FakeCluster

SPOT = {"cloud.google.com/gke-spot": "true"}
SERVED = {"iam.gke.io/gke-metadata-server-enabled": "true"}
WITH_IDENTITY = {"workloadIdentityConfig": {"workloadPool": "proj.svc.id.goog"}}


def node(name: str, labels: dict[str, str]) -> Object:
    return {"kind": "Node", "metadata": {"name": name, "uid": name, "labels": labels}}


def pool(name: str, mode: str, **config: Any) -> dict[str, Any]:
    given = {
        "machineType": "g2-standard-8",
        "spot": True,
        "workloadMetadataConfig": {"mode": mode},
        **config,
    }
    return {"name": name, "config": given}


def driver() -> Object:
    return {"kind": "CSIDriver", "metadata": {"name": FUSE_DRIVER, "uid": "driver"}}


def examined(
    *objects: Object, described: dict[str, Any] | Exception | None = None, **spec: Any
) -> list[CheckResult]:
    """The results for a Job on Spot nodes that saves to a bucket."""

    def describe() -> dict[str, Any]:
        assert described is not None
        if isinstance(described, Exception):
            raise described
        return described

    url = {"name": "OUTLAST_RUN_URL", "value": "gs://runs/tiny"}
    pod = {"nodeSelector": SPOT, "containers": [{"name": "main", "env": [url]}], **spec}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "tiny"},
        "spec": {"template": {"spec": pod}},
    }
    gke = SimpleNamespace(describe=describe) if described is not None else None
    cluster = cast("Any", FakeCluster(*objects))
    subject = Subject(cluster=cluster, namespace="team-a", objects=(job,), gke=cast("Any", gke))
    return list(check_storage(subject))


@pytest.mark.parametrize(
    ("labels", "outcome"), [(SPOT | SERVED, CheckOutcome.OK), (SPOT, CheckOutcome.WARN)]
)
def test_nodes_show_whether_they_have_workload_identity(
    labels: dict[str, str], outcome: CheckOutcome
) -> None:
    [result] = examined(node("a", labels), node("other", SERVED))

    assert result.outcome is outcome
    assert "of 1 matching nodes" in result.text or "all 1 matching nodes" in result.text


@pytest.mark.parametrize(
    ("described", "outcome", "text"),
    [
        (
            {**WITH_IDENTITY, "nodePools": [pool("spot", "GKE_METADATA")]},
            CheckOutcome.OK,
            "is on in pool spot",
        ),
        (
            {**WITH_IDENTITY, "nodePools": [pool("a", "GKE_METADATA"), pool("b", "GCE_METADATA")]},
            CheckOutcome.WARN,
            "is off in pool b;",
        ),
        ({"nodePools": [pool("spot", "")]}, CheckOutcome.WARN, "off in this cluster"),
        ({"autopilot": {"enabled": True}, "nodePools": []}, CheckOutcome.OK, "Autopilot"),
        (
            {**WITH_IDENTITY, "nodePools": [pool("other", "GKE_METADATA", spot=False)]},
            CheckOutcome.UNKNOWN,
            "no matching node",
        ),
        ({}, CheckOutcome.UNKNOWN, "no matching node"),
        (GcloudFailed("gcloud is not configured"), CheckOutcome.UNKNOWN, "no matching node"),
        (None, CheckOutcome.UNKNOWN, "no matching node"),
    ],
    ids=["on", "one-off", "cluster-off", "autopilot", "no-pool", "empty", "no-gcloud", "not-gke"],
)
def test_without_a_node_the_pools_show_whether_they_have_it(
    described: dict[str, Any] | Exception | None, outcome: CheckOutcome, text: str
) -> None:
    [result] = examined(described=described)

    assert result.outcome is outcome
    assert text in result.text


@pytest.mark.parametrize(
    ("installed", "outcome"), [([driver()], CheckOutcome.OK), ([], CheckOutcome.FAIL)]
)
def test_a_mounted_bucket_needs_its_driver(installed: list[Object], outcome: CheckOutcome) -> None:
    volume = {"name": "bucket", "csi": {"driver": FUSE_DRIVER}}

    mounted, _ = examined(*installed, volumes=[volume])

    assert mounted.outcome is outcome
    assert FUSE_DRIVER in mounted.text


def test_pods_without_a_bucket_are_not_checked() -> None:
    assert examined(containers=[{"name": "main"}]) == []
