"""Overlays are built as `kubectl kustomize` builds them."""

import re
from pathlib import Path
from typing import Any

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.loading import load
from outlast.manifests.lint.engine.report import LintReport
from outlast.manifests.lint.kustomize.building import KustomizeResult, build
from outlast.manifests.lint.kustomize.reading import KustomizeFiles
from outlast.manifests.linting import examine_and_fix, gather, lint
from outlast.yamltext.reading import read
from tests.unit.manifests.lint.kustomize_cases import EXPECTED, FOLDER, sections, unpack

CASES = sorted(FOLDER.glob("*.txt"))
HASH = re.compile(r"-[0-9bcdfghkmt]{10}$")


def built(folder: Path, *, root: Path) -> KustomizeResult:
    files = KustomizeFiles([], load, [root])
    return build(files.kustomization(folder.resolve()), files)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_an_overlay_is_built_as_kubectl_builds_it(case: Path, tmp_path: Path) -> None:
    result = built(unpack(case, tmp_path), root=tmp_path)
    assert result.notices == []
    generated = {one.id.name for one in result.resources if one.is_generated}
    ours = [_plain(one.data) for one in result.resources]
    for one in ours:
        if one["metadata"]["name"] in generated and one["kind"] in ("ConfigMap", "Secret"):
            one["data"] = "(not read)"
    expected = [_reference(one, generated) for one in read(sections(case)[EXPECTED]).documents]
    assert _sorted(ours) == _sorted(expected)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _reference(value: Any, generated: set[str]) -> Any:
    """What kubectl printed, without hashes in names and without the data that is generated."""
    plain = _without_hashes(_plain(value), generated)
    if plain["kind"] in ("ConfigMap", "Secret") and plain["metadata"]["name"] in generated:
        plain["data"] = "(not read)"
        plain.pop("type", None)
    return plain


def _without_hashes(value: Any, generated: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without_hashes(item, generated) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_hashes(item, generated) for item in value]
    short = HASH.sub("", value) if isinstance(value, str) else value
    return short if short in generated else value


def _sorted(objects: list[Any]) -> list[Any]:
    return sorted(objects, key=lambda one: (one["kind"], one["metadata"]["name"]))


def test_enough_overlays_are_compared() -> None:
    assert len(CASES) >= 30
    assert all("Kustomize Version: v5" in case.read_text() for case in CASES)


