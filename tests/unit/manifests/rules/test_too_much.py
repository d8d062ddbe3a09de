"""Too much at once: what counts against completions, pools and quota, and what is not known."""

import pytest

from outlast.manifests.lint.engine.configuration import LintOptions
from tests.unit.manifests.lint.linted import fixed, lines, manifest, only, report

NAMED = "nodeSelector: {cloud.google.com/gke-nodepool: a}"
EITHER = (
    "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
    "{nodeSelectorTerms: [{matchExpressions: "
    "[{key: cloud.google.com/gke-nodepool, operator: In, values: [a, b]}]}]}}}"
)
SPOT = 'nodeSelector: {cloud.google.com/gke-spot: "true"}'


def job(spec: str = "", pod: str = SPOT, gpus: int = 1) -> str:
    return manifest(
        "batch/v1",
        "Job",
        f"spec:\n{spec}  template:\n    spec:\n      restartPolicy: Never\n      {pod}\n"
        "      containers:\n      - name: a\n        image: a:1\n"
        f"        resources: {{limits: {{nvidia.com/gpu: {gpus}}}}}\n",
    )


def parallel(pods: int) -> str:
    return f"  parallelism: {pods}\n  completions: {pods}\n"


def test_what_has_nothing_to_do_is_not_started() -> None:
    text = job("  parallelism: 8\n  completions: 2\n")

    assert lines(report(text), "OL602") == [("OL602", 5)]
    assert fixed(text, options=LintOptions(select=("OL602",))) == job(parallel(2))
    for spec in (parallel(8), "  parallelism: 8\n", "  completions: 2\n", ""):
        assert lines(report(job(spec)), "OL602") == []


POOL = (
    "gcloud container node-pools create a --spot --enable-autoscaling "
    "--machine-type=g2-standard-24 {}\n"
)


@pytest.mark.parametrize(
    ("flags", "pods", "gpus", "is_flagged"),
    [
        # Two GPUs come with the machine, so two Pods with one each share a node.
        ("--total-max-nodes=4", 8, 1, False),
        ("--total-max-nodes=4", 9, 1, True),
        ("--total-max-nodes=4", 4, 2, False),
        ("--total-max-nodes=4", 5, 2, True),
        ("--total-max-nodes=4", 1, 4, True),
        # --max-nodes is for each zone.
        ("--max-nodes=4 --zone=us-central1-a", 9, 1, True),
        ("--max-nodes=4 --node-locations=us-central1-a,us-central1-b", 16, 1, False),
        ("--max-nodes=4 --node-locations=us-central1-a,us-central1-b", 17, 1, True),
        # Without a word about zones there may be up to four.
        ("--max-nodes=4 --region=us-central1", 32, 1, False),
        ("--max-nodes=4 --region=us-central1", 33, 1, True),
        ("", 1000, 1, False),
    ],
)
def test_a_pool_has_so_many_nodes_and_no_more(
    flags: str, pods: int, gpus: int, is_flagged: bool
) -> None:
    found = report(job(parallel(pods), NAMED, gpus), pools_sh=POOL.format(flags))

    assert bool(lines(found, "OL603")) is is_flagged


def test_a_second_pool_gives_more_room() -> None:
    one = POOL.format("--total-max-nodes=4")
    other = one.replace("create a", "create b")

    assert lines(report(job(parallel(9), EITHER), pools_sh=one), "OL603") != []
    assert lines(report(job(parallel(9), EITHER), pools_sh=one + other), "OL603") == []


def test_a_pod_that_may_run_elsewhere_is_not_held_against_a_pool() -> None:
    pools = POOL.format("--total-max-nodes=1")
    anywhere = job(parallel(50), pod="enableServiceLinks: false")
    by_class = job(parallel(50), pod="nodeSelector: {cloud.google.com/compute-class: mine}")

    # The script may create only some of the Spot pools.
    assert lines(report(job(parallel(50)), pools_sh=pools), "OL603") == []
    assert lines(report(anywhere, pools_sh=pools), "OL603") == []
    assert lines(report(by_class, pools_sh=pools), "OL603") == []


def test_cpus_are_not_counted() -> None:
    found = report(job(parallel(50), gpus=0), pools_sh=POOL.format("--total-max-nodes=1"))

    assert lines(found, "OL603") == []


