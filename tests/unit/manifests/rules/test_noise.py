"""Findings that were wrong or useless on public manifests, and are not reported any more."""

from pathlib import Path

import pytest

from outlast.manifests.lint.engine.rule import Severity
from outlast.manifests.linting import lint
from tests.unit.manifests.lint.linted import lines, manifest, only, report
from tests.unit.manifests.lint.test_kustomize import tree

SPOT = 'nodeSelector: {cloud.google.com/gke-spot: "true"}'


def pod(image: str = "registry.example/a:1", spec: str = "") -> str:
    return manifest(
        "v1", "Pod", f"spec:\n  {spec}\n  containers: [{{name: a, image: '{image}'}}]\n"
    )


def server(spec: str) -> str:
    return manifest(
        "apps/v1",
        "Deployment",
        "spec:\n  selector: {matchLabels: {app: a}}\n  template:\n"
        f"    metadata: {{labels: {{app: a}}}}\n    spec:\n      {spec}\n"
        "      containers: [{name: a, image: 'registry.example/a:1'}]\n",
    )


@pytest.mark.parametrize(
    "image",
    ["V_IMAGE_URL", "auto", "gcr.io/PROJECT_ID/trainer", "$IMAGE", "__IMAGE__", "x/y:TAG_NAME"],
)
def test_the_place_of_an_image_is_not_an_untagged_image(image: str) -> None:
    assert lines(report(pod(image, SPOT)), "OL904") == []


def test_an_untagged_image_matters_where_nodes_are_lost() -> None:
    assert only(report(pod("registry.example/a")), "OL904").severity is Severity.INFO
    assert only(report(pod("registry.example/a", SPOT)), "OL904").severity is Severity.WARNING


def test_images_in_test_data_are_not_judged(tmp_path: Path) -> None:
    tree(tmp_path, testdata__pod_yaml=pod("registry.example/a"), vendor__x__pod_yaml=pod("a"))

    assert [one.code for one in lint(tmp_path)] == []


def test_a_name_that_an_overlay_replaces_is_not_an_untagged_image(tmp_path: Path) -> None:
    tree(tmp_path, kustomization_yaml="resources: [pod.yaml]\n", pod_yaml=pod("server"))

    assert [one.code for one in lint(tmp_path)] == []


def test_a_server_without_a_grace_period_is_information() -> None:
    assert only(report(server(SPOT)), "OL101").severity is Severity.INFO
    assert only(report(pod(spec=SPOT)), "OL101").severity is Severity.WARNING


def test_to_prefer_other_nodes_than_some_is_no_wish_for_spot() -> None:
    for operator in ("NotIn", "DoesNotExist"):
        values = ", values: [arm]" if operator == "NotIn" else ""
        wish = (
            "affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: "
            "[{weight: 1, preference: {matchExpressions: "
            f"[{{key: family, operator: {operator}{values}}}]}}}}]}}}}"
        )
        pools = "gcloud container node-pools create a --spot --node-labels=kind=x\n"
        assert lines(report(pod(spec=wish), pools_sh=pools), "OL101") == []


JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: j\n  labels:\n"
    "    kueue.x-k8s.io/queue-name: user-queue\nspec:\n  template:\n    spec:\n"
    "      restartPolicy: Never\n      containers: [{name: a, image: 'registry.example/a:1'}]\n"
)
QUEUE = (
    "apiVersion: kueue.x-k8s.io/v1beta1\nkind: LocalQueue\n"
    "metadata: {{name: {name}{namespace}}}\nspec: {{clusterQueue: c}}\n"
)


def test_a_queue_of_another_project_is_not_the_one_that_was_meant(tmp_path: Path) -> None:
    queue = QUEUE.format(name="tas-user-queue", namespace="")
    tree(tmp_path, one__job_yaml=JOB, two__queue_yaml=queue)
    assert [one.code for one in lint(tmp_path)] == []

    tree(tmp_path, one__queue_yaml=queue)
    assert [one.code for one in lint(tmp_path)] == ["OL304"]


def test_a_namespace_that_is_filled_in_later_may_be_any() -> None:
    job = JOB.replace("  name: j", "  name: j\n  namespace: <user_namespace>")
    queue = QUEUE.format(name="user-queue", namespace=", namespace: team")

    assert lines(report(job, queue), "OL305") == []


def test_the_service_of_another_project_serves_no_pods_here(tmp_path: Path) -> None:
    service = (
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\n"
        "spec: {selector: {app: a}, ports: [{port: 80}]}\n"
    )
    two = server("enableServiceLinks: false").replace("spec:\n", "spec:\n  replicas: 2\n", 1)
    tree(tmp_path, one__server_yaml=two, two__service_yaml=service)
    assert [one.code for one in lint(tmp_path)] == []

    tree(tmp_path, one__service_yaml=service)
    assert [one.code for one in lint(tmp_path)] == ["OL702"]


@pytest.mark.parametrize(
    "selector",
    [
        "cloud.google.com/gke-accelerator-test: x",
        "cloud.google.com/gke-accelerator: nvidia-rtx-pro-6000-vws",
        'cloud.google.com/gke-gpu: "true"',
    ],
)
def test_a_longer_name_is_a_name_of_its_own(selector: str) -> None:
    assert lines(report(pod(spec=f"nodeSelector: {{{selector}}}")), "OL504") == []


@pytest.mark.parametrize("value", ["__NUM_NODES__", "NUM_NODES", "<nodes>", "$NODES"])
def test_a_placeholder_for_a_number_is_not_a_wrong_type(value: str) -> None:
    text = manifest(
        "batch/v1",
        "Job",
        f"spec:\n  parallelism: {value}\n  template:\n    spec:\n      restartPolicy: Never\n"
        "      containers: [{name: a, image: 'registry.example/a:1'}]\n",
    )

    assert lines(report(text), "OL903") == []


def test_definitions_in_a_folder_for_old_clusters_are_meant_to_be_old(tmp_path: Path) -> None:
    removed = (
        "apiVersion: apiextensions.k8s.io/v1beta1\nkind: CustomResourceDefinition\n"
        "metadata: {name: as.example.com}\n"
    )
    tree(tmp_path, crd__v1beta1__a_yaml=removed, server_yaml=server("enableServiceLinks: false"))
    assert [one.code for one in lint(tmp_path)] == []

    tree(tmp_path, crd__a_yaml=removed)
    assert [one.code for one in lint(tmp_path)] == ["OL906"]


def test_a_patch_that_nothing_uses_is_not_sent_to_a_server(tmp_path: Path) -> None:
    removed = (
        "apiVersion: admissionregistration.k8s.io/v1beta1\nkind: MutatingWebhookConfiguration\n"
        "metadata: {name: a, annotations: {b: c}}\n"
    )
    tree(tmp_path, server_yaml=server("enableServiceLinks: false"), ca_patch_yaml=removed)
    assert [one.code for one in lint(tmp_path)] == []

    tree(tmp_path, webhook_yaml=removed)
    assert [one.code for one in lint(tmp_path)] == ["OL906"]
