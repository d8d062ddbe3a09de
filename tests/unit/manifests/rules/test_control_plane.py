"""Where the rules on a starved control plane speak up beyond their fixtures, and where not."""

import json

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.report import Finding
from tests.unit.manifests.lint.linted import manifest, report

SPOT = '{cloud.google.com/gke-spot: "true"}'


def found(code: str, *texts: str, autopilot: bool | None = None, **files: str) -> list[Finding]:
    options = LintOptions(select=(code,), is_autopilot=autopilot)
    return list(report(*texts, options=options, **files))


def pod(container: str = "", selector: str = SPOT, **spec: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in spec.items())
    return f"{{spec: {{nodeSelector: {selector}, containers: [{{name: a{container}}}]{more}}}}}"


def deployment(template: str, kind: str = "Deployment", more: str = "") -> str:
    return manifest("apps/v1", kind, f"spec:\n  selector: {{}}\n{more}  template: {template}\n")


def ray(kind: str, path: str, *, head: str = SPOT, more: str = "") -> str:
    spec = f"{{headGroupSpec: {{template: {pod(selector=head)}}}, workerGroupSpecs: []{more}}}"
    return manifest("ray.io/v1", kind, f"spec: {path % spec}\n")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        (ray("RayCluster", "%s"), 1),
        (ray("RayJob", "{rayClusterSpec: %s}"), 1),
        (ray("RayService", "{rayClusterConfig: %s}"), 1),
        (ray("RayCluster", "%s", head="{}"), 0),
        (ray("RayCluster", "%s", more=", gcsFaultToleranceOptions: {redisAddress: 'r:1'}"), 0),
        (
            ray("RayJob", "{rayClusterSpec: %s}", more=", gcsFaultToleranceOptions: {}"),
            0,
        ),
        (ray("RayCluster", "%s").replace("a}]", "a, env: [{name: RAY_REDIS_ADDRESS}]}]"), 0),
        (
            ray("RayCluster", "%s").replace(
                "{name: x}", "{name: x, annotations: {ray.io/ft-enabled: 'true'}}"
            ),
            0,
        ),
        (deployment(pod(", command: [ray, start, --head, --block]")), 1),
        (deployment(pod(", command: [ray, start, --address=head]")), 0),
        (deployment(pod(", command: [dask, scheduler]")), 1),
        (deployment(pod(", args: [dask-worker, tcp://s:1]")), 0),
    ],
)
def test_a_head_that_nothing_else_knows_of_stays_off_spot(text: str, count: int) -> None:
    assert len(found("OL201", text)) == count


def mpi_job(launcher: str, worker: str) -> str:
    specs = f"{{Launcher: {{template: {launcher}}}, Worker: {{template: {worker}}}}}"
    return manifest("kubeflow.org/v2beta1", "MPIJob", f"spec: {{mpiReplicaSpecs: {specs}}}\n")


def test_the_workers_of_an_mpi_job_may_be_on_spot_and_its_launcher_may_not() -> None:
    assert found("OL201", mpi_job(pod(selector="{}"), pod())) == []
    (finding,) = found("OL201", mpi_job(pod(), pod()))
    assert finding.message.startswith("The MPIJob launcher may run on Spot")


def test_the_master_of_a_pytorch_job_is_a_worker_like_the_others() -> None:
    specs = f"{{Master: {{template: {pod()}}}}}"
    text = manifest("kubeflow.org/v1", "PyTorchJob", f"spec: {{pytorchReplicaSpecs: {specs}}}\n")

    assert found("OL201", text) == []


@pytest.mark.parametrize(
    ("container", "is_flagged"),
    [
        (", image: 'quay.io/prometheus/prometheus:v3.0.0'", True),
        (", image: 'quay.io/prometheus/alertmanager@sha256:00'", True),
        (", image: 'registry.k8s.io/kueue/kueue:v0.14.0'", True),
        (", image: 'quay.io/kuberay/operator:v1.3'", True),
        (", image: 'ghcr.io/example/training-operator:1'", True),
        (", image: 'redis:7', command: [redis-server]", True),
        (", image: 'redis:7', command: [sleep, infinity]", False),
        (", image: 'postgres:17', command: [/bin/bash]", False),
        (", image: 'registry.example/trainer:1'", False),
        (", image: 'registry.example/redis-trainer:1'", False),
        (", image: 'registry.example/a:1', args: [--leader-elect]", True),
        (", image: 'registry.example/a:1', args: [--leader-elect=true]", True),
        (", image: 'registry.example/a:1', args: [--leader-elect=false]", False),
    ],
)
def test_controllers_are_known_by_their_images_and_flags(container: str, is_flagged: bool) -> None:
    assert bool(found("OL202", deployment(pod(container)))) is is_flagged


