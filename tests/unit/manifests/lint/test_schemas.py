"""Objects are held against the schemas of Kubernetes, at exact places."""

import sys

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.errors import LintError
from outlast.manifests.lint.kubernetes import schemas
from outlast.manifests.lint.kubernetes.schemas import dotted, schemas_for
from outlast.yamltext.errors import PlanningPackageMissing
from tests.unit.manifests.lint.linted import lines, manifest, only, report

SCHEMA = LintOptions(select=("OL503", "OL601", "OL903"))


def test_a_wrong_type_is_told_in_words_at_the_value() -> None:
    text = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec:\n  ports:\n  - port: {}\n"

    finding = only(report(text, options=SCHEMA), "OL903")

    assert finding.message == "spec.ports[0].port is a mapping; expected an integer."
    assert (finding.line, finding.column) == (6, 5)


def test_either_of_two_types_is_told() -> None:
    text = (
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: s}\n"
        "spec:\n  minAvailable: [1]\n"
    )

    finding = only(report(text, options=SCHEMA), "OL903")

    assert finding.message == "spec.minAvailable is a list; expected a string or an integer."


def test_a_wrong_word_is_told_with_the_right_ones() -> None:
    text = manifest("v1", "Pod", "spec:\n  containers: []\n  hostPID: maybe\n")

    finding = only(report(text, options=SCHEMA), "OL903")

    assert finding.message == "spec.hostPID is the string 'maybe'; expected true or false."


def test_a_missing_field_is_shown_at_what_should_hold_it() -> None:
    text = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  template: {}\n"

    finding = only(report(text, options=SCHEMA), "OL903")

    assert finding.message == "spec is missing the required field 'selector'."
    assert (finding.line, finding.column, finding.end_column) == (4, 1, 5)


def test_an_unknown_field_is_shown_with_the_one_that_was_meant() -> None:
    text = manifest("batch/v1", "Job", "spec:\n  maxparallelism: 3\n  template: {}\n")

    finding = only(report(text, options=SCHEMA), "OL601")

    assert (finding.line, finding.column) == (5, 3)
    assert finding.message == "Unknown field 'maxparallelism' in spec."
    assert finding.hint == "Use 'parallelism'."


def test_the_templates_in_a_custom_resource_are_checked() -> None:
    text = (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: j}\nspec:\n"
        "  anything: goes\n  replicatedJobs:\n  - name: w\n    template:\n      spec:\n"
        "        maxParallelism: 2\n        template: {}\n"
    )

    assert lines(report(text, options=SCHEMA)) == [("OL601", 10)]


def test_an_unknown_kind_is_no_error() -> None:
    text = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}\nspec: [what, ever]\n"

    assert lines(report(text)) == []


@pytest.mark.parametrize("kind", ["../../etc/passwd", "Job/../Pod", "", "Jöb", "-"])
def test_a_strange_kind_reads_no_strange_file(kind: str) -> None:
    text = f"apiVersion: batch/v1\nkind: {kind!r}\nmetadata: {{name: t}}\n"

    assert lines(report(text, options=SCHEMA)) == []


def test_a_group_that_only_starts_alike_has_another_schema() -> None:
    text = "apiVersion: apps.example.com/v1\nkind: Deployment\nmetadata: {name: t}\nspec: 3\n"

    assert lines(report(text, options=SCHEMA)) == []


def test_an_object_without_its_version_is_told() -> None:
    finding = only(report("kind: Job\nmetadata: {name: j}\n", options=SCHEMA), "OL903")

    assert finding.message == "apiVersion is missing."


def test_a_placeholder_for_another_tool_is_no_error() -> None:
    rest = "spec:\n  replicas: ${N:-2}\n  selector: {}\n  template: {}\n"
    text = manifest("apps/v1", "Deployment", rest)

    assert lines(report(text, options=SCHEMA)) == []


def test_the_version_decides_what_exists() -> None:
    text = manifest("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema", "spec: 3\n")

    def found(version: str) -> int:
        return len(report(text, options=LintOptions(select=("OL903",), kubernetes_version=version)))

    assert found("1.25") > 0
    assert found("1.35") == 0


@pytest.mark.parametrize("version", ["1.2", "2.0", "newest", "1.999999999999"])
def test_a_version_without_schemas_is_refused(version: str) -> None:
    with pytest.raises(LintError, match="no schemas for Kubernetes"):
        schemas_for(version)


def test_a_patch_version_is_fine() -> None:
    assert schemas_for("v1.33.2-gke.100").version == "1.33"


def test_a_path_is_written_as_people_do() -> None:
    assert dotted(("spec", "containers", 0, "image")) == "spec.containers[0].image"
    assert dotted(("metadata", "labels", "a.b/c")) == "metadata.labels['a.b/c']"
    assert dotted(()) == "the object"


def test_a_kind_in_the_wrong_case_is_told() -> None:
    finding = only(report(manifest("batch/v1", "job", "spec: {template: {}}\n")), "OL903")

    assert finding.message == "kind is the string 'job'; expected Job."
    assert (finding.line, finding.column) == (2, 7)


@pytest.mark.parametrize(
    ("package", "module"),
    [("jsonschema-rs", "jsonschema_rs"), ("kubernetes-validate", "kubernetes_validate")],
)
def test_without_a_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, package: str, module: str
) -> None:
    schemas_for.cache_clear()
    schemas._jsonschema.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    if module == "kubernetes_validate":
        monkeypatch.setattr(schemas, "find_spec", lambda _: None)

    with pytest.raises(PlanningPackageMissing, match=package):
        report(manifest("v1", "Pod", "spec: {containers: []}\n"))

    schemas_for.cache_clear()
