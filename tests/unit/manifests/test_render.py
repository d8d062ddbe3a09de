"""What holds for every rendering: variables, storage, names, refusals, the same bytes."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from outlast.cli.operate.settings import ALL_SETTINGS
from outlast.manifests.render import RenderError, render
from outlast.worker.settings import QUEUE_URL, SINK_URL
from tests.unit.manifests.render_cases import (
    CASES,
    case,
    rendered,
    workload,
)

JOBS = [name for name in CASES if not name.startswith("serving") and name != "batch-endless"]


@pytest.mark.parametrize("name", JOBS)
def test_a_job_is_told_to_leave_with_75_and_how_long_it_has(name: str) -> None:
    rendering = case(name)

    assert rendering.env["OUTLAST_EXIT_CODE"] == "75"
    grace = rendering.pod["terminationGracePeriodSeconds"]
    assert 3 <= int(rendering.env["OUTLAST_GRACE_SECONDS"]) <= grace


@pytest.mark.parametrize("name", CASES)
def test_every_variable_is_a_setting_that_the_runtime_knows(name: str) -> None:
    known = {setting.variable for setting in (*ALL_SETTINGS, QUEUE_URL, SINK_URL)}
    # What the exporter of metrics will read.
    known.add("OUTLAST_METRICS_PORT")

    ours = {name for name in case(name).env if name.startswith("OUTLAST_")}
    assert ours <= known


@pytest.mark.parametrize("name", CASES)
def test_gpus_have_a_limit_equal_to_the_request(name: str) -> None:
    rendering = case(name)
    resources = rendering.container["resources"]

    wanted = resources.get("requests", {}).get("nvidia.com/gpu")
    assert resources.get("limits", {}).get("nvidia.com/gpu") == wanted
    if not name.startswith("ci") and "cpu" not in name:
        assert wanted is not None


@pytest.mark.parametrize("name", [name for name in CASES if not name.startswith("ci")])
def test_checkpoints_outlive_the_node(name: str) -> None:
    rendering = case(name)

    url = rendering.env.get("OUTLAST_RUN_URL")
    kinds = {key for volume in rendering.pod.get("volumes", []) for key in volume} - {"name"}
    assert "hostPath" not in kinds
    if url is None:
        assert name.startswith(("serving", "batch"))
    elif not url.startswith("gs://"):
        volumes = {volume["name"]: volume for volume in rendering.pod["volumes"]}
        [holding] = [
            volumes[mount["name"]]
            for mount in rendering.container["volumeMounts"]
            if f"{url}/".startswith(f"{mount['mountPath']}/")
        ]
        assert holding.keys() & {"csi", "persistentVolumeClaim"}


def test_fuse_is_annotated_on_the_pod_and_has_time_to_flush() -> None:
    rendering = rendered(storage__kind="fuse", storage__mount="/data")

    template = rendering.templates[0]
    assert template["metadata"]["annotations"] == {"gke-gcsfuse/volumes": "true"}
    assert "annotations" not in rendering.one("Job")["metadata"]
    volume = rendering.pod["volumes"][0]
    assert volume["csi"]["driver"] == "gcsfuse.csi.storage.gke.io"
    assert volume["csi"]["volumeAttributes"]["bucketName"] == "lab-runs"
    assert "only-dir=tiny-gpt" in volume["csi"]["volumeAttributes"]["mountOptions"].split(",")
    assert rendering.env["OUTLAST_RUN_URL"] == "/data"
    grace = rendering.pod["terminationGracePeriodSeconds"]
    assert (grace, rendering.env["OUTLAST_GRACE_SECONDS"]) == (15, "12")


def test_a_claim_is_made_mounted_and_used() -> None:
    rendering = rendered(
        checkpoint__url="file:///mnt/runs/tiny", storage__mount="/mnt/runs", storage__size="50GiB"
    )

    claim = rendering.one("PersistentVolumeClaim")
    assert claim["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "50Gi"
    volume = rendering.pod["volumes"][0]
    assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    mount = rendering.container["volumeMounts"][0]
    assert mount["mountPath"] == "/mnt/runs"
    assert rendering.env["OUTLAST_RUN_URL"] == "/mnt/runs/tiny"


def test_a_claim_that_exists_is_used_as_it_is() -> None:
    rendering = rendered(checkpoint__url="file:///mnt/runs", storage__claim="ours")

    assert rendering.all("PersistentVolumeClaim") == []
    volume = rendering.pod["volumes"][0]
    assert volume["persistentVolumeClaim"]["claimName"] == "ours"


@pytest.mark.parametrize(
    ("interval", "variable", "value"),
    [
        ("500", "OUTLAST_EVERY_STEPS", "500"),
        ("10m", "OUTLAST_EVERY_SECONDS", "600"),
        ("1500ms", "OUTLAST_EVERY_SECONDS", "1.5"),
    ],
)
def test_the_interval_reaches_the_process(interval: str, variable: str, value: str) -> None:
    assert rendered(checkpoint__interval=interval).env[variable] == value


def test_an_automatic_interval_is_left_to_the_process() -> None:
    env = rendered(checkpoint__interval="auto").env

    assert not {"OUTLAST_EVERY_STEPS", "OUTLAST_EVERY_SECONDS"} & env.keys()
    assert not [name for name in env if name.startswith("OUTLAST_PRIOR")]


def test_what_was_measured_of_the_pool_reaches_the_process() -> None:
    measured = {"measured__between_interruptions": "4h", "measured__unannounced": "0.25"}

    env = rendered(tier="spot", nodes="2", **measured).env
    fixed = rendered(tier="spot", checkpoint__interval="10m", **measured).env
    safe = rendered(tier="on-demand", **measured).env

    assert env["OUTLAST_PRIOR_MEAN_SECONDS"] == "7200"
    assert env["OUTLAST_PRIOR_UNANNOUNCED_SHARE"] == "0.25"
    assert env["OUTLAST_PRIOR_WEIGHT"] == "10"
    for other in (fixed, safe):
        assert not [name for name in other if name.startswith("OUTLAST_PRIOR")]


def test_low_priority_is_shared_by_its_value_and_worth_a_node() -> None:
    rendering = rendered(priority="-10")

    priority = rendering.one("PriorityClass")
    assert priority["value"] == -10
    assert priority["preemptionPolicy"] == "Never"
    assert rendering.pod["priorityClassName"] == priority["metadata"]["name"]
    assert rendered(priority="-9").one("PriorityClass")["metadata"] != priority["metadata"]


def test_the_same_workload_gives_the_same_bytes() -> None:
    code = (
        "from tests.unit.manifests.render_cases import CASES, case\n"
        "import hashlib\n"
        "text = ''.join(f.path + f.text for n in CASES for f in case(n).files)\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    root = Path(__file__).parents[3]
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(seen) == 1


def test_the_default_namespace_is_not_created() -> None:
    assert rendered(namespace="default").all("Namespace") == []


def test_a_google_service_account_is_acted_as() -> None:
    email = "trainer@lab-project.iam.gserviceaccount.com"
    rendering = rendered(service_account__google=email)

    annotations = rendering.one("ServiceAccount")["metadata"]["annotations"]
    assert annotations == {"iam.gke.io/gcp-service-account": email}
    assert "roles/iam.workloadIdentityUser" in rendering.text("setup/access.sh")


def test_names_without_a_namespace_do_not_collide_and_fit_into_a_label() -> None:
    long = {"tier": "hybrid", "name": "a" * 40, "namespace": "b" * 40}
    other = {**long, "namespace": "b" * 39 + "c"}

    names = [rendered(**one).one("ComputeClass")["metadata"]["name"] for one in (long, other)]

    assert names[0] != names[1]
    assert all(len(name) <= 63 for name in names)
    assert rendered(**long).pod["nodeSelector"]["cloud.google.com/compute-class"] == names[0]


@pytest.mark.parametrize("name", CASES)
def test_no_file_asks_to_be_ignored(name: str) -> None:
    assert not [file.path for file in case(name).files if "ignore[" in file.text]


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"checkpoint": "", "tier": "spot"}, "'tiny-gpt' cannot resume, so on tier 'spot'"),
        ({"resumable": "false", "tier": "hybrid"}, "cannot resume, so on tier 'hybrid'"),
        (
            {"interruptible": "false", "tier": "spot"},
            "is not interruptible, but nodes of tier 'spot'",
        ),
        ({"tier": "spot", "grace": "25s"}, "A grace period of 25 s is not possible on Spot"),
        (
            {"resumable": "false", "tier": "flex-start", "max_run": "1d"},
            "needs 38 h and cannot resume, but a flex-start node lives only 24 h",
        ),
        (
            {
                "kind": "batch-inference",
                "checkpoint": "",
                "work": "{items: 1000, seconds_per_item: 720}",
                "parallelism": "2",
                "tier": "flex-start",
                "max_run": "1d",
            },
            "needs 100 h and cannot resume",
        ),
        (
            {"storage.kind": "fuse", "grace": "5s"},
            "A grace period of 5 s leaves the process only 2 s",
        ),
    ],
)
def test_what_would_lose_work_is_refused(overrides: dict[str, str], words: str) -> None:
    refused = workload(**{key.replace(".", "__"): value for key, value in overrides.items()})

    with pytest.raises(RenderError, match=words) as caught:
        render(refused)

    assert caught.value.hint


def test_a_shorter_grace_is_taken() -> None:
    assert rendered(grace="10s").pod["terminationGracePeriodSeconds"] == 10
    assert rendered(tier="on-demand", grace="300s").env["OUTLAST_GRACE_SECONDS"] == "300"