def tree(folder: Path, **files: str) -> Path:
    """Write files; `__` in a name is a slash and `_` before the ending a dot."""
    for name, text in files.items():
        path = folder / re.sub(r"_(?=\w+$)", ".", name.replace("__", "/"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


SPOT = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      nodeSelector:
        cloud.google.com/gke-spot: "true"
"""
ON_DEMAND = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: train
          image: registry.example/trainer:1
"""
MINOR = ("OL104", "OL301")
BASE = {"base__kustomization_yaml": "resources: [job.yaml]\n", "base__job_yaml": ON_DEMAND}
SPOT_OVERLAY = "resources: [../base]\npatches: [{path: spot.yaml}]\n"


def codes(report: LintReport, folder: Path) -> list[tuple[str, str, int]]:
    return [
        (one.code, Path(one.file).relative_to(folder).as_posix(), one.line)
        for one in report
        if one.code not in MINOR
    ]


def test_a_base_is_judged_as_its_overlay_runs_it(tmp_path: Path) -> None:
    tree(tmp_path, **BASE, spot__kustomization_yaml=SPOT_OVERLAY, spot__spot_yaml=SPOT)

    report = lint(tmp_path)

    assert codes(report, tmp_path) == [("OL103", "base/job.yaml", 5), ("OL101", "base/job.yaml", 7)]
    assert all("spot'.)" in one.message for one in report)
    assert report.objects == 1


def test_a_base_without_the_overlay_has_no_findings(tmp_path: Path) -> None:
    assert codes(lint(tree(tmp_path, **BASE)), tmp_path) == []


def test_a_finding_in_a_patch_is_at_the_line_of_the_patch(tmp_path: Path) -> None:
    patch = SPOT.replace("gke-spot", "gke-sport")
    tree(tmp_path, **BASE, spot__kustomization_yaml=SPOT_OVERLAY, spot__spot_yaml=patch)

    assert codes(lint(tmp_path), tmp_path) == [("OL504", "spot/spot.yaml", 8)]


def test_a_finding_in_an_inline_patch_is_at_its_line_of_the_kustomization(tmp_path: Path) -> None:
    patch = SPOT.replace("gke-spot", "gke-sport").replace("\n", "\n    ")
    text = f"resources: [../base]\npatches:\n- patch: |-\n    {patch.strip()}\n"
    tree(tmp_path, **BASE, spot__kustomization_yaml=text)

    (found,) = lint(tmp_path)

    line = text.splitlines().index('            cloud.google.com/gke-sport: "true"') + 1
    assert (found.code, found.line, found.column) == ("OL504", line, 13)


def test_a_line_of_a_base_is_reported_once_for_all_overlays(tmp_path: Path) -> None:
    for name in ("one", "two", "three", "four"):
        tree(tmp_path / name, kustomization_yaml=SPOT_OVERLAY, spot_yaml=SPOT)
    tree(tmp_path, **BASE, plain__kustomization_yaml="resources: [../base]\n")

    report = lint(tmp_path)

    assert codes(report, tmp_path) == [("OL103", "base/job.yaml", 5), ("OL101", "base/job.yaml", 7)]
    assert "and 1 more" in next(iter(report)).message


def test_what_cannot_be_built_is_named_with_its_line(tmp_path: Path) -> None:
    text = (
        "resources:\n- ../base\n- https://example.com/remote\n- github.com/x/y//z?ref=v1\n"
        "helmCharts:\n- name: x\nvars:\n- name: X\npatches:\n- path: missing.yaml\n"
        "transformers: [t.yaml]\nnamePreefix: x\n"
    )
    tree(tmp_path, **BASE, o__kustomization_yaml=text)

    notices = lint(tmp_path).notices

    for line, word in ((3, "resources"), (5, "helmCharts"), (7, "vars")):
        assert any(f"kustomization.yaml:{line}: " in one and repr(word) in one for one in notices)
    assert any("'https://example.com/remote'" in one and "(and 1 more)" in one for one in notices)
    assert any("missing.yaml" in one for one in notices)
    assert any("namePreefix" in one and "unknown" in one for one in notices)


def test_kustomizations_that_refer_to_each_other_are_refused(tmp_path: Path) -> None:
    tree(
        tmp_path,
        a__kustomization_yaml="resources: [../b]\n",
        b__kustomization_yaml="resources: [../a, job.yaml]\n",
        b__job_yaml=ON_DEMAND,
    )

    report = lint(tmp_path)

    assert report.objects == 1
    assert any("refers back to itself" in one for one in report.notices)


@pytest.mark.parametrize("entry", ["../../outside", "../../outside/job.yaml", "link"])
def test_nothing_outside_of_the_linted_folders_is_read(tmp_path: Path, entry: str) -> None:
    tree(tmp_path / "outside", kustomization_yaml="resources: [job.yaml]\n", job_yaml=SPOT)
    tree(tmp_path / "inside", a__kustomization_yaml=f"resources: [{entry}, own.yaml]\n")
    tree(tmp_path / "inside", a__own_yaml=ON_DEMAND)
    (tmp_path / "inside" / "a" / "link").symlink_to(tmp_path / "outside")

    report = lint(tmp_path / "inside")

    assert report.objects == 1
    assert any("outside of the linted folders" in one for one in report.notices)


def test_a_base_in_the_same_repository_is_read(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    tree(tmp_path, **BASE, spot__kustomization_yaml=SPOT_OVERLAY, spot__spot_yaml=SPOT)

    report = lint(tmp_path / "spot")

    assert [one.code for one in report if one.code not in MINOR] == ["OL103", "OL101"]
    assert report.notices == ()


def test_a_comment_in_a_base_is_used_if_one_overlay_needs_it(tmp_path: Path) -> None:
    base = ON_DEMAND.replace("    spec:", "    spec:  # outlast: ignore[OL101] measured")
    tree(tmp_path, **{**BASE, "base__job_yaml": base}, plain__kustomization_yaml=SPOT_OVERLAY)
    tree(tmp_path, plain__spot_yaml=SPOT, other__kustomization_yaml="resources: [../base]\n")

    report = lint(tmp_path)

    assert codes(report, tmp_path) == [("OL103", "base/job.yaml", 5)]
    assert report.ignored == 1


def test_a_fix_changes_the_base_if_only_one_overlay_uses_it(tmp_path: Path) -> None:
    tree(tmp_path, **BASE, spot__kustomization_yaml=SPOT_OVERLAY, spot__spot_yaml=SPOT)

    _, files = examine_and_fix(gather([tmp_path], LintOptions()), unsafe=True)

    assert [Path(file.before.name).name for file in files] == ["job.yaml"]
    assert "terminationGracePeriodSeconds: 15" in files[0].after

    tree(tmp_path, other__kustomization_yaml="resources: [../base]\n")
    assert examine_and_fix(gather([tmp_path], LintOptions()), unsafe=True)[1] == []


def test_objects_of_one_overlay_are_not_looked_up_from_another(tmp_path: Path) -> None:
    server = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: s}\nspec:\n  replicas: 2\n"
        "  selector: {matchLabels: {app: s}}\n  template:\n    metadata: {labels: {app: s}}\n"
        "    spec: {containers: [{name: s, image: 'registry.example/s:1'}]}\n---\n"
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
        "spec: {selector: {app: s}, ports: [{port: 80}]}\n"
    )
    budget = (
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: s}\n"
        "spec: {maxUnavailable: 1, selector: {matchLabels: {app: s}}}\n"
    )
    tree(
        tmp_path,
        base__kustomization_yaml="resources: [s.yaml]\n",
        base__s_yaml=server,
        a__kustomization_yaml="resources: [../base, budget.yaml]\n",
        a__budget_yaml=budget,
        b__kustomization_yaml="resources: [../base]\n",
    )

    (found,) = lint(tmp_path)

    assert found.code == "OL702"
    assert "/b'" in found.message


CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: runs.example.com}
spec:
  group: example.com
  names: {kind: Run, plural: runs}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema:
          type: object
          properties: {steps: {type: integer}}
"""
SCHEMA = "/spec/versions/0/schema/openAPIV3Schema/properties/steps/type"


def test_a_patch_of_a_schema_changes_it_in_its_overlay_only(tmp_path: Path) -> None:
    def patched(*operations: str) -> str:
        return (
            "resources: [../base]\npatches:\n  - target: {kind: CustomResourceDefinition}\n"
            "    patch: |-\n" + "".join(f"      - {{{one}}}\n" for one in operations)
        )

    before = f"op: test, path: {SCHEMA}, value: integer"
    change = f"op: replace, path: {SCHEMA}, value: string"
    after = f"op: test, path: {SCHEMA}, value: string"
    tree(
        tmp_path,
        base__kustomization_yaml="resources: [crd.yaml]\n",
        base__crd_yaml=CRD,
        a__kustomization_yaml=patched(before, change, after),
        b__kustomization_yaml=patched(before),
        c__kustomization_yaml=patched(after),
    )

    found = lint(tmp_path)

    assert not found.findings
    assert [one.split(":")[0] for one in found.notices] == [f"{tmp_path}/c/kustomization.yaml"]