WORKLOAD = """\
name: a
kind: ci
image: registry.example/a:1
command: [make, test]
cluster: {{quota: {}}}
"""


@pytest.mark.parametrize(
    ("quota", "pod", "pods", "is_flagged"),
    [
        ("{preemptible: 8}", SPOT, 8, False),
        ("{preemptible: 8}", SPOT, 9, True),
        ("{preemptible: 0}", SPOT, 1, True),
        ("{on_demand: 1}", SPOT, 9, False),
        ("{on_demand: 1}", SPOT.replace("spot", "flex-start"), 9, False),
        ("{preemptible: 1}", SPOT.replace("spot", "flex-start"), 9, True),
        ("{on_demand: 1}", "nodeSelector: {cloud.google.com/gke-provisioning: standard}", 9, True),
        ("{preemptible: 1}", "enableServiceLinks: false", 9, False),
    ],
)
def test_the_quota_of_the_workload_file_counts(
    quota: str, pod: str, pods: int, is_flagged: bool
) -> None:
    found = report(job(parallel(pods), pod=pod), workload_yaml=WORKLOAD.format(quota))

    assert bool(lines(found, "OL604")) is is_flagged


def test_a_class_of_several_tiers_may_use_both_quotas() -> None:
    compute_class = manifest(
        "cloud.google.com/v1",
        "ComputeClass",
        "spec:\n  priorities:\n  - {machineFamily: g2, spot: true}\n  - {machineFamily: g2}\n",
    )
    text = job(parallel(9), pod="nodeSelector: {cloud.google.com/compute-class: x}")

    def found(quota: str) -> list[tuple[str, int]]:
        workload = WORKLOAD.format(quota)
        return lines(report(text, compute_class, workload_yaml=workload), "OL604")

    assert found("{preemptible: 8, on_demand: 0}") != []
    assert found("{preemptible: 8, on_demand: 1}") == []
    assert found("{preemptible: 8}") == []


def test_the_parts_of_a_job_set_are_added_up() -> None:
    part = (
        "  - name: {}\n    replicas: 2\n    template:\n      spec:\n        parallelism: 2\n"
        "        completions: 2\n        template:\n          spec:\n            " + SPOT + "\n"
        "            containers:\n            - name: a\n              image: a:1\n"
        "              resources: {{limits: {{nvidia.com/gpu: 1}}}}\n"
    ).replace('{cloud.google.com/gke-spot: "true"}', '{{cloud.google.com/gke-spot: "true"}}')
    text = manifest(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "spec:\n  replicatedJobs:\n" + part.format("leaders") + part.format("workers"),
    )

    finding = only(report(text, workload_yaml=WORKLOAD.format("{preemptible: 7}")), "OL604")

    assert (
        finding.message == "8 accelerators are requested at once, but the preemptible quota is 7."
    )


def resources(text: str) -> str:
    return manifest(
        "v1",
        "Pod",
        f"spec:\n  containers:\n  - name: a\n    image: a:1\n    resources:\n{text}",
    )


@pytest.mark.parametrize(
    ("requests", "limits", "is_flagged"),
    [
        ("{nvidia.com/gpu: 1}", "{}", True),
        ("{nvidia.com/gpu: 1}", "{nvidia.com/gpu: 2}", True),
        ("{nvidia.com/gpu: 1}", '{nvidia.com/gpu: "1"}', False),
        ("{google.com/tpu: 4}", "{cpu: 1}", True),
        ("{cpu: 1, memory: 1Gi, hugepages-2Mi: 2Mi}", "{}", False),
        ("{}", "{nvidia.com/gpu: 1}", False),
        ("{nvidia.com/gpu: [1]}", "{}", False),
    ],
)
def test_a_device_has_a_limit_equal_to_its_request(
    requests: str, limits: str, is_flagged: bool
) -> None:
    text = resources(f"      requests: {requests}\n      limits: {limits}\n")

    assert bool(lines(report(text), "OL605")) is is_flagged


def test_the_limit_that_is_missing_is_the_request() -> None:
    request = "      requests:\n        nvidia.com/gpu: 2\n"
    limits = "      limits:\n        cpu: 1\n"

    assert fixed(resources(request)) == resources(
        request + "      limits:\n        nvidia.com/gpu: 2\n"
    )
    assert fixed(resources(request + limits)) == resources(
        request + limits + "        nvidia.com/gpu: 2\n"
    )
