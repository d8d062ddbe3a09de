"""Findings that were wrong or useless on public manifests, and are not reported any more."""

import re
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


def on_gpu(text: str) -> str:
    return text.replace("{name: a,", "{name: a, resources: {limits: {nvidia.com/gpu: 1}},")


@pytest.mark.parametrize(
    "image",
    ["V_IMAGE_URL", "auto", "gcr.io/PROJECT_ID/trainer", "$IMAGE", "__IMAGE__", "x/y:TAG_NAME"],
)
def test_the_place_of_an_image_is_not_an_untagged_image(image: str) -> None:
    assert lines(report(pod(image, SPOT)), "OL904") == []


def test_an_untagged_image_matters_where_nodes_are_lost() -> None:
    assert only(report(pod("registry.example/a")), "OL904").severity is Severity.INFO
    assert only(report(pod("registry.example/a", SPOT)), "OL904").severity is Severity.WARNING


def test_images_of_other_projects_are_not_judged(tmp_path: Path) -> None:
    tree(tmp_path, vendor__x__pod_yaml=pod("a"))

    assert [one.code for one in lint(tmp_path)] == []


def test_data_of_tests_is_skipped_with_a_notice_unless_it_is_named(tmp_path: Path) -> None:
    wrong = pod("registry.example/a")
    tree(tmp_path, a_yaml=pod(), testdata__b_yaml=wrong, tests__x__fixtures__c_yaml=wrong)
    tree(tmp_path, fixtures__d_yaml=wrong, tests__data__e_yaml=wrong)

    found = lint(tmp_path)

    assert [one.fault.place.source.name for one in found] == [f"{tmp_path}/fixtures/d.yaml"]
    assert found.notices == (
        f"{tmp_path}/testdata/b.yaml and 2 more: skipped, because they are test data. Name their "
        "folder to lint them.",
    )
    assert lines(lint(tmp_path / "testdata"), "OL904")
    assert lines(lint(tmp_path / "tests/x/fixtures/c.yaml"), "OL904")


@pytest.mark.parametrize("command", ["nvidia-smi", "/usr/bin/nvidia-smi", "sleep"])
def test_a_command_that_only_shows_something_needs_no_store(command: str) -> None:
    job = manifest(
        "batch/v1",
        "Job",
        f"spec:\n  template:\n    spec:\n      {SPOT}\n      restartPolicy: Never\n"
        "      containers: [{name: a, image: 'x/a:1', command: [python], "
        "resources: {limits: {nvidia.com/gpu: 1}}}]\n",
    )

    assert lines(report(job), "OL403")
    assert not lines(report(job.replace("[python]", f"[{command}]")), "OL403")


@pytest.mark.parametrize("command", ["env A=1 python a.py", "/usr/bin/env python", "xargs python"])
def test_a_command_that_starts_another_may_need_a_store(command: str) -> None:
    words = ", ".join(command.split())
    job = manifest(
        "batch/v1",
        "Job",
        f"spec:\n  template:\n    spec:\n      {SPOT}\n      restartPolicy: Never\n"
        f"      containers: [{{name: a, image: 'x/a:1', command: [{words}], "
        "resources: {limits: {nvidia.com/gpu: 1}}}]\n",
    )

    assert lines(report(job), "OL403")


def test_a_script_that_measures_a_disk_has_nothing_to_save() -> None:
    script = "command: [bash, -c, 'python train.py; echo done']"
    text = pod(spec=SPOT).replace("{name: a,", f"{{name: a, {script},")

    assert lines(report(text), "OL110")
    assert not lines(report(text.replace("python train.py", "fio --name=read")), "OL110")


def test_a_line_that_is_replaced_makes_a_file_a_template() -> None:
    text = "kind: Pod\napiVersion: v1\nspec:\n${PULL_SECRETS}\n  containers: []\n"

    found = report(text, b_yaml=pod())

    assert lines(found) == []
    assert found.notices == ("a.yaml: skipped a document that is a YAML template.",)
    assert lines(report(text.replace("${PULL_SECRETS}", "PULL_SECRETS")), "OL901")


