"""What gcloud reports, from a program of the same name that prints JSON as it does."""

import json
from pathlib import Path
from typing import Any

import pytest

from outlast.capacity.workload.file import Workload
from outlast.cluster.checks.google_cloud import check_google_cloud
from outlast.cluster.checks.result import CheckOutcome, CheckResult, Subject
from outlast.cluster.connection import google_cloud
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.google_cloud import GkeCluster, gke_cluster_of
from outlast.cluster.connection.kubeconfig import ClusterAccess
from outlast.cluster.connection.link import Link
from outlast.cluster.diagnosis.fields import quantity

WORKLOAD = """
name: tiny
kind: training
image: example.com/train:1
command: [python, train.py]
accelerator: {type: nvidia-l4, count: 4}
tier: spot
work: {hours: 5}
checkpoint: {url: "gs://runs/tiny", size: 1GiB}
"""
CLUSTER = {"autopilot": {}, "autoscaling": {"enableNodeAutoprovisioning": True}}


def _quotas(limit: float, usage: float) -> dict[str, Any]:
    return {"quotas": [{"metric": "PREEMPTIBLE_NVIDIA_L4_GPUS", "limit": limit, "usage": usage}]}


@pytest.fixture(autouse=True)
def _without_memory() -> None:
    google_cloud._gcloud.cache_clear()


def _results(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    cluster: object = CLUSTER,
    quotas: object = None,
    bucket: object = None,
) -> list[CheckResult]:
    for name, content in (
        ("clusters", cluster),
        ("regions", quotas or _quotas(8, 0)),
        ("buckets", bucket or {"location": "US-CENTRAL1"}),
    ):
        (tmp_path / name).write_text(json.dumps(content))
    program = tmp_path / "gcloud"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\ncat {tmp_path}/$2\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return _checked(gke_cluster_of("gke_proj_us-central1-a_ml"))


def _checked(gke: GkeCluster | None) -> list[CheckResult]:
    access = ClusterAccess(context="c", server="https://127.0.0.1:1")
    with ClusterClient(Link(access)) as client:
        subject = Subject(
            cluster=client,
            namespace="team-a",
            workload=Workload.parse(WORKLOAD, name="workload.yaml"),
            gke=gke,
        )
        return list(check_google_cloud(subject))


def test_mode_quota_and_bucket_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = _results(tmp_path, monkeypatch)

    assert [one.outcome for one in results] == [CheckOutcome.OK] * 3
    assert "auto-provisioning is on" in results[0].text
    assert (
        "--location=us-central1-a --project=proj --format=json" in (tmp_path / "asked").read_text()
    )


@pytest.mark.parametrize(
    ("limit", "usage", "outcome"),
    [(4, 0, CheckOutcome.OK), (3, 0, CheckOutcome.FAIL), (8, 5, CheckOutcome.WARN)],
)
def test_quota_is_compared_with_the_request(
    limit: float,
    usage: float,
    outcome: CheckOutcome,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _, quota, _ = _results(tmp_path, monkeypatch, quotas=_quotas(limit, usage))

    assert quota.outcome is outcome
    assert f"PREEMPTIBLE_NVIDIA_L4_GPUS is {limit} in us-central1" in quota.text


def test_a_quota_that_is_not_listed_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, quota, _ = _results(tmp_path, monkeypatch, quotas={"quotas": []})

    assert quota.outcome is CheckOutcome.UNKNOWN


@pytest.mark.parametrize(
    ("location", "outcome"),
    [
        ("US-CENTRAL1", CheckOutcome.OK),
        ("NAM4", CheckOutcome.OK),
        ("US", CheckOutcome.OK),
        ("EUROPE-WEST4", CheckOutcome.WARN),
        ("EUR4", CheckOutcome.WARN),
        ("EU", CheckOutcome.WARN),
        ("", CheckOutcome.UNKNOWN),
    ],
)
def test_a_bucket_without_a_copy_in_the_region_is_a_warning(
    location: str, outcome: CheckOutcome, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, bucket = _results(tmp_path, monkeypatch, bucket={"location": location})

    assert bucket.outcome is outcome


def test_without_gcloud_it_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    [result] = _checked(gke_cluster_of("gke_p_us-central1_ml"))

    assert result.outcome is CheckOutcome.UNKNOWN
    assert "gcloud is not installed" in result.text


def test_a_gcloud_that_fails_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "gcloud"
    program.write_text("#!/bin/sh\necho 'ERROR: log in' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    [result] = _checked(gke_cluster_of("gke_p_us-central1_ml"))

    assert result.outcome is CheckOutcome.UNKNOWN
    assert "ERROR: log in" in result.text


def test_another_context_is_unknown() -> None:
    assert gke_cluster_of("kind-kind") is None
    [result] = _checked(None)

    assert result.outcome is CheckOutcome.UNKNOWN


def test_a_failure_needs_a_next_step() -> None:
    with pytest.raises(ValueError, match="next step"):
        CheckResult(outcome=CheckOutcome.FAIL, text="no")


@pytest.mark.parametrize(
    ("text", "value"),
    [("500m", 0.5), ("4", 4), ("1.5", 1.5), ("16Gi", 16 * 1024**3), ("2k", 2000), ("x", 0)],
)
def test_quantities_of_kubernetes(text: str, value: float) -> None:
    assert quantity(text) == value
