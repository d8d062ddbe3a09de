"""The rendered alerts, judged by Prometheus' own tool: they parse, fire when they must, and only
then."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.manifests.render_cases import (
    BATCH,
    CASES,
    MINIMAL,
    SERVING,
    SWEEP,
    Rendering,
    rendered,
)
from tests.unit.manifests.render_cases import case as case_of

pytestmark = pytest.mark.needs("promtool")

POD = "tiny-gpt-abcde"
PHASE = 'kube_pod_status_phase{{namespace="{namespace}", pod="{pod}", phase="{phase}"}}'


def groups_of(rendering: Rendering) -> list[Any]:
    carriers = ("Rules", "ClusterRules", "PrometheusRule")
    return [g for kind in carriers for one in rendering.all(kind) for g in one["spec"]["groups"]]


def phase(pod: str, name: str, *, namespace: str = "tiny-gpt") -> str:
    return PHASE.format(namespace=namespace, pod=pod, phase=name)


def of_pod(metric: str, pod: str = POD, *, namespace: str = "tiny-gpt") -> str:
    return f'{metric}{{namespace="{namespace}", pod="{pod}"}}'


def check(
    folder: Path,
    rendering: Rendering,
    alert: str,
    *,
    series: dict[str, str],
    fires: dict[str, list[dict[str, str]]],
) -> None:
    """Runs `promtool test rules`. `fires` maps times to the labels of the alerts expected then."""
    [rule] = [rule for rule in rendering.rules if rule["alert"] == alert]

    def expected(labels: dict[str, str]) -> dict[str, Any]:
        texts = json.dumps(rule["annotations"])
        for name, value in labels.items():
            texts = texts.replace(f"{{{{ $labels.{name} }}}}", value)
        return {
            "exp_labels": {**labels, **rule["labels"]},
            "exp_annotations": json.loads(texts),
        }

    # Alone, because promtool evaluates every rule of the file at every minute.
    alone = {"groups": [{"name": "alone", "rules": [rule]}]}
    (folder / "rules.yaml").write_text(yaml.safe_dump(alone))
    test = {
        "interval": "1m",
        "input_series": [{"series": key, "values": values} for key, values in series.items()],
        "alert_rule_test": [
            {
                "eval_time": time,
                "alertname": alert,
                "exp_alerts": [expected(labels) for labels in listed],
            }
            for time, listed in fires.items()
        ],
    }
    whole = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": [test]}
    (folder / "test.yaml").write_text(yaml.safe_dump(whole))
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yaml"], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_of_every_workload_parse(tmp_path: Path) -> None:
    for name in CASES:
        content = {"groups": groups_of(case_of(name))}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(content))

    done = subprocess.run(
        ["promtool", "check", "rules", *sorted(map(str, tmp_path.glob("*.yaml")))],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("SUCCESS") == len(CASES)


def test_a_pod_that_waits_longer_than_the_threshold_is_told_of(tmp_path: Path) -> None:
    check(
        tmp_path,
        rendered(alerts__pending="20m"),
        "OutlastPodPending",
        series={
            phase(POD, "Pending"): "1x60",
            phase("tiny-gpt-fghij", "Pending"): "1x10 0x50",
            # Neither another workload whose name begins alike, nor another namespace.
            phase("tiny-gpt-large-abcde", "Pending"): "1x60",
            phase(POD, "Pending", namespace="other"): "1x60",
        },
        fires={"19m": [], "21m": [{"namespace": "tiny-gpt", "pod": POD}]},
    )


@pytest.mark.parametrize(
    ("name", "pod"),
    [
        ("training", "tiny-gpt-abcde"),
        ("multi-node", "big-node-0-3-abcde"),
        ("sweep", "rates-7-abcde"),
        ("sweep-kueue", "rates-2-1-abcde"),
        ("batch-kueue", "embed-1-0-abcde"),
        ("serving", "chat-7d4b9c6f5-abcde"),
        ("ci-sharded", "nightly-3-abcde"),
    ],
)
def test_the_pods_of_every_controller_are_recognised(name: str, pod: str, tmp_path: Path) -> None:
    rendering = case_of(name)
    namespace = (
        rendering.templates[0] and next(iter(rendering.all("Rules")))["metadata"]["namespace"]
    )

    check(
        tmp_path,
        rendering,
        "OutlastPodPending",
        series={phase(pod, "Pending", namespace=namespace): "1x600"},
        fires={"7h": [{"namespace": namespace, "pod": pod}]},
    )


def test_frequent_evictions_are_told_of_and_finished_trials_are_not(tmp_path: Path) -> None:
    evicted = {phase(f"tiny-gpt-{n:05}", "Running"): f"_x{n * 20} 1x15 stale" for n in range(8)}
    check(
        tmp_path,
        rendered(),
        "OutlastEvictionsFrequent",
        series=evicted,
        fires={"2h": [], "2h30m": [{"namespace": "tiny-gpt"}], "9h": []},
    )

    finished = {}
    for n in range(40):
        finished[phase(f"rates-{n}-abcde", "Running", namespace="rates")] = "1x20 0x60"
        finished[phase(f"rates-{n}-abcde", "Succeeded", namespace="rates")] = "0x20 1x60"
    check(
        tmp_path,
        rendered(SWEEP),
        "OutlastEvictionsFrequent",
        series=finished,
        fires={"1h": []},
    )


def test_a_run_that_hangs_is_told_of(tmp_path: Path) -> None:
    check(
        tmp_path,
        rendered(),
        "OutlastNoProgress",
        series={
            phase(POD, "Running"): "1x200",
            of_pod("outlast_progress_total"): "0+10x60 600x140",
        },
        fires={"1h": [], "1h50m": [{"namespace": "tiny-gpt"}]},
    )


def test_a_pod_that_waits_does_not_count_as_hanging(tmp_path: Path) -> None:
    check(
        tmp_path,
        rendered(),
        "OutlastNoProgress",
        series={phase(POD, "Running"): "0x200", of_pod("outlast_progress_total"): "600x200"},
        fires={"3h": []},
    )


@pytest.mark.parametrize(("interval", "late"), [("", "2h10m"), ("2h", "6h10m")])
def test_an_old_checkpoint_is_told_of(interval: str, late: str, tmp_path: Path) -> None:
    check(
        tmp_path,
        rendered(checkpoint__interval=interval),
        "OutlastCheckpointOld",
        series={of_pod("outlast_checkpoint_timestamp_seconds"): "0x600"},
        fires={"1h50m": [], late: [{"namespace": "tiny-gpt", "pod": POD}]},
    )


def test_a_queue_that_does_not_shrink_is_told_of(tmp_path: Path) -> None:
    pod = "embed-0-abcde"
    check(
        tmp_path,
        rendered(BATCH),
        "OutlastQueueNotShrinking",
        series={
            of_pod("outlast_queue_ready", pod, namespace="research"): "1000-1x120 880+1x300",
        },
        fires={"2h": [], "5h": [{"namespace": "research"}]},
    )


def test_the_end_of_a_lease_is_told_of_an_hour_ahead(tmp_path: Path) -> None:
    check(
        tmp_path,
        rendered(tier="flex-start"),
        "OutlastExpiryAhead",
        series={of_pod("outlast_expires_timestamp_seconds"): "10800x300"},
        fires={"1h55m": [], "2h5m": [{"namespace": "tiny-gpt", "pod": POD}]},
    )


def test_missing_metrics_are_told_of(tmp_path: Path) -> None:
    blind = {phase(POD, "Running"): "1x200"}
    seen = {**blind, of_pod("outlast_progress_total"): "0+1x200"}

    check(
        tmp_path,
        rendered(),
        "OutlastMetricsMissing",
        series=blind,
        fires={"20m": [], "40m": [{"namespace": "tiny-gpt"}]},
    )
    check(tmp_path, rendered(), "OutlastMetricsMissing", series=seen, fires={"40m": []})


def test_what_waits_in_kueue_is_told_of_though_it_has_no_pods(tmp_path: Path) -> None:
    rendering = case_of("training-kueue")
    queue = 'cluster_queue="tiny-gpt"'

    check(
        tmp_path,
        rendering,
        "OutlastQueuedInKueue",
        series={f'kueue_pending_workloads{{{queue}, status="active"}}': "1x600"},
        fires={"5h": [], "6h5m": [{"cluster_queue": "tiny-gpt"}]},
    )
    check(
        tmp_path,
        rendering,
        "OutlastProvisioningSlow",
        series={
            f"kueue_reserving_active_workloads{{{queue}}}": "1x600",
            f"kueue_admitted_active_workloads{{{queue}}}": "0x600",
        },
        fires={"5h": [], "6h5m": [{"cluster_queue": "tiny-gpt"}]},
    )
    bucket = "kueue_admission_wait_time_seconds_bucket"
    check(
        tmp_path,
        rendering,
        "OutlastAdmissionSlow",
        series={
            f'{bucket}{{{queue}, le="10240"}}': "0x60",
            f'{bucket}{{{queue}, le="40960"}}': "0+1x60",
            f'{bucket}{{{queue}, le="+Inf"}}': "0+1x60",
        },
        fires={"1h": [{"cluster_queue": "tiny-gpt"}]},
    )


@pytest.mark.parametrize(
    "labels",
    [
        'reason="Deactivated", underlying_cause="AdmissionCheck"',
        'reason="DeactivatedDueToAdmissionCheck"',
    ],
)
def test_a_workload_that_kueue_deactivates_is_reported_from_the_first_one(
    tmp_path: Path, labels: str
) -> None:
    queue = 'cluster_queue="tiny-gpt"'
    check(
        tmp_path,
        case_of("training-kueue"),
        "OutlastDeactivatedByKueue",
        series={
            f"kueue_evicted_workloads_total{{{queue}, {labels}}}": "_x30 1x90 2x240",
            f'kueue_evicted_workloads_total{{{queue}, reason="Preempted"}}': "0+1x300",
            f'kueue_evicted_workloads_total{{cluster_queue="other", {labels}}}': "0+1x300",
        },
        fires={
            "29m": [],
            "31m": [{"cluster_queue": "tiny-gpt"}],
            "100m": [],
            "125m": [{"cluster_queue": "tiny-gpt"}],
            "200m": [],
        },
    )


def test_a_server_with_too_few_replicas_is_told_of(tmp_path: Path) -> None:
    labels = 'namespace="chat", deployment="chat"'
    check(
        tmp_path,
        rendered(SERVING),
        "OutlastServerUnavailable",
        series={f"kube_deployment_status_replicas_available{{{labels}}}": "3x10 2x60"},
        fires={"15m": [], "25m": [{"namespace": "chat", "deployment": "chat"}]},
    )


def test_the_operator_gets_the_same_rules() -> None:
    names = [rule["alert"] for rule in case_of("training-kueue-operator").rules]

    assert names == [rule["alert"] for rule in case_of("training-kueue").rules]
    assert "OutlastQueuedInKueue" in names
    assert rendered(MINIMAL, alerts__stack="operator").all("Rules") == []