@pytest.mark.parametrize(
    ("field", "value", "wrong"),
    [
        ("storageClassName", "{class-name}", "{class: a}"),
        ("hostPath", "'HACK{{- toYaml .Values.path }}'", "/path"),
    ],
)
def test_what_a_reader_or_a_chart_replaces_has_no_type_yet(
    field: str, value: str, wrong: str
) -> None:
    volume = "spec: {{capacity: {{storage: 5Gi}}, accessModes: [ReadWriteOnce], {}: {}}}\n"

    for given, faults in ((value, 0), (wrong, 1)):
        found = report(manifest("v1", "PersistentVolume", volume.format(field, given)))
        assert len(lines(found, "OL903")) == faults


def test_an_image_of_a_reader_makes_a_file_a_template() -> None:
    image = "'registry.example/a:1'}]"
    text = pod().replace(f"image: {image}", "}]") + "  x: {username}/torchserve:1\n"

    assert lines(report(text, b_yaml=pod())) == []
    assert lines(report(text.replace("{username}", "[username]")), "OL901")


def test_an_overlay_in_one_file_is_incomplete(tmp_path: Path) -> None:
    spec = "spec: {template: {spec: {initContainers: [{name: a}]}}}\n"
    tree(tmp_path, a_yaml=pod(), overlay_yaml=manifest("apps/v1", "Deployment", spec))

    assert [one.code for one in lint(tmp_path)] == []


def test_a_pod_that_tolerates_both_pools_is_meant_for_both() -> None:
    pools = (
        "gcloud container node-pools create a --spot --node-taints=spot=true:NoSchedule\n"
        "gcloud container node-pools create b --node-taints=other=true:PreferNoSchedule\n"
    )
    spot, other = (f"{{key: {key}, operator: Exists}}" for key in ("spot", "other"))

    for tolerations, faults in ((spot, 1), (f"{other}, {spot}", 0)):
        found = report(server(f"tolerations: [{tolerations}]"), pools_sh=pools)
        assert len(lines(found, "OL501")) == faults


def test_objects_that_a_controller_created_are_left_to_their_owners() -> None:
    created = pod("registry.example/a").replace(
        "{name: x}", "{name: x, ownerReferences: [{kind: Job, name: a, uid: b, controller: true}]}"
    )

    found = report(f"{created}---\n{pod()}")

    assert lines(found) == []
    assert found.objects == 1
    assert found.notices == (
        "a.yaml: skipped an object that a controller created. Lint its owner.",
    )


def test_an_exported_job_keeps_the_selector_that_the_server_set() -> None:
    job = manifest(
        "batch/v1",
        "Job",
        "spec:\n  selector: {matchLabels: {batch.kubernetes.io/controller-uid: a}}\n"
        "  template:\n    spec: {restartPolicy: Never, containers: [{name: a, image: 'x/a:1'}]}\n",
    )

    assert lines(report(job), "OL908")
    assert not lines(report(job.replace("{name: x}", "{name: x, uid: a}")), "OL908")


PREFERS = (
    "preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: "
    '[{key: cloud.google.com/gke-spot, operator: In, values: ["true"]}]}}]'
)
TOLERATES = "tolerations: [{key: cloud.google.com/gke-spot, operator: Exists}]"


@pytest.mark.parametrize(
    ("spec", "faults"),
    [
        (TOLERATES, 1),
        ("nodeSelector: {kubernetes.io/arch: amd64}\n      " + TOLERATES, 1),
        ("nodeSelector: {workload-type: batch}\n      " + TOLERATES, 0),
    ],
)
def test_a_pod_that_selects_nodes_by_a_label_of_its_own_needs_no_other_selector(
    spec: str, faults: int
) -> None:
    assert len(lines(report(server(spec)), "OL501")) == faults


GPU_POOL = (
    "gcloud container node-pools create gpu --spot --accelerator type=nvidia-l4 "
    "--node-taints=nvidia.com/gpu=present:NoSchedule\n"
)


