"""What runs: Jobs, JobSets and Deployments of every kind, their queues and budgets."""

from typing import Any

import pytest

from outlast.manifests.conventions import INTERRUPTED_CODE
from outlast.manifests.render.resolved import RenderError
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
    assert spec["backoffLimitPerIndex"] == 2 + 10
    assert "backoffLimit" not in spec


def test_workers_of_a_batch_are_replaced_and_fail_one_by_one() -> None:
    spec = rendered(BATCH).one("Job")["spec"]

    assert (spec["completionMode"], spec["completions"], spec["parallelism"]) == ("Indexed", 3, 3)
    assert spec["backoffLimitPerIndex"] == 3 + 10
    assert "backoffLimit" not in spec


@pytest.mark.parametrize(
    ("overrides", "limit"),
    [
        ({"tier": "spot"}, 3 + 10),
        ({"tier": "spot", "retries": "7"}, 7 + 10),
        ({"tier": "hybrid"}, 3 + 10),
        ({"tier": "hybrid", "hybrid__order": "[flex-start, on-demand]"}, 3),
        ({"tier": "flex-start"}, 3),
        ({"tier": "on-demand"}, 3),
        # Whoever allows no failure wants the Job to end with the first one.
        ({"tier": "spot", "retries": "0"}, 0),
    ],
)
def test_spot_has_a_reserve_for_evictions_that_look_like_failures(
    overrides: dict[str, str], limit: int
) -> None:
    assert rendered(**overrides).one("Job")["spec"]["backoffLimit"] == limit


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
    assert config["spec"]["retryStrategy"]["backoffLimitCount"] == 100
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
    assert jobset["spec"]["failurePolicy"]["maxRestarts"] == 3 + 10
    assert jobset["spec"]["failurePolicy"]["restartStrategy"] == "BlockingRecreate"
    host, _, port = rendering.env["PET_RDZV_ENDPOINT"].partition(":")
    assert host == f"big-{group['name']}-0-0.{service['metadata']['name']}"
    assert int(port) == service["spec"]["ports"][0]["port"]
    assert rendering.env["OUTLAST_RUN_URL"] == "gs://lab-runs/big"


def test_several_nodes_are_not_preempted_by_every_other_pod() -> None:
    assert rendered(MULTI_NODE).one("PriorityClass")["value"] == 0
    assert rendered(MULTI_NODE, priority="7").one("PriorityClass")["value"] == 7
    assert rendered().one("PriorityClass")["value"] == -5


def test_a_negative_priority_is_refused_for_several_nodes() -> None:
    with pytest.raises(RenderError, match="Priority -10 does not work with several nodes"):
        rendered(MULTI_NODE, priority="-10")


def test_a_rollout_waits_for_the_startup_probe_and_drains_ignore_pods_that_are_not_ready() -> None:
    rendering = rendered(SERVING)

    probe = rendering.container["startupProbe"]
    deadline = rendering.one("Deployment")["spec"]["progressDeadlineSeconds"]
    assert deadline > probe["periodSeconds"] * probe["failureThreshold"]
    for name in ("serving", "multi-node-kueue"):
        budget = case(name).one("PodDisruptionBudget")["spec"]
        assert budget["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


def test_work_that_nears_its_lease_comes_with_a_caution() -> None:
    def caution(hours: str) -> bool:
        text = rendered(
            tier="flex-start", cluster__kueue__queue="lab", work__hours=hours, max_run="48h"
        ).text("50-job.yaml")
        return "Kueue deactivates" in " ".join(text.replace("#", " ").split())

    assert [caution("38"), caution("39"), caution("60")] == [False, True, True]


EXEC = ["outlast", "exec", "--"]


@pytest.mark.parametrize(
    ("command", "launched"),
    [
        ("[python, train.py, -u]", ["torchrun", "train.py", "-u"]),
        ("[python3.12, -m, lab.train]", ["torchrun", "-m", "lab.train"]),
        (
            "[/opt/venv/bin/python, train.py]",
            ["/opt/venv/bin/python", "-m", "torch.distributed.run", "train.py"],
        ),
        ("[python, -u, train.py]", ["torchrun", "--no-python", "python", "-u", "train.py"]),
        ("[outlast, exec, --, python, train.py]", ["torchrun", "train.py"]),
        ("[torchrun, train.py]", ["torchrun", "train.py"]),
        ("[accelerate, launch, train.py]", ["accelerate", "launch", "train.py"]),
        ("[bash, run.sh]", ["bash", "run.sh"]),
    ],
)
def test_a_command_on_several_nodes_is_launched_under_outlast_exec(
    command: str, launched: list[str]
) -> None:
    rendering = rendered(MULTI_NODE, command=command)

    assert rendering.container["command"] == [*EXEC, *launched]
    # A script that runs torchrun takes its options from here too.
    assert rendering.env["PET_NNODES"] == "4"


def test_the_launcher_of_the_workload_decides() -> None:
    program = rendered(MULTI_NODE, launcher="torchrun", command="[/app/train, --fast]")
    single = rendered(launcher="torchrun")
    trial = rendered(SWEEP, launcher="torchrun")

    assert program.container["command"] == [
        *EXEC,
        "torchrun",
        "--no-python",
        "/app/train",
        "--fast",
    ]
    assert case("multi-node-jax").container["command"] == ["python", "train.py", "--layers", "48"]
    assert single.container["command"] == [*EXEC, "torchrun", "train.py"]
    assert (single.env["PET_NNODES"], single.env["PET_NPROC_PER_NODE"]) == ("1", "2")
    assert "PET_RDZV_ENDPOINT" not in single.env
    assert trial.container["command"] == [*EXEC, "torchrun", "trial.py"]
    assert "PET_NNODES" not in rendered().env


def test_torchrun_kills_its_ranks_before_the_pod_is_killed() -> None:
    for name in ("multi-node", "multi-node-kueue", "multi-node-fuse", "training-torchrun"):
        env = case(name).env
        timeout = int(env["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"])
        assert timeout == int(env["OUTLAST_GRACE_SECONDS"]) - 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--max-restarts, 2", "--max-restarts 2 would restart ranks that stop for an eviction"),
        ("--max_restarts=2", "--max-restarts 2 would restart ranks that stop for an eviction"),
        ("--shutdown-timeout=16", "--shutdown-timeout 16 is longer than the 15 s that the Pod"),
        ("--standalone", "--standalone would start a separate run on each of the 4 nodes"),
    ],
)
def test_an_option_that_would_lose_an_eviction_is_refused(options: str, message: str) -> None:
    with pytest.raises(RenderError, match=message):
        rendered(MULTI_NODE, command=f"[torchrun, {options}, train.py]")


