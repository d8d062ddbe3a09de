"""Files, folders and standard input; Lists, templates, patches; and nothing at all."""

from pathlib import Path

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.report import LintReport
from outlast.manifests.lint.errors import LintError, NothingLinted
from outlast.manifests.linting import lint
from tests.unit.manifests.lint.linted import SPOT_JOB, lines, manifest, report

IMAGES = LintOptions(select=("OL904",))
POD = manifest("v1", "Pod", "spec:\n  containers:\n  - {name: a, image: x}\n")


def files(found: LintReport) -> list[str]:
    return sorted({Path(one.file).name for one in found})


def put(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_a_folder_is_searched_and_hidden_ones_are_not(tmp_path: Path) -> None:
    put(tmp_path, a_yaml=POD, b__c_yml=POD, b__d_json='{"kind": "no object"}', b__e_txt=POD)
    for name in (".hidden/f.yaml", "node_modules/g.yaml", ".h.yaml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(POD)

    assert files(lint(tmp_path, options=IMAGES)) == ["a.yaml", "c.yml"]


def test_a_named_file_needs_no_ending(tmp_path: Path) -> None:
    put(tmp_path, manifest=POD)

    assert files(lint(tmp_path / "manifest", options=IMAGES)) == ["manifest"]


def test_a_file_is_looked_at_once(tmp_path: Path) -> None:
    put(tmp_path, a_yaml=POD)
    (tmp_path / "b.yaml").symlink_to("a.yaml")

    assert len(lint(tmp_path, tmp_path / "a.yaml", options=IMAGES)) == 1


def test_a_loop_of_links_ends(tmp_path: Path) -> None:
    put(tmp_path, a_yaml=POD)
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "gone.yaml").symlink_to("nowhere")

    assert files(lint(tmp_path, options=IMAGES)) == ["a.yaml"]


def test_standard_input_is_read_for_a_dash() -> None:
    (finding,) = lint("-", options=IMAGES, read_stdin=POD.encode)

    assert finding.where == "<stdin>:6:22"


def test_excluded_files_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, a_yaml=POD, vendor__b_yaml=POD, c__vendor__d_yaml=POD, e_gen_yaml=POD)
    options = LintOptions(select=("OL904",), exclude=("vendor", "*.gen.yaml"))

    assert files(lint(tmp_path, options=options)) == ["a.yaml"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# only a comment\n",
        "a: 1\n",
        "- 1\n",
        "just text\n",
        '{{ .Values.x }}: {{ include "a" }}\n',
    ],
)
def test_nothing_to_lint_is_an_error(text: str) -> None:
    with pytest.raises(NothingLinted, match="Nothing was linted"):
        report(text)


def test_an_empty_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NothingLinted):
        lint(tmp_path)


def test_a_path_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LintError, match="no file or folder"):
        lint(tmp_path / "gone")


def test_a_file_that_is_too_large_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.manifests.lint.engine.files.BYTES_MAX", 20)
    put(tmp_path, a_yaml=POD)

    with pytest.raises(LintError, match="the limit is 20"):
        lint(tmp_path / "a.yaml")
    with pytest.raises(NothingLinted):
        lint(tmp_path)
    with (tmp_path / "a.yaml").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        with pytest.raises(LintError, match="Standard input has more than 20 bytes"):
            lint("-")


def test_the_items_of_a_list_are_objects() -> None:
    text = "apiVersion: v1\nkind: List\nitems:\n" + "".join(
        "- " + "\n  ".join(POD.splitlines()) + "\n" for _ in range(2)
    )

    assert lines(report(text, options=IMAGES)) == [("OL904", 9), ("OL904", 15)]


def test_a_list_of_a_kind_is_one_too() -> None:
    items = "\n  ".join(POD.splitlines())
    text = f"apiVersion: v1\nkind: PodList\nitems:\n- {items}\n"

    assert lines(report(text, options=IMAGES)) == [("OL904", 9)]


def test_a_helm_template_is_skipped_with_a_notice() -> None:
    template = "name: {{ .Values.name }}\n" + POD

    found = report(POD, template, options=IMAGES)

    assert lines(found) == [("OL904", 6)]
    assert found.notices == ("b.yaml: skipped, because it is a Helm template.",)


def test_all_templates_of_a_chart_are_helms(tmp_path: Path) -> None:
    quoted = POD.replace("name: x}\n", 'name: "{{ template }}"}\n')
    put(tmp_path, Chart_yaml="apiVersion: v2\nname: c\n", templates__sub__a_yaml=quoted, b_yaml=POD)

    assert files(lint(tmp_path, options=IMAGES)) == ["b.yaml"]


def test_a_template_that_is_no_yaml_is_skipped_and_its_neighbours_are_not() -> None:
    found = report(POD + "---\nname: {{ name }}\n---\n" + POD, options=LintOptions(select=("OL9",)))

    assert lines(found) == [("OL904", 6), ("OL904", 15)]
    assert found.notices == ("a.yaml: skipped a document that is a YAML template.",)


def test_the_templates_of_alerts_are_no_helm() -> None:
    rule = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: '{{ $labels.pod }}'\n"

    assert report(rule).notices == ()