def test_to_tolerate_the_taint_of_gpu_nodes_is_no_wish_for_spot() -> None:
    text = server("tolerations: [{key: nvidia.com/gpu, operator: Exists}]")

    assert lines(report(text, pools_sh=GPU_POOL), "OL501") == []


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        (server(SPOT), 1),
        # It can run on on-demand nodes, which are easy to get without an accelerator.
        (server(TOLERATES), 0),
        (on_gpu(server(TOLERATES)), 1),
        (server("nodeSelector: {workload-type: batch}\n      " + TOLERATES), 0),
        (server(f"affinity: {{nodeAffinity: {{{PREFERS}}}}}"), 0),
        # Who creates a Pod by hand sees that it waits.
        (pod(spec=SPOT), 0),
    ],
)
def test_an_alert_is_missing_only_where_a_workload_has_to_wait(text: str, faults: int) -> None:
    assert len(lines(report(text), "OL301")) == faults


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


def secret(value: str) -> str:
    return manifest("v1", "Secret", f"data: {{token: {value}}}\n")


@pytest.mark.parametrize(
    "value", ["enterYourSecret==", "Replace_this_with_your_access_key", "<TOKEN>", "changeme!"]
)
def test_a_secret_to_fill_in_is_not_malformed(value: str) -> None:
    assert lines(report(secret(value)), "OL908") == []


def test_a_secret_that_is_not_encoded_is_malformed() -> None:
    assert only(report(secret("dummy-token-secret")), "OL908").severity is Severity.ERROR


@pytest.mark.parametrize("name", ["server-V_MODEL-V_ACCELERATOR", "V_MODEL-server", "_APP_NAME"])
def test_a_name_with_a_placeholder_in_it_is_not_judged(name: str) -> None:
    text = pod().replace("name: x", f"name: {name}")

    assert lines(report(text), "OL908") == []


@pytest.mark.parametrize("name", ["Server-1", "my-GPU-job", "my_server"])
def test_a_name_that_the_server_refuses_is_no_placeholder(name: str) -> None:
    text = pod().replace("name: x", f"name: {name}")

    assert only(report(text), "OL908").severity is Severity.ERROR


def test_spark_adds_the_image_to_its_template_of_a_pod() -> None:
    template = manifest("v1", "Pod", "spec:\n  containers: [{name: spark-executor}]\n")

    assert lines(report(template), "OL908") == []
    assert lines(report(template.replace("spark-executor", "server")), "OL908") != []


def test_the_template_that_nodes_are_provisioned_for_may_have_any_image() -> None:
    template = manifest(
        "v1", "PodTemplate", "template:\n  spec:\n    containers: [{name: a, image: perl}]\n"
    )

    assert lines(report(template), "OL904") == []


def test_the_network_of_a_node_tolerates_everything() -> None:
    tolerations = "tolerations: [{operator: Exists}]"

    assert lines(report(server(f"hostNetwork: true\n      {tolerations}")), "OL203") == []
    assert lines(report(server(tolerations)), "OL203") != []


@pytest.mark.parametrize(
    ("config", "is_open"),
    [
        ('machine_type = "a2-highgpu-1g"', False),
        ('machine_type = "n1-standard-8"', True),
        (
            'machine_type = "n1-standard-8"\n'
            '    guest_accelerator = [{ type = "nvidia-tesla-t4", count = 1 }]',
            False,
        ),
        (
            'machine_type = "n1-standard-8"\n'
            '    guest_accelerator = { type = "nvidia-tesla-t4", count = 1 }',
            False,
        ),
    ],
)
def test_gke_taints_nodes_with_gpus_itself(config: str, *, is_open: bool) -> None:
    terraform = (
        'resource "google_container_node_pool" "spot" {\n  name = "spot"\n'
        f"  node_config {{\n    spot = true\n    {config}\n  }}\n}}\n"
    )

    assert bool(lines(report(pools_tf=terraform), "OL204")) is is_open


INTERACTIVE = 'command: ["bash", "-c"], args: ["/scripts/prepare.sh shell\\nsleep infinity\\n"]'


def test_nothing_waits_for_a_script_that_prepares_a_container_to_log_in_to() -> None:
    text = pod(spec=SPOT).replace("name: a,", f"name: a, {INTERACTIVE},")

    assert lines(report(text), "OL110") == []
    assert lines(report(text.replace("prepare.sh shell", "train")), "OL110") != []


@pytest.mark.parametrize(
    "command", [INTERACTIVE, 'command: ["sleep", "infinity"]', 'args: [tail, "-f", /dev/null]']
)
def test_a_pod_to_log_in_to_needs_no_grace_period(command: str) -> None:
    text = pod(spec=SPOT)

    assert lines(report(text), "OL101")
    assert not lines(report(text.replace("name: a,", f"name: a, {command},")), "OL101")


