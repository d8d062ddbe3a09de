"""Pods in the forms of other tools: Argo, Knative, Kubeflow, Terraform, Config Connector, Helm."""

import os
from pathlib import Path

import pytest

from outlast.manifests.linting import lint
from tests.unit.manifests.lint.linted import lines, manifest, report

SPOT = 'nodeSelector: {cloud.google.com/gke-spot: "true"}'


def test_a_template_of_a_workflow_is_a_pod() -> None:
    text = manifest(
        "argoproj.io/v1alpha1",
        "Workflow",
        f"spec:\n  {SPOT}\n  templates:\n  - name: steps\n    steps: []\n"
        "  - name: train\n    container:\n      image: registry.example/train:latest\n",
    )

    assert lines(report(text), "OL904") == [("OL904", 11)]
    assert lines(report(text), "OL101") == [("OL101", 10)]


def test_a_template_of_a_workflow_overrides_where_it_runs() -> None:
    text = manifest(
        "argoproj.io/v1alpha1",
        "CronWorkflow",
        "spec:\n  workflowSpec:\n    templates:\n    - name: a\n      script: {image: 'a:1'}\n"
        f"    - name: b\n      script: {{image: 'a:1'}}\n      {SPOT}\n",
    )

    assert lines(report(text), "OL101") == [("OL101", 10)]


@pytest.mark.parametrize(
    ("version", "kind", "where"),
    [
        ("serving.knative.dev/v1", "Service", "template:\n   "),
        ("trainer.kubeflow.org/v1alpha1", "TrainJob", "podTemplateOverrides:\n  - "),
    ],
)
def test_pods_of_other_kinds_are_found(version: str, kind: str, where: str) -> None:
    text = manifest(
        version,
        kind,
        f"spec:\n  {where}spec:\n      containerConcurrency: 4\n      {SPOT}\n"
        "      containers: [{image: registry.example/a}]\n",
    )

    found = report(text)

    assert [one.code for one in found if one.code == "OL904"] == ["OL904"]
    assert [one.code for one in found if one.code in ("OL601", "OL903")] == []


def test_labels_that_terraform_computes_are_not_empty() -> None:
    text = """\
resource "kubernetes_deployment_v1" "serve" {
  metadata {
    name = "serve"
  }
  spec {
    selector {
      match_labels = merge({ app = "serve" }, local.more)
    }
    template {
      metadata {
        labels = merge({ app = "serve" }, local.more)
      }
      spec {
        container {
          name  = "serve"
          image = "registry.example/serve:1"
        }
      }
    }
  }
}
"""

    assert lines(report(main_tf=text), "OL908") == []
    empty = text.replace('merge({ app = "serve" }, local.more)\n    }', "{}\n    }")
    assert lines(report(main_tf=empty), "OL908") == [("OL908", 6)]


def test_a_job_in_terraform_is_linted_at_its_lines() -> None:
    text = """\
resource "kubernetes_job_v1" "train" {
  metadata {
    name = "train"
  }
  spec {
    template {
      metadata {}
      spec {
        restart_policy = "Never"
        node_selector = {
          "cloud.google.com/gke-spot" = "true"
        }
        container {
          name  = "train"
          image = "registry.example/train:latest"
        }
      }
    }
  }
}
"""

    found = report(main_tf=text)

    assert ("OL103", 5) in lines(found)
    assert lines(found, "OL904") == [("OL904", 15)]
    assert found.objects == 1


def test_a_manifest_in_terraform_is_linted() -> None:
    text = (
        'resource "kubernetes_manifest" "p" {\n  manifest = {\n    apiVersion = "v1"\n'
        '    kind = "Pod"\n    metadata = { name = "p" }\n    spec = {\n'
        '      containers = [{ name = "a", image = "registry.example/a" }]\n    }\n  }\n}\n'
    )

    assert lines(report(main_tf=text), "OL904") == [("OL904", 2)]


