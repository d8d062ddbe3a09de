"""What one folder says about its cluster is not applied to the objects of another project."""

from pathlib import Path

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.linting import lint
from tests.unit.manifests.lint.test_kustomize import BASE, tree

AUTOPILOT = 'resource "google_container_cluster" "a" {\n  enable_autopilot = true\n}\n'
STANDARD = 'resource "google_container_cluster" "b" {\n  name = "b"\n}\n'
SPOT_POOL = (
    "gcloud container node-pools create work --cluster=c --spot --machine-type=n2-standard-4\n"
)
LOW_PRIORITY = (
    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: low}\nvalue: -100\n"
)
NAMED_POOL = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  backoffLimit: 100
  template:
    spec:
      restartPolicy: Never
      nodeSelector: {cloud.google.com/gke-nodepool: work}
      containers: [{name: a, image: "registry.example/a:1"}]
"""


def found(folder: Path) -> list[tuple[str, str]]:
    return [(one.code, Path(one.file).relative_to(folder).as_posix()) for one in lint(folder)]


def test_a_pool_judges_the_pods_of_its_own_project_only(tmp_path: Path) -> None:
    for name in ("one", "two"):
        tree(tmp_path / name, job_yaml=NAMED_POOL)
    tree(tmp_path / "one", pool_sh=SPOT_POOL)

    assert {file for code, file in found(tmp_path) if code == "OL101"} == {"one/job.yaml"}


def test_pods_of_another_project_do_not_wait_for_this_cluster(tmp_path: Path) -> None:
    for name in ("one", "two"):
        tree(tmp_path / name, job_yaml=NAMED_POOL)
    tree(tmp_path / "one", pool_sh=SPOT_POOL)

    (waiting,) = [one for one in lint(tmp_path) if one.code == "OL301"]

    assert waiting.message.startswith("Job 'train' may wait")


@pytest.mark.parametrize("folder", ["terraform", "infra/gke", "scripts"])
def test_infrastructure_next_to_the_manifests_describes_their_cluster(
    tmp_path: Path, folder: str
) -> None:
    tree(tmp_path / folder, pool_sh=SPOT_POOL)
    tree(tmp_path / "manifests", job_yaml=NAMED_POOL)

    report = lint(tmp_path)

    assert "OL101" in {one.code for one in report}
    assert any("Assumed that" in one and folder in one for one in report.notices)


def test_a_lint_says_if_it_assumed_no_cluster(tmp_path: Path) -> None:
    tree(tmp_path / "one", pool_sh=SPOT_POOL, job_yaml=NAMED_POOL)
    tree(tmp_path / "two", job_yaml=NAMED_POOL)

    (notice,) = lint(tmp_path).notices

    assert "No node pools were assumed for" in notice
    assert "two" in notice
    assert "--pools" in notice


def test_the_nearest_cluster_counts(tmp_path: Path) -> None:
    tree(tmp_path, main_tf=AUTOPILOT, low_yaml=LOW_PRIORITY)
    tree(tmp_path / "sub", main_tf=STANDARD, low_yaml=LOW_PRIORITY)

    # Autopilot has no limit for the priority; the standard cluster of the folder below has.
    assert [file for code, file in found(tmp_path) if code == "OL510"] == ["sub/low.yaml"]


def test_two_modes_in_one_place_leave_the_mode_unknown(tmp_path: Path) -> None:
    tree(tmp_path, a_tf=AUTOPILOT, b_tf=STANDARD, low_yaml=LOW_PRIORITY)

    assert ("OL510", "low.yaml") in found(tmp_path)


def test_pools_from_the_command_line_count_everywhere(tmp_path: Path) -> None:
    tree(tmp_path / "elsewhere", pool_sh=SPOT_POOL)
    tree(tmp_path / "work", job_yaml=NAMED_POOL)

    options = LintOptions(pools=(str(tmp_path / "elsewhere"),))

    assert "OL101" in {one.code for one in lint(tmp_path / "work", options=options)}


def test_a_module_belongs_to_the_folder_that_uses_it(tmp_path: Path) -> None:
    pool = (
        'variable "spot" {}\nresource "google_container_node_pool" "p" {\n  name = "work"\n'
        "  node_config {\n    spot = var.spot\n  }\n}\n"
    )
    tree(
        tmp_path,
        modules__pool__main_tf=pool,
        one__main_tf='module "p" {\n  source = "../modules/pool"\n  spot = true\n}\n',
        one__job_yaml=NAMED_POOL,
        two__main_tf='module "p" {\n  source = "../modules/pool"\n  spot = false\n}\n',
        two__job_yaml=NAMED_POOL,
    )

    assert [file for code, file in found(tmp_path) if code == "OL101"] == ["one/job.yaml"]


def test_an_overlay_runs_in_the_cluster_of_its_folder(tmp_path: Path) -> None:
    tree(tmp_path, **{**BASE, "base__job_yaml": NAMED_POOL})
    for name in ("one", "two"):
        tree(tmp_path / name, kustomization_yaml="resources: [../base]\n")
    tree(tmp_path / "one", pool_sh=SPOT_POOL)

    (message,) = [one.message for one in lint(tmp_path) if one.code == "OL101"]

    assert "one'" in message
    assert "two'" not in message