@pytest.mark.parametrize(
    ("of_first", "others"),
    [
        ('command: [sh, -c, "python train.py; sleep infinity"], ', ""),
        ("", ", {name: b, image: 'b:1', command: [sleep, infinity]}"),
    ],
)
def test_a_pod_that_works_before_or_beside_waiting_needs_time(of_first: str, others: str) -> None:
    text = pod(spec=SPOT).replace("name: a,", f"name: a, {of_first}")
    text = text.replace("}]\n", f"}}{others}]\n")

    assert only(report(text), "OL101").severity is Severity.WARNING


def test_the_grace_period_of_a_server_is_for_its_rollouts() -> None:
    grace = "terminationGracePeriodSeconds: 130"

    long = only(report(server(f"{SPOT}\n      {grace}")), "OL102")
    assert long.severity is Severity.INFO
    assert only(report(pod(spec=f"{SPOT}\n  {grace}")), "OL102").severity is Severity.WARNING


def test_a_variable_that_is_set_twice_to_the_same_value_is_information() -> None:
    def text(second: str) -> str:
        env = f"env: [{{name: A, value: x}}, {{name: A, value: {second}}}]"
        return pod().replace("name: a,", f"name: a, {env},")

    assert only(report(text("x")), "OL909").severity is Severity.INFO
    assert only(report(text("y")), "OL909").severity is Severity.WARNING


def test_a_key_that_is_set_twice_to_the_same_value_is_information() -> None:
    def text(second: str) -> str:
        return pod(spec="restartPolicy: Never") + f"  restartPolicy: {second}\n"

    assert only(report(text("Never")), "OL902").severity is Severity.INFO
    assert only(report(text("Always")), "OL902").severity is Severity.ERROR


def test_blocks_that_are_set_twice_may_differ() -> None:
    text = pod(spec="tolerations:\n  - {key: a}") + "  tolerations:\n  - {key: b}\n"

    assert only(report(text), "OL902").severity is Severity.ERROR


def test_an_empty_amount_is_zero() -> None:
    def text(resources: str) -> str:
        return pod().replace("name: a,", f"name: a, resources: {resources},")

    assert list(report(text("{limits: {cpu: null}, requests: {cpu: 0m}}"))) == []
    assert lines(report(text("{limits: {cpu: null}, requests: {cpu: 1}}")), "OL908") != []


@pytest.mark.parametrize("field", ["maxSurge", "maxUnavailable"])
def test_an_empty_number_of_a_rollout_is_the_default(field: str) -> None:
    text = server(SPOT).replace(
        "spec:\n  selector", f"spec:\n  strategy: {{rollingUpdate: {{{field}: }}}}\n  selector"
    )

    assert field in text
    assert lines(report(text), "OL903") == []


def test_an_empty_port_of_a_probe_is_an_error() -> None:
    text = pod().replace("name: a,", "name: a, livenessProbe: {httpGet: {path: /, port: }},")

    assert lines(report(text), "OL903") != []


def test_names_in_a_template_are_there_to_be_replaced(tmp_path: Path) -> None:
    service = manifest("v1", "Service", "spec: {ports: [{port: service_port}]}\n")
    service = re.sub(r"name: \w+", "name: service_name", service, count=1)

    tree(tmp_path, template_yaml=service)
    (tmp_path / "my-service-template.yaml").write_text(service)
    assert [one.code for one in lint(tmp_path)] == []

    tree(tmp_path, service_yaml=service)
    assert [one.code for one in lint(tmp_path)] == ["OL908", "OL903"]


def test_the_image_that_people_put_in_is_not_an_untagged_image() -> None:
    assert lines(report(pod("your-registry/your-image:latest")), "OL904") == []
    assert lines(report(pod("registry.example/yours:latest")), "OL904") != []


def test_what_a_test_expects_of_an_object_is_not_complete(tmp_path: Path) -> None:
    expected = manifest("apps/v1", "Deployment", "status: {readyReplicas: 1}\n")
    for name in ("00-assert.yaml", "components-assert.yaml", "assert.yaml", "01-errors.yaml"):
        (tmp_path / name).write_text(expected)
    assert [one.code for one in lint(tmp_path)] == []

    (tmp_path / "asserted.yaml").write_text(expected)
    assert [one.code for one in lint(tmp_path)] != []


