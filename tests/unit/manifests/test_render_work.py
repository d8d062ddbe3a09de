"""What runs: Jobs, JobSets and Deployments of every kind, their queues and budgets."""

from typing import Any

import pytest

from outlast.manifests.conventions import INTERRUPTED_CODE
from tests.unit.manifests.render_cases import (
    BATCH,
    CASES,
    CI,
    MULTI_NODE,
    SERVING,
    SWEEP,
    Rendering,
    case,
    rendered,
)

JOBS = [name for name in CASES if not name.startswith("serving") and name != "batch-endless"]


def job_specs(rendering: Rendering) -> list[Any]:
    inner = [
        one["template"]["spec"]
        for jobset in rendering.all("JobSet")
        for one in jobset["spec"]["replicatedJobs"]
    ]
    return [one["spec"] for one in rendering.all("Job")] + inner


@pytest.mark.parametrize("name", JOBS)
def test_a_job_forgives_disruption_first_and_code_75_second(name: str) -> None:
    for spec in job_specs(case(name)):
        first, second = spec["podFailurePolicy"]["rules"]
        expected = "FailJob" if name.startswith("multi-node") else "Ignore"
        assert first["action"] == second["action"] == expected
        assert first["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
        assert second["onExitCodes"] == {
            "containerName": "main",
            "operator": "In",
            "values": [INTERRUPTED_CODE],
        }
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
        assert spec["podReplacementPolicy"] == "Failed"


def test_a_sweep_counts_failures_per_trial() -> None:
    spec = rendered(SWEEP, retries="2").one("Job")["spec"]

    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 10, 4)
    assert spec["backoffLimitPerIndex"] == 2
    assert "backoffLimit" not in spec


def test_queued_trials_are_shared_out_over_small_jobs_without_gap_or_overlap() -> None:
    rendering = case("sweep-kueue")

    jobs = rendering.all("Job")
    trials: list[int] = []
    for job in jobs:
        env = {one["name"]: one.get("value") for one in containers(job)[0]["env"]}
        first = int(env["TRIAL_OFFSET"])
        trials += range(first, first + job["spec"]["completions"])
        assert env["OUTLAST_RUN_URL"] == f"gs://lab-runs/rates/from-{first}"
        assert job["spec"]["parallelism"] == 1
    assert len(jobs) == 4
    assert trials == list(range(10))


def test_several_pods_can_start_together_in_a_queued_job() -> None:
    jobs = rendered(
        SWEEP,
        tier="flex-start",
        cluster__kueue__queue="lab",
        cluster__kueue__pods_per_job="3",
    ).all("Job")

    assert [job["spec"]["parallelism"] for job in jobs] == [3, 3]
    assert [job["spec"]["completions"] for job in jobs] == [5, 5]


