"""How long a reclaimed Spot node lets a Pod live, from all that can tell."""

import json
from pathlib import Path

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.files import InputFile
from outlast.manifests.lint.engine.loading import load
from outlast.manifests.lint.pools.gcloud import read_script
from outlast.manifests.lint.pools.kubelet import window_in, window_of
from outlast.manifests.lint.pools.model import ClusterCapacity, joined
from outlast.manifests.lint.pools.terraform import read_terraform
from outlast.manifests.linting import lint
from outlast.yamltext.source import SourceText
from tests.unit.manifests.lint.linted import SPOT_JOB, report

LONG = "kubeletConfig: {shutdownGracePeriodSeconds: 120}\n"
CREATE = "gcloud container node-pools create"
TAINT = "--node-taints=tier=cheap:NoSchedule"


@pytest.mark.parametrize(
    ("shutdown", "critical", "window"),
    [
        (None, None, 15),
        (30, None, 15),
        (120, None, 105),
        (120, 30, 90),
        ("120", None, 105),
        (0, None, 0),
        (0, 0, 0),
        (object(), None, None),
        (True, None, None),
    ],
)
def test_critical_pods_keep_their_share(
    shutdown: object, critical: object, window: int | None
) -> None:
    assert window_of(shutdown, critical) == window


def test_settings_of_another_shape_are_no_settings() -> None:
    assert window_in("120") == window_in(None) == window_in({}) == 15


def window(capacity: ClusterCapacity) -> int | None:
    (pool,) = capacity.pools
    return pool.window_seconds


def terraform(config: str) -> ClusterCapacity:
    text = f'resource "google_container_node_pool" "a" {{\n node_config {{\n{config}\n }}\n}}'
    return joined(read_terraform([SourceText(name="main.tf", text=text)]).values())


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ("spot = true", 15),
        ("kubelet_config {\n shutdown_grace_period_seconds = 120\n }", 105),
        ('kubelet_config {\n cpu_manager_policy = "static"\n }', 15),
        ("kubelet_config {\n shutdown_grace_period_seconds = var.unknown\n }", None),
        ('dynamic "kubelet_config" {\n for_each = var.configs\n }', None),
    ],
)
def test_terraform_tells_the_window(config: str, expected: int | None) -> None:
    assert window(terraform(config)) == expected


def test_an_export_and_a_workload_file_tell_it() -> None:
    kubelet = {"shutdownGracePeriodSeconds": 120}
    config = {"machineType": "a", "spot": True, "kubeletConfig": kubelet}
    exported = json.dumps({"name": "a", "config": config})
    workload = (
        "name: tiny\nkind: training\nimage: registry.example/trainer:1.0\n"
        "command: [python, train.py]\naccelerator: {type: nvidia-l4}\nwork: {hours: 3}\n"
        'checkpoint: {url: "gs://runs/tiny", size: 1GiB}\n'
        "cluster:\n  shutdown_window: 120s\n  pools: [{name: cheap, tier: spot}]\n"
    )

    for text in (exported, workload):
        file = load(InputFile(name="a.yaml", path=Path("a.yaml"), data=text.encode()))
        assert window(file.capacity) == 105


def test_a_script_names_a_file_that_is_not_read_here() -> None:
    text = f"{CREATE} a --spot --system-config-from-file=config.yaml"

    assert window(read_script(SourceText(name="a.sh", text=text))) is None


def test_what_one_file_does_not_know_another_may() -> None:
    unknown = read_script(
        SourceText(name="a.sh", text=f"{CREATE} a --spot --system-config-from-file=config.yaml")
    )
    known = terraform("spot = true\nkubelet_config {\n shutdown_grace_period_seconds = 120\n }")

    assert window(joined([unknown, known])) == 105
    assert window(joined([known, unknown])) == 105


JOB = SPOT_JOB.replace("restartPolicy: Never", "terminationGracePeriodSeconds: 60")


def flagged(text: str = JOB, **files: str) -> bool:
    found = report(text, options=LintOptions(select=("OL102",)), **files)
    return len(found.findings) == 1