def test_the_number_of_a_class_of_kubernetes_may_be_repeated() -> None:
    def text(number: int) -> str:
        return pod(spec=f"priorityClassName: system-node-critical\n  priority: {number}")

    assert lines(report(text(2_000_001_000)), "OL909") == []
    assert lines(report(text(2_000_000_000)), "OL909") != []


def test_the_status_of_an_object_may_be_incomplete() -> None:
    text = pod() + "status: {containerStatuses: [{name: a, ready: true}]}\n"

    assert list(report(text)) == []


def test_the_name_in_a_patch_may_be_anything(tmp_path: Path) -> None:
    patch = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: 0}\n"
    (tmp_path / "patch-statefulset.yaml").write_text(patch)
    assert [one.code for one in lint(tmp_path)] == []

    (tmp_path / "stateful.yaml").write_text(patch)
    assert "OL503" in [one.code for one in lint(tmp_path)]


def test_kustomize_completes_what_is_in_a_folder_of_its_name(tmp_path: Path) -> None:
    incomplete = manifest("apps/v1", "Deployment", "spec: {replicas: 0}\n")
    tree(tmp_path, kustomize__disabled_yaml=incomplete)
    assert [one.code for one in lint(tmp_path)] == []

    tree(tmp_path, manifests__disabled_yaml=incomplete)
    assert [one.code for one in lint(tmp_path)] != []


def test_an_object_that_sops_encrypted_is_decrypted_before_it_is_applied() -> None:
    encrypted = "data: {key: 'ENC[AES256_GCM,data:Zm8=,iv:YQ==,type:str]'}\n"
    sops = "sops: {version: 3.9.0}\n"

    assert list(report(manifest("v1", "Secret", encrypted + sops))) == []
    assert lines(report(manifest("v1", "Secret", "data: {key: 'a b'}\n" + sops)), "OL908") != []


def test_what_is_filled_in_may_be_one_of_a_list() -> None:
    def text(mode: str) -> str:
        spec = f"{{accessModes: ['{mode}'], resources: {{requests: {{storage: 1Gi}}}}}}"
        return manifest("v1", "PersistentVolumeClaim", f"spec: {spec}\n")

    assert lines(report(text("${MODES:=ReadWriteOnce}")), "OL908") == []
    assert lines(report(text("ReadWriteTwice")), "OL908") != []


def test_a_path_that_is_filled_in_is_not_a_wrong_path() -> None:
    volume = "volumes: [{name: v, nfs: {server: s, path: %s}}]"

    assert lines(report(pod(spec=volume % "__NFS_PATH__")), "OL908") == []
    assert lines(report(pod(spec=volume % "exports")), "OL908") != []


def test_terraform_takes_the_text_of_a_port_as_its_number() -> None:
    def text(port: str) -> str:
        return (
            'resource "kubernetes_pod" "a" {\n  metadata {\n    name = "a"\n  }\n  spec {\n'
            '    container {\n      name = "a"\n      image = "a:1"\n      readiness_probe {\n'
            f'        http_get {{\n          port = "{port}"\n        }}\n      }}\n    }}\n'
            "  }\n}\n"
        )

    assert list(report(pod_tf=text("8080"))) == []
    assert lines(report(pod_tf=text("80_80")), "OL908") != []


TERRAFORM_POOL = """resource "google_container_node_pool" "p" {
  name = "p"
  node_config {
    spot = true
    %s
  }
}
"""
POOL = """apiVersion: container.cnrm.cloud.google.com/v1beta1
kind: ContainerNodePool
metadata: {name: p}
spec: {clusterRef: {name: c}, location: l, nodeConfig: {spot: true%s}}
"""