def containers(job: Any) -> list[Any]:
    found: list[Any] = job["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("name", [name for name in CASES if "kueue" in name])
def test_kueue_is_told_on_the_job_and_the_chain_of_queues_is_whole(name: str) -> None:
    rendering = case(name)

    for job in rendering.all("Job") + rendering.all("JobSet"):
        metadata = job["metadata"]
        assert metadata["labels"]["kueue.x-k8s.io/queue-name"] == "research"
        annotations = metadata["annotations"]
        assert annotations["provreq.kueue.x-k8s.io/maxRunDurationSeconds"] == "604800"
        assert job["spec"]["suspend"] is True
    for template in rendering.templates:
        assert "provreq" not in str(template["metadata"])
    local = rendering.one("LocalQueue")
    assert local["metadata"]["name"] == "research"
    queue = rendering.one("ClusterQueue")
    assert local["spec"]["clusterQueue"] == queue["metadata"]["name"]
    selector = queue["spec"]["namespaceSelector"]["matchLabels"]
    assert selector == {"kubernetes.io/metadata.name": local["metadata"]["namespace"]}
    [check] = queue["spec"]["admissionChecksStrategy"]["admissionChecks"]
    admission = rendering.one("AdmissionCheck")
    assert check["name"] == admission["metadata"]["name"]
    config = rendering.one("ProvisioningRequestConfig")
    assert admission["spec"]["parameters"]["name"] == config["metadata"]["name"]
    assert config["spec"]["provisioningClassName"] == "queued-provisioning.gke.io"
    [flavor] = queue["spec"]["resourceGroups"][0]["flavors"]
    assert flavor["name"] == rendering.one("ResourceFlavor")["metadata"]["name"]


def test_queues_that_exist_are_only_used() -> None:
    rendering = rendered(
        tier="flex-start", cluster__kueue__queue="lab", cluster__kueue__setup="false"
    )

    assert rendering.all("ClusterQueue") == rendering.all("LocalQueue") == []
    assert rendering.one("Job")["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lab"
    [rule] = [r for r in rendering.rules if r["alert"] == "OutlastQueuedInKueue"]
    assert "cluster_queue=" not in rule["expr"]


def test_workers_each_finish_and_get_queue_and_sink() -> None:
    rendering = rendered(BATCH)

    spec = rendering.one("Job")["spec"]
    assert (spec["completions"], spec["parallelism"]) == (3, 3)
    assert rendering.env["OUTLAST_QUEUE_URL"] == {
        "secretKeyRef": {"name": "database", "key": "url"}
    }
    assert rendering.env["OUTLAST_SINK_URL"] == "gs://lab-results/embed"


def test_endless_work_is_a_deployment() -> None:
    rendering = case("batch-endless")

    assert rendering.all("Job") == []
    assert rendering.one("Deployment")["spec"]["replicas"] == 3
    assert "restartPolicy" not in rendering.pod


def test_a_server_has_probes_a_budget_and_a_rolling_update() -> None:
    rendering = rendered(SERVING)

    deployment, service = rendering.one("Deployment"), rendering.one("Service")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert rendering.container[probe]["httpGet"] == {"path": "/health", "port": "http"}
    ports = {port["name"]: port["containerPort"] for port in rendering.container["ports"]}
    assert ports["http"] == 8000
    budget = rendering.one("PodDisruptionBudget")["spec"]
    assert budget["maxUnavailable"] == 1
    assert budget["selector"]["matchLabels"].items() <= labels.items()
    assert "priorityClassName" not in rendering.pod
    sleep = rendering.container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert 0 < sleep < rendering.pod["terminationGracePeriodSeconds"]


def test_a_single_replica_gets_no_budget_that_would_block_drains() -> None:
    assert rendered(SERVING, serving__replicas="1").all("PodDisruptionBudget") == []


def test_a_budget_over_a_job_is_an_integer_and_only_where_it_works() -> None:
    budget = case("multi-node-kueue").one("PodDisruptionBudget")["spec"]

    assert budget["minAvailable"] == 4
    assert "maxUnavailable" not in budget
    for name, (_, overrides) in CASES.items():
        if not name.startswith("serving") and "interruptible" not in overrides:
            assert case(name).all("PodDisruptionBudget") == [], name


def test_several_nodes_meet_by_name_and_restart_together() -> None:
    rendering = rendered(MULTI_NODE)

    jobset, service = rendering.one("JobSet"), rendering.one("Service")
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {
        "jobset.sigs.k8s.io/jobset-name": jobset["metadata"]["name"]
    }
    assert jobset["spec"]["network"]["subdomain"] == service["metadata"]["name"]
    [group] = jobset["spec"]["replicatedJobs"]
    spec = group["template"]["spec"]
    assert (spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (4, 4, 0)
    assert spec["completionMode"] == "Indexed"
    [rule] = jobset["spec"]["failurePolicy"]["rules"]
    assert rule["action"] == "RestartJobSetAndIgnoreMaxRestarts"
    assert rule["onJobFailureReasons"] == ["PodFailurePolicy"]
    assert jobset["spec"]["failurePolicy"]["maxRestarts"] == 3
    host, _, port = rendering.env["PET_RDZV_ENDPOINT"].partition(":")
    assert host == f"big-{group['name']}-0-0.{service['metadata']['name']}"
    assert int(port) == service["spec"]["ports"][0]["port"]
    assert rendering.container["command"] == ["torchrun", "train.py", "--layers", "48"]
    assert "WORLD_SIZE" in rendering.text("50-jobset.yaml")


def test_a_command_that_is_torchrun_already_is_kept() -> None:
    rendering = rendered(MULTI_NODE, command="[torchrun, --max-restarts, 2, train.py]")

    assert rendering.container["command"] == ["torchrun", "--max-restarts", "2", "train.py"]


@pytest.mark.needs("torch")
def test_torchrun_takes_its_options_from_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.run import get_args_parser

    rendering = rendered(MULTI_NODE)
    for name, value in rendering.env.items():
        if name.startswith("PET_"):
            monkeypatch.setenv(name, value)

    options = get_args_parser().parse_args(rendering.container["command"][1:])

    assert (options.nnodes, options.nproc_per_node) == ("4", "8")
    assert (options.rdzv_backend, options.rdzv_id) == ("c10d", "big")
    assert options.rdzv_endpoint == rendering.env["PET_RDZV_ENDPOINT"]
    assert options.rdzv_conf == "join_timeout=3600"
    assert options.training_script_args == ["--layers", "48"]


def test_a_shell_is_not_left_as_the_first_process() -> None:
    rendering = rendered(command="[/bin/bash, -c, 'python a.py && python b.py']")

    command = rendering.container["command"]
    assert command == ["outlast", "exec", "--", "/bin/bash", "-c", "python a.py && python b.py"]


def test_ci_that_is_sharded_has_an_index() -> None:
    spec = rendered(CI, parallelism="4").one("Job")["spec"]

    assert (spec["completionMode"], spec["completions"]) == ("Indexed", 4)
    assert spec["ttlSecondsAfterFinished"] == 86_400