@pytest.mark.parametrize(
    ("name", "is_read"),
    [
        ("config.yaml", True),
        ("./config.yaml", True),
        ('"$(dirname "$0")/config.yaml"', True),
        ('"${HERE}/config.yaml"', True),
        ("$HERE/config.yaml", True),
        ("other.yaml", False),
        ("$CONFIG", False),
    ],
)
@pytest.mark.parametrize(("grace", "is_long"), [(60, False), (106, True)])
def test_a_file_beside_the_script_is_read(
    name: str, is_read: bool, grace: int, is_long: bool
) -> None:
    text = JOB.replace("Seconds: 60", f"Seconds: {grace}")
    pools = f"{CREATE} a --spot --system-config-from-file={name}\n"

    # Where it cannot be read, only what exceeds every window there is is told.
    assert flagged(text, pools_sh=pools, config_yaml=LONG) is is_long
    assert flagged(text, pools_sh=pools, config_yaml="linuxConfig: {}\n") is (is_long or is_read)


def test_the_file_is_found_though_only_the_script_was_given(tmp_path: Path) -> None:
    (tmp_path / "pools").mkdir()
    (tmp_path / "job.yaml").write_text(JOB)
    script = tmp_path / "pools" / "create.sh"
    script.write_text(f'{CREATE} a --spot {TAINT} --system-config-from-file="$DIR/c.yaml"\n')
    (tmp_path / "pools" / "c.yaml").write_text(LONG.replace("120", "30"))
    tolerant = "      tolerations: [{key: tier, operator: Exists}]\n"
    (tmp_path / "job.yaml").write_text(JOB + tolerant)

    def codes() -> list[str]:
        options = LintOptions(pools=(str(script),), select=("OL102",))
        return [one.code for one in lint(tmp_path / "job.yaml", options=options)]

    assert codes() == ["OL102"]
    (tmp_path / "pools" / "c.yaml").write_text(LONG)
    assert codes() == []
    (tmp_path / "pools" / "c.yaml").unlink()
    assert codes() == []


def test_the_shortest_window_of_the_nodes_that_fit_counts() -> None:
    long = f"{CREATE} long --spot --system-config-from-file=c.yaml\n"
    taken = f"{CREATE} short --spot\n"
    closed = f"{CREATE} short --spot {TAINT}\n"

    assert not flagged(pools_sh=long, c_yaml=LONG)
    assert flagged(pools_sh=long + taken, c_yaml=LONG)
    assert not flagged(pools_sh=long + closed, c_yaml=LONG)


def test_a_label_that_every_node_has_does_not_hide_a_pool() -> None:
    selector = "      nodeSelector:\n"
    text = JOB.replace(selector, selector + "        topology.kubernetes.io/zone: us-central1-a\n")
    pools = f"{CREATE} long --spot --system-config-from-file=c.yaml\n"

    assert not flagged(text, pools_sh=pools, c_yaml=LONG)


def test_without_a_window_there_is_no_grace_at_all() -> None:
    pools = f"{CREATE} a --spot --system-config-from-file=c.yaml\n"
    found = report(JOB, pools_sh=pools, c_yaml=LONG.replace("120", "0"))

    (finding,) = [one for one in found if one.code == "OL102"]
    assert finding.message == (
        "The grace period is 60 s, but a reclaimed Spot node gives the Pod no time at all."
    )
    assert not finding.fixable


def compute_class(*priorities: str, default: str = "{}") -> str:
    return (
        "apiVersion: cloud.google.com/v1\nkind: ComputeClass\nmetadata: {name: cheap}\n"
        f"spec:\n  priorityDefaults: {default}\n  priorities: [{', '.join(priorities)}]\n"
    )


LONG_CONFIG = "nodeSystemConfig: {kubeletConfig: {shutdownGracePeriodSeconds: 120}}"
LONG_SPOT = f"{{spot: true, {LONG_CONFIG}}}"


@pytest.mark.parametrize(
    ("text", "is_flagged"),
    [
        (compute_class("{spot: true}"), True),
        (compute_class(LONG_SPOT, "{}"), False),
        (compute_class(LONG_SPOT, "{spot: true}"), True),
        (compute_class("{spot: true}", default=f"{{{LONG_CONFIG}}}"), False),
        (compute_class("{nodepools: [long]}"), False),
        (compute_class("{nodepools: [long, short]}"), True),
    ],
)
def test_a_compute_class_tells_it(text: str, is_flagged: bool) -> None:
    job = JOB.replace('gke-spot: "true"', "compute-class: cheap")
    pools = f"{CREATE} long --spot --system-config-from-file=c.yaml\n{CREATE} short --spot\n"

    assert flagged(job + "---\n" + text, pools_sh=pools, c_yaml=LONG) is is_flagged


def test_any_name_of_a_file_is_survived() -> None:
    for name in ("a" * 5000, "/dev/zero", "/", "..", "'a\\0b'", "''"):
        assert not flagged(pools_sh=f"{CREATE} a --spot --system-config-from-file={name}\n")