def test_gke_taints_the_nodes_of_a_sandbox_itself() -> None:
    script = "gcloud container node-pools create p --spot %s\n"
    block = 'sandbox_config {\n      sandbox_type = "gvisor"\n    }'

    assert lines(report(pools_tf=TERRAFORM_POOL % ""), "OL204") != []
    assert lines(report(pools_tf=TERRAFORM_POOL % block), "OL204") == []
    assert lines(report(pools_sh=script % ""), "OL204") != []
    assert lines(report(pools_sh=script % "--sandbox type=gvisor"), "OL204") == []
    assert lines(report(POOL % ""), "OL204") != []
    assert lines(report(POOL % ", sandboxConfig: {type: gvisor}"), "OL204") == []


def test_a_number_in_a_patch_may_be_filled_in(tmp_path: Path) -> None:
    patch = manifest("apps/v1", "Deployment", "spec: {replicas: %s}\n")
    (tmp_path / "patch-a.yaml").write_text(patch % "'${replicas}'")
    assert [one.code for one in lint(tmp_path)] == []

    (tmp_path / "patch-b.yaml").write_text(patch % "many")
    assert [one.code for one in lint(tmp_path)] == ["OL903"]


def test_a_patch_with_a_target_needs_no_version(tmp_path: Path) -> None:
    patch = "kind: Job\nmetadata: {name: any}\nspec: {backoffLimit: 3}\n"
    kustomization = "resources: [job.yaml]\npatches: [{path: more.yaml, target: {kind: Job}}]\n"
    tree(tmp_path, kustomization_yaml=kustomization, job_yaml=JOB, more_yaml=patch)

    assert "OL903" not in [one.code for one in lint(tmp_path)]


def test_what_selects_no_pods_and_has_no_image_is_a_part_of_an_object() -> None:
    def text(selector: str, image: str) -> str:
        containers = f"[{{name: a{image}}}]"
        return manifest(
            "apps/v1",
            "DaemonSet",
            f"spec: {{{selector}template: {{spec: {{containers: {containers}}}}}}}\n",
        )

    assert list(report(text("", ""))) == []
    assert list(report(text("", ", image: 'a:1'"))) != []
    assert list(report(text("selector: {matchLabels: {a: b}}, ", ""))) != []


def test_lines_that_are_replaced_as_a_whole_are_not_invalid_yaml(tmp_path: Path) -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  %s\nspec: {containers: []}\n"
    tree(tmp_path, complete_yaml=pod(), a_yaml=text % "<ANNOTATIONS>")
    tree(tmp_path, other_yaml=text % "annotations: {PREFIX}/a")
    report = lint(tmp_path)
    assert [one.code for one in report] == []
    assert "is a YAML template" in str(report.notices)

    tree(tmp_path, b_yaml=text % "annotations")
    assert [one.code for one in lint(tmp_path)] == ["OL901"]


def test_ports_that_are_filled_in_are_not_equal() -> None:
    ports = "[{name: a, port: '${A:=80}'}, {name: b, port: '${B:=81}'}]"

    assert list(report(manifest("v1", "Service", f"spec: {{ports: {ports}}}\n"))) == []


def test_templates_of_ytt_are_not_judged(tmp_path: Path) -> None:
    tree(tmp_path, complete_yaml=pod(), a_yaml=pod("").replace("''", "#@ data.values.image\n "))
    report = lint(tmp_path)

    assert [one.code for one in report] == []
    assert "is a ytt template" in str(report.notices)


def test_a_kustomization_needs_no_version(tmp_path: Path) -> None:
    labels = "labels: [{pairs: {app: a}, includeSelectors: true}]\n"
    deployment = manifest(
        "apps/v1",
        "Deployment",
        "spec: {template: {spec: {containers: [{name: a, image: 'a:1'}]}}}\n",
    )
    tree(
        tmp_path,
        base__deployment_yaml=deployment,
        base__kustomization_yaml="kind: Kustomization\nresources: [deployment.yaml]\n",
        live__kustomization_yaml=f"kind: Kustomization\nresources: [../base]\n{labels}",
    )

    assert [one.code for one in lint(tmp_path)] == []


def test_a_benchmark_of_the_network_needs_no_signal() -> None:
    script = "command: [bash, -c, 'mpirun -np 16 /nccl/build/all_gather_perf -b 1K; echo done']"
    text = pod(spec=SPOT).replace("{name: a,", f"{{name: a, {script},")

    assert not lines(report(text), "OL110")
    assert lines(report(text.replace("all_gather_perf", "train")), "OL110")