def test_a_controller_may_have_a_second_replica_or_another_node() -> None:
    container = ", image: 'redis:7'"

    assert found("OL202", deployment(pod(container), more="  replicas: 2\n")) == []
    assert found("OL202", deployment(pod(container, selector="{}"))) == []
    assert found("OL202", deployment(pod(container), kind="DaemonSet")) == []
    job = manifest("batch/v1", "Job", f"spec:\n  template: {pod(container)}\n")
    assert found("OL202", job) == []


ANYTHING = "[{operator: Exists}]"


@pytest.mark.parametrize(
    ("template", "is_flagged"),
    [
        (pod(selector="{}", tolerations=ANYTHING), True),
        (pod(selector="{kubernetes.io/os: linux}", tolerations=ANYTHING), True),
        (pod(selector="{}", tolerations="[{operator: Exists, effect: NoSchedule}]"), True),
        (pod(selector="{}", tolerations="[{operator: Exists, effect: NoExecute}]"), False),
        (pod(selector="{}", tolerations="[{key: a, operator: Exists}]"), False),
        (pod(selector="{team: ml}", tolerations=ANYTHING), False),
        (pod(tolerations=ANYTHING), False),
        (pod(selector="{}", tolerations=ANYTHING, nodeName="n1"), False),
        (
            pod(selector="{}", tolerations=ANYTHING, priorityClassName="system-cluster-critical"),
            False,
        ),
    ],
)
def test_a_toleration_without_a_key_needs_a_place(template: str, is_flagged: bool) -> None:
    assert bool(found("OL203", deployment(template))) is is_flagged
    assert found("OL203", deployment(template, kind="DaemonSet")) == []


def test_on_autopilot_nobody_gets_to_spot_by_a_toleration() -> None:
    text = deployment(pod(selector="{}", tolerations=ANYTHING))

    assert found("OL203", text, autopilot=True) == []


CREATE = "gcloud container node-pools create p"


@pytest.mark.parametrize(
    ("flags", "is_flagged"),
    [
        ("--spot", True),
        ("--preemptible", True),
        ("--spot --node-taints=a=b:PreferNoSchedule", True),
        ("--spot --node-taints=a=b:NoSchedule", False),
        ("--spot --node-taints=$TAINTS", False),
        ("--spot --accelerator=type=nvidia-l4,count=1", False),
        ("--spot --machine-type=ct5lp-hightpu-4t", False),
        ("--flex-start", False),
        ("--num-nodes=1", False),
    ],
)
def test_a_spot_pool_needs_a_taint(flags: str, is_flagged: bool) -> None:
    text = manifest("v1", "ConfigMap", "data: {}\n")

    assert bool(found("OL204", text, pools_sh=f"{CREATE} {flags}\n")) is is_flagged


def test_the_place_of_an_untainted_pool_is_what_makes_it_spot() -> None:
    terraform = (
        'resource "google_container_node_pool" "a" {\n  name = "cheap"\n'
        "  node_config {\n    spot = true\n  }\n}\n"
    )

    (finding,) = found("OL204", manifest("v1", "ConfigMap", "data: {}\n"), main_tf=terraform)

    assert (finding.file, finding.line, finding.column) == ("main.tf", 4, 5)
    assert "'cheap'" in finding.message


def test_a_taint_of_terraform_may_have_a_boolean_value() -> None:
    taint = 'taint {\n key = "spot"\n value = true\n effect = "NO_SCHEDULE"\n }'
    terraform = (
        'resource "google_container_node_pool" "a" {\n'
        f" node_config {{\n spot = true\n labels = {{ cheap = true }}\n {taint}\n }}\n}}\n"
    )
    tolerant = pod(
        ", image: 'redis:7'",
        selector="{cheap: 'true'}",
        tolerations="[{key: spot, value: 'true', effect: NoSchedule}]",
    )

    assert found("OL204", deployment(tolerant), main_tf=terraform) == []
    assert len(found("OL202", deployment(tolerant), main_tf=terraform)) == 1


def test_pools_of_autopilot_are_not_ours_to_taint() -> None:
    pool = {"name": "p", "config": {"machineType": "e2-medium", "spot": True}}
    cluster = {"nodePools": [pool], "autopilot": {"enabled": True}}
    text = manifest("v1", "ConfigMap", "data: {}\n")

    assert found("OL204", text, cluster_json=json.dumps(cluster)) == []
    cluster["autopilot"] = {"enabled": False}
    assert len(found("OL204", text, cluster_json=json.dumps(cluster))) == 1