def test_a_broken_document_is_reported_beside_the_others() -> None:
    found = report(POD + "---\na: 'b\n", options=LintOptions(select=("OL9",)))

    assert lines(found) == [("OL904", 6), ("OL901", 9)]


def test_bytes_that_are_no_text_are_a_finding(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"kind: Pod\nname: \xff\xfe\n")

    (finding,) = lint(tmp_path / "a.yaml")

    assert (finding.code, finding.line, finding.column) == ("OL901", 2, 7)


KUSTOMIZATION = (
    "resources: [base.yaml]\npatches:\n- path: change.yaml\nimages:\n- {name: x, newTag: v1}\n"
)
PATCH = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
spec:
  maxParallelism: 3
  template:
    spec:
      nodeSelector:
        cloud.google.com/gke-spot: "true"
"""


def test_a_patch_is_judged_by_what_it_says_alone(tmp_path: Path) -> None:
    put(tmp_path, kustomization_yaml=KUSTOMIZATION, base_yaml=POD, change_yaml=PATCH)

    found = lint(tmp_path)

    assert [(Path(one.file).name, one.code) for one in found] == [("change.yaml", "OL601")]


def test_a_patch_alone_is_known_by_the_kustomization_beside_it(tmp_path: Path) -> None:
    put(tmp_path, kustomization_yaml=KUSTOMIZATION, base_yaml=POD, change_yaml=PATCH)

    assert [one.code for one in lint(tmp_path / "change.yaml")] == ["OL601"]


@pytest.mark.parametrize("name", ["patches/job.yaml", "job-patch.yaml", "patch.yaml"])
def test_what_is_called_a_patch_is_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(PATCH.replace("maxP", "p"))

    assert lines(lint(path)) == []


def test_a_merge_directive_makes_a_patch() -> None:
    text = "$patch: delete\napiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {bad: 1}\n"

    assert lines(report(text)) == [("OL601", 5)]


def test_a_base_may_be_completed_by_kustomize(tmp_path: Path) -> None:
    deployment = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {template: {}}\n"
    )
    put(tmp_path, kustomization_yaml="resources: [d.yaml]\n", d_yaml=deployment)

    assert lines(lint(tmp_path)) == []


def test_node_pools_are_found_among_the_paths(tmp_path: Path) -> None:
    job = SPOT_JOB.replace("cloud.google.com/gke-spot", "pool").replace('"true"', "cheap")
    script = "gcloud container node-pools create a --spot --node-labels=pool=cheap\n"
    put(tmp_path, job_yaml=job, pools_sh=script)

    assert ("OL101", 7) in lines(lint(tmp_path))
    assert ("OL101", 7) not in lines(lint(tmp_path / "job.yaml"))
    by_option = LintOptions(pools=(str(tmp_path / "pools.sh"),))
    assert ("OL101", 7) in lines(lint(tmp_path / "job.yaml", options=by_option))


def test_terraform_among_the_paths_counts(tmp_path: Path) -> None:
    job = SPOT_JOB.replace("cloud.google.com/gke-spot", "pool").replace('"true"', "cheap")
    body = "node_config {\n  spot = true\n  labels = { pool = var.p }\n }\n"
    main = f'resource "google_container_node_pool" "a" {{\n {body}}}\n'
    put(tmp_path, job_yaml=job, main_tf=main, vars_tf='variable "p" {\n default = "cheap"\n}\n')

    assert ("OL101", 7) in lines(lint(tmp_path))


def test_a_file_of_pools_without_a_pool_is_an_error(tmp_path: Path) -> None:
    put(tmp_path, a_yaml=POD, empty_sh="echo hello\n")

    with pytest.raises(LintError, match="No node pool was found"):
        lint(tmp_path / "a.yaml", options=LintOptions(pools=(str(tmp_path / "empty.sh"),)))


def test_node_pools_alone_are_something_to_lint() -> None:
    assert report(pools_sh="gcloud container node-pools create a --spot\n").pools == 1


def test_a_folder_can_hold_the_pools(tmp_path: Path) -> None:
    put(tmp_path, a_yaml=POD, infra__pools_sh="gcloud container node-pools create a --spot\n")
    put(tmp_path, infra__other_yaml=POD)

    found = lint(tmp_path / "a.yaml", options=LintOptions(pools=(str(tmp_path / "infra"),)))

    assert found.objects == 1


def test_pools_that_are_named_twice_count_once(tmp_path: Path) -> None:
    put(tmp_path, a_yaml=POD, pools_sh="gcloud container node-pools create a --spot\n")

    assert lint(tmp_path, options=LintOptions(pools=(str(tmp_path / "pools.sh"),))).pools == 1


def test_pools_from_the_option_are_not_what_was_to_be_linted(tmp_path: Path) -> None:
    put(tmp_path, pools_sh="gcloud container node-pools create a --spot\n")
    (tmp_path / "empty").mkdir()

    with pytest.raises(NothingLinted):
        lint(tmp_path / "empty", options=LintOptions(pools=(str(tmp_path / "pools.sh"),)))