def test_a_benchmark_of_the_network_needs_no_store() -> None:
    job = manifest(
        "batch/v1",
        "Job",
        f"spec:\n  template:\n    spec:\n      {SPOT}\n      restartPolicy: Never\n"
        "      containers: [{name: a, image: 'x/a:1', command: [bash, -c, 'mpirun train'], "
        "resources: {limits: {nvidia.com/gpu: 1}}}]\n",
    )

    assert lines(report(job), "OL403")
    assert not lines(report(job.replace("train'", "all_reduce_perf -g 8'")), "OL403")


def test_a_pod_that_tolerates_two_values_of_a_key_is_meant_for_several_pools() -> None:
    spot = "{key: cloud.google.com/gke-spot, operator: Exists}"
    small, large = (f"{{key: purpose, value: {value}}}" for value in ("small", "large"))

    for tolerations, faults in ((f"{small}, {spot}", 1), (f"{small}, {large}, {spot}", 0)):
        assert len(lines(report(server(f"tolerations: [{tolerations}]")), "OL501")) == faults


def test_the_space_that_openshift_replaces_is_no_image() -> None:
    assert lines(report(server("priority: 0").replace("registry.example/a:1", " "))) == []
    assert lines(report(pod(" registry.example/a:1")), "OL908")


def test_the_server_completes_an_empty_selector_of_a_job() -> None:
    job = manifest(
        "batch/v1",
        "Job",
        "spec:\n  selector: {}\n"
        "  template:\n    spec: {restartPolicy: Never, containers: [{name: a, image: 'x/a:1'}]}\n",
    )

    assert not lines(report(job), "OL908")
    assert lines(report(job.replace("{}", "{matchLabels: {app: a}}", 1)), "OL908")


def test_a_class_that_falls_back_to_on_demand_waits_only_for_accelerators() -> None:
    compute_class = manifest(
        "cloud.google.com/v1",
        "ComputeClass",
        "spec: {priorities: [{spot: true, machineFamily: e2}, {machineFamily: e2}]}\n",
    )
    text = server("nodeSelector: {cloud.google.com/compute-class: x}")

    assert not lines(report(text, compute_class), "OL301")
    assert lines(report(on_gpu(text), compute_class), "OL301")


def test_a_pod_that_only_waits_has_nothing_to_save() -> None:
    text = server(SPOT).replace("{name: a,", "{name: a, command: [sleep, infinity],")

    assert lines(report(text)) == []
    assert lines(report(text.replace("[sleep, infinity]", "[serve]")), "OL101")


def test_a_budget_for_pods_that_no_file_defines_may_protect_jobs() -> None:
    budget = manifest(
        "policy/v1",
        "PodDisruptionBudget",
        "spec: {maxUnavailable: 0, selector: {matchLabels: {app: a}}}\n",
    )

    assert only(report(budget), "OL704").severity is Severity.INFO
    assert only(report(budget, server("priority: 0")), "OL704").severity is Severity.WARNING


def test_a_word_in_capitals_stands_for_a_number() -> None:
    ports = "spec: {ports: [{protocol: %s, port: %s}], selector: {app: a}}\n"

    assert lines(report(manifest("v1", "Service", ports % ("TCP", "PORT")))) == []
    assert lines(report(manifest("v1", "Service", ports % ("TCP", "port"))), "OL903")
    assert lines(report(manifest("v1", "Service", ports % ("HTTP", "80"))), "OL908")


def test_an_empty_value_in_a_template_is_filled_in_by_a_program(tmp_path: Path) -> None:
    claim = (
        "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata:\n  name:\nspec:\n  accessModes:\n"
        "  resources: {requests: {storage: }}\n"
    )
    tree(tmp_path, templates__claim_yaml=claim, claims__claim_yaml=claim)

    found = [one.fault.place.source.name for one in lint(tmp_path) if one.code == "OL908"]

    assert set(found) == {f"{tmp_path}/claims/claim.yaml"}
    # What a template does not mention at all is missing from it.
    tree(tmp_path, templates__claim_yaml=claim.replace("  accessModes:", "  storageClassName: a"))
    assert lines(lint(tmp_path / "templates"), "OL908")