NAMED = manifest(
    "batch/v1",
    "Job",
    "spec:\n  template:\n    spec:\n      restartPolicy: Never\n"
    "      nodeSelector: {cloud.google.com/gke-nodepool: work}\n"
    "      containers: [{name: a, image: 'a:1'}]\n",
)


def test_pools_of_the_terraform_module_are_known() -> None:
    module = (
        'module "gke" {\n  source = "terraform-google-modules/kubernetes-engine/google"\n'
        '  node_pools = [\n    { name = "work", machine_type = "g2-standard-8", spot = true },\n'
        "  ]\n}\n"
    )

    assert lines(report(NAMED, main_tf=module), "OL101") != []
    assert lines(report(NAMED, main_tf=module.replace("true", "false")), "OL101") == []


def test_pools_of_config_connector_are_known() -> None:
    pool = (
        "apiVersion: container.cnrm.cloud.google.com/v1beta1\nkind: ContainerNodePool\n"
        "metadata: {name: work}\nspec:\n  nodeConfig: {spot: true}\n"
    )

    assert lines(report(NAMED, pool), "OL101") != []
    assert lines(report(NAMED, pool.replace("true", "false")), "OL101") == []


def test_jsonnet_is_named_and_not_judged(tmp_path: Path) -> None:
    (tmp_path / "a.jsonnet").write_text("{ kind: 'Pod' + x }\n")
    (tmp_path / "a.yaml").write_text(NAMED)

    found = lint(tmp_path)

    assert any("Jsonnet" in notice for notice in found.notices)
    assert [one for one in found if one.file.endswith("jsonnet")] == []


def test_a_terraform_template_is_read_as_far_as_it_is_yaml(tmp_path: Path) -> None:
    (tmp_path / "a.yaml.tftpl").write_text(NAMED.replace("a:1", "registry.example/a"))
    (tmp_path / "b.yaml.tftpl").write_text("kind: Pod\n%{ for x in y }\n- ${x}\n%{ endfor }\n")

    found = lint(tmp_path)

    assert [one.code for one in found] == ["OL904"]
    assert any("b.yaml.tftpl" in notice and "template" in notice for notice in found.notices)


def chart(folder: Path) -> Path:
    (folder / "chart" / "templates").mkdir(parents=True)
    (folder / "chart" / "Chart.yaml").write_text("name: chart\nversion: 1.0.0\n")
    for name in ("a", "b"):
        text = NAMED.replace("a:1", "{{ .Values.image }}")
        (folder / "chart" / "templates" / f"{name}.yaml").write_text(text)
    (folder / "plain.yaml").write_text(NAMED)
    return folder


def test_a_chart_has_one_notice_without_helm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))

    (notice,) = lint(chart(tmp_path)).notices

    assert "skipped 2 Helm templates, because helm is not installed" in notice


def test_a_chart_is_rendered_by_helm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    rendered = NAMED.replace("a:1", "registry.example/a")
    (programs / "helm").write_text(f'#!/bin/sh\n[ "$1" = template ] && cat <<END\n{rendered}END\n')
    (programs / "helm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    found = lint(chart(tmp_path))

    assert found.notices == ()
    (one,) = [one for one in found if one.code == "OL904"]
    assert one.file.endswith("chart (helm template)")


def test_a_chart_that_helm_refuses_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "helm").write_text("#!/bin/sh\necho 'Error: missing dependency' >&2\nexit 1\n")
    (programs / "helm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")

    (notice,) = lint(chart(tmp_path)).notices

    assert "helm: Error: missing dependency" in notice


def test_all_charts_without_helm_have_one_notice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("a", "b"):
        folder = tmp_path / name / "templates"
        folder.mkdir(parents=True)
        (tmp_path / name / "Chart.yaml").write_text(f"name: {name}\n")
        (folder / "x.yaml").write_text("kind: Pod\nname: {{ .Values.name }}\n")
    (tmp_path / "pod.yaml").write_text(manifest("v1", "Pod", "spec: {containers: []}\n"))

    (notice,) = lint(tmp_path).notices

    assert notice.startswith(f"{tmp_path}/a and 1 more: skipped 2 Helm templates, because helm")