def test_other_options_of_torchrun_are_kept() -> None:
    command = "[torchrun, --max-restarts, 0, --tee, 3, train.py, --max-restarts, 7]"
    steady = rendered(tier="on-demand", command="[torchrun, --max-restarts, 2, train.py]")

    words = rendered(MULTI_NODE, command=command).container["command"]
    assert words == [*EXEC, *command.strip("[]").split(", ")]
    assert "--max-restarts" in steady.container["command"]


@pytest.mark.needs("torch")
def test_torchrun_takes_its_options_from_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch.distributed.run import config_from_args, get_args_parser

    rendering = rendered(MULTI_NODE)
    for name, value in rendering.env.items():
        if name.startswith(("PET_", "TORCH_")) and isinstance(value, str):
            monkeypatch.setenv(name, value.replace("$(JOBSET_RESTART_ATTEMPT)", "2"))
    # The index of the Pod and the attempt come from the API server.
    monkeypatch.setenv("PET_NODE_RANK", "3")

    options = get_args_parser().parse_args(rendering.container["command"][len(EXEC) + 1 :])
    config, _, words = config_from_args(options)

    assert (config.min_nodes, config.max_nodes, config.nproc_per_node) == (4, 4, 8)
    assert (config.rdzv_backend, config.run_id, config.max_restarts) == ("static", "big-2", 0)
    assert config.rdzv_endpoint == rendering.env["PET_RDZV_ENDPOINT"]
    assert (config.rdzv_configs["rank"], config.rdzv_configs["timeout"]) == (3, "86400")
    assert config.shutdown_timeout == 13
    assert words[-3:] == ["train.py", "--layers", "48"]


def test_the_pods_learn_their_index_and_attempt_from_their_metadata() -> None:
    rendering = rendered(MULTI_NODE)

    def path(name: str) -> str:
        found: str = rendering.env[name]["fieldRef"]["fieldPath"]
        return found

    index, attempt = (
        "batch.kubernetes.io/job-completion-index",
        "jobset.sigs.k8s.io/restart-attempt",
    )
    assert path("PET_NODE_RANK") == f"metadata.annotations['{index}']"
    assert path("JOBSET_RESTART_ATTEMPT") == f"metadata.labels['{attempt}']"
    assert rendering.env["PET_RDZV_ID"] == "big-$(JOBSET_RESTART_ATTEMPT)"
    # Kubernetes expands a variable only from those that come before it.
    names = list(rendering.env)
    assert names.index("JOBSET_RESTART_ATTEMPT") < names.index("PET_RDZV_ID")


def test_a_shell_is_not_left_as_the_first_process() -> None:
    rendering = rendered(command="[/bin/bash, -c, 'python a.py && python b.py']")

    command = rendering.container["command"]
    assert command == ["outlast", "exec", "--", "/bin/bash", "-c", "python a.py && python b.py"]


def test_ci_that_is_sharded_has_an_index() -> None:
    spec = rendered(CI, parallelism="4").one("Job")["spec"]

    assert (spec["completionMode"], spec["completions"]) == ("Indexed", 4)
    assert spec["ttlSecondsAfterFinished"] == 86_400