def test_a_scheduling_gate_may_contain_a_placeholder() -> None:
    gate = 'schedulingGates: [{name: "gke.io/x-<USER>"}]'

    assert lines(report(pod(spec=gate)), "OL908") == []
    assert lines(report(pod(spec=gate.replace("<USER>", "a b"))), "OL908")


def test_a_directive_of_terraform_makes_a_file_a_template() -> None:
    text = "kind: A\napiVersion: b/v1\nspec:\n%{ for one in all ~}\n  - ${one}\n%{ endfor ~}\n"

    found = report(pod(), text)

    assert lines(found) == []
    assert found.notices == ("b.yaml: skipped a document that is a YAML template.",)


def test_people_log_in_to_a_pod_next_to_a_daemon() -> None:
    waits = "{name: b, image: 'registry.example/b:1', command: [sleep, infinity]}"
    daemon = "command: [sh, -c, 'chmod 755 /fts/daemon.sh; /fts/daemon.sh --hops=2']"
    text = pod(spec=SPOT).replace("{name: a,", f"{waits}, {{name: a, {daemon},")

    assert {"OL101", "OL110"} <= {code for code, _ in lines(report(text))}
    assert lines(report(text.replace("example/a:", "example/tcpgpudmarxd-dev:"))) == []


def test_what_is_no_object_needs_no_version() -> None:
    text = "kind: Configuration\nmetadata: {name: a}\nstages: []\n"

    assert only(report(pod(), text), "OL903").severity is Severity.INFO
    assert only(report(pod(), text + "spec: {}\n"), "OL903").severity is Severity.ERROR


def test_an_image_with_the_name_of_its_object_is_built_by_a_tool() -> None:
    text = server("priority: 0")

    assert lines(report(text.replace("registry.example/a:1", "x")), "OL904") == []
    assert lines(report(text.replace("registry.example/a:1", "y")), "OL904")


def test_a_test_that_is_named_for_its_mistake_is_test_data(tmp_path: Path) -> None:
    tree(tmp_path, a_yaml=pod(), test__e2e__invalid_yaml="kind: [")

    assert not lint(tmp_path).findings
    assert lines(lint(tmp_path / "test"), "OL901")


def test_a_sentence_in_capitals_is_no_name_and_no_image() -> None:
    text = pod("FILLED BY THE OPERATOR").replace("{name: x}", "{name: x, namespace: FILLED IN}")

    assert lines(report(text)) == []
    assert lines(report(text.replace("FILLED IN", "Filled in")), "OL908")


def test_percent_signs_around_a_name_make_a_file_a_template() -> None:
    text = "kind: A\napiVersion: b/v1\nspec:\n  zone: %%REGION%%-a\n"

    assert lines(report(pod(), text)) == []
    assert lines(report(pod(), text.replace("%%REGION%%", "%REGION")), "OL901")


def test_a_pod_that_holds_room_for_others_has_nothing_to_save() -> None:
    text = server(SPOT)

    assert lines(report(text), "OL101")
    assert lines(report(text.replace("example/a:1", "example/pause:3.9"))) == []


def test_the_manifests_of_go_modules_are_not_those_of_the_project(tmp_path: Path) -> None:
    wrong = pod("registry.example/a").replace("v1", "v0")
    tree(tmp_path, a_yaml=pod(), vendor__k8s__b_yaml=wrong)

    assert [one.code for one in lint(tmp_path)] != []
    (tmp_path / "vendor/modules.txt").write_text("# k8s.io/api v0.36.0\n")
    assert [one.code for one in lint(tmp_path)] == []
    assert lint(tmp_path / "vendor").findings


def test_what_was_released_long_ago_is_kept_as_it_was(tmp_path: Path) -> None:
    removed = manifest("rbac.authorization.k8s.io/v1beta1", "Role", "rules: []\n")
    for folder in ("v0.5.0", "v0.5.0-rc1", "v1beta1"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.yaml").write_text(removed)

    found = [(one.fault.place.source.name, one.severity) for one in lint(tmp_path)]

    assert found == [
        (f"{tmp_path}/v0.5.0/a.yaml", Severity.INFO),
        (f"{tmp_path}/v0.5.0-rc1/a.yaml", Severity.INFO),
        (f"{tmp_path}/v1beta1/a.yaml", Severity.ERROR),
    ]
