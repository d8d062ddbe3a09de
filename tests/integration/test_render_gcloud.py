"""The rendered scripts, run by the real gcloud against a stand-in for its servers.

gcloud's own parser checks every flag; what it would send to Google is compared with what the
manifests expect of the pool.
"""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.integration.container_stub import ContainerStub
from tests.unit.manifests.render_cases import Rendering, case, rendered

pytestmark = pytest.mark.needs("gcloud")


def run(script: str, folder: Path, stub: ContainerStub) -> "subprocess.CompletedProcess[str]":
    path = folder / "script.sh"
    path.write_text(script)
    (folder / "token").write_text("not-a-token")
    services = ("CONTAINER", "STORAGE", "CLOUDRESOURCEMANAGER", "PUBSUB", "IAM")
    environ = {
        **{f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{service}": stub.url for service in services},
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "CLOUDSDK_CONFIG": str(folder / "gcloud"),
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": str(folder / "token"),
        "CLOUDSDK_CORE_PROJECT": "lab-project",
        "CLOUDSDK_CORE_DISABLE_PROMPTS": "1",
        "CLOUDSDK_CORE_DISABLE_USAGE_REPORTING": "1",
        "CLOUDSDK_COMPONENT_MANAGER_DISABLE_UPDATE_CHECK": "1",
        "CLUSTER": "lab",
        "PROJECT": "lab-project",
    }
    command = ["bash", str(path)]
    return subprocess.run(command, capture_output=True, text=True, env=environ)


def created(rendering: Rendering, folder: Path) -> Any:
    with ContainerStub().running() as stub:
        done = run(rendering.text("setup/node-pool.sh"), folder, stub)
        assert done.returncode == 0, done.stderr
        return stub.node_pool


def test_the_spot_pool_is_spot_and_carries_the_taint_that_is_tolerated(tmp_path: Path) -> None:
    rendering = case("training")

    pool = created(rendering, tmp_path)

    assert pool["config"]["spot"] is True
    assert pool["config"]["machineType"] == "g2-standard-24"
    [accelerator] = pool["config"]["accelerators"]
    assert accelerator["acceleratorType"] == "nvidia-l4"
    assert accelerator["acceleratorCount"] == "2"
    [taint] = pool["config"]["taints"]
    [toleration] = rendering.pod["tolerations"]
    assert (taint["key"], taint["value"]) == (toleration["key"], toleration["value"])
    assert (taint["effect"], toleration["effect"]) == ("NO_SCHEDULE", "NoSchedule")
    scaling = pool["autoscaling"]
    assert (scaling["enabled"], scaling["totalMaxNodeCount"]) == (True, 1)
    assert pool["initialNodeCount"] == 0


def test_the_queued_flex_start_pool_has_its_lease(tmp_path: Path) -> None:
    pool = created(rendered(tier="flex-start", cluster__kueue__queue="lab", max_run="2d"), tmp_path)

    assert pool["config"]["flexStart"] is True
    assert pool["config"]["maxRunDuration"] == "172800s"
    assert pool["config"]["reservationAffinity"] == {"consumeReservationType": "NO_RESERVATION"}
    assert pool["queuedProvisioning"] == {"enabled": True}
    assert pool["management"]["autoRepair"] is False
    assert "spot" not in pool["config"] and "taints" not in pool["config"]


def test_a_listed_pool_is_created_with_its_own_taints_and_labels(tmp_path: Path) -> None:
    listed = (
        "[{name: ours, tier: on-demand, max_nodes: 7, labels: {team: vision, tier: '1'},"
        " taints: [{key: team, value: vision}, {key: only, effect: NoExecute}]}]"
    )
    rendering = rendered(tier="on-demand", cluster__pools=listed, cluster__name="lab")

    pool = created(rendering, tmp_path)

    assert pool["name"] == "ours"
    assert pool["config"]["labels"] == {"team": "vision", "tier": "1"}
    assert {(t["key"], t.get("value", ""), t["effect"]) for t in pool["config"]["taints"]} == {
        ("team", "vision", "NO_SCHEDULE"),
        ("only", "", "NO_EXECUTE"),
    }
    assert pool["autoscaling"]["totalMaxNodeCount"] == 7
    assert {"team": "vision", "tier": "1"}.items() <= rendering.pod["nodeSelector"].items()


def test_gcloud_refuses_a_flag_that_does_not_exist(tmp_path: Path) -> None:
    script = case("training").text("setup/node-pool.sh").replace("--spot", "--spott")

    with ContainerStub().running() as stub:
        done = run(script, tmp_path, stub)

    assert done.returncode == 2
    assert stub.requests == []


def test_access_is_granted_to_the_account_that_the_pods_use(tmp_path: Path) -> None:
    rendering = case("batch-pubsub")

    with ContainerStub().running() as stub:
        done = run(rendering.text("setup/access.sh"), tmp_path, stub)

    assert done.returncode == 0, done.stderr
    sent = [binding for _, _, body in stub.requests for binding in _bindings(body)]
    granted = [(binding["role"], member) for binding in sent for member in binding["members"]]
    account = rendering.one("ServiceAccount")["metadata"]
    member = (
        "principal://iam.googleapis.com/projects/123456/locations/global/workloadIdentityPools/"
        f"lab-project.svc.id.goog/subject/ns/{account['namespace']}/sa/{account['name']}"
    )
    assert granted == [("roles/storage.objectUser", member), ("roles/pubsub.subscriber", member)]
    assert sent[0]["condition"]["expression"] == (
        'resource.name.startsWith("projects/_/buckets/lab-results/objects/embed/") || '
        'api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith("embed/")'
    )


def test_the_driver_that_mounts_a_folder_may_list_its_bucket(tmp_path: Path) -> None:
    with ContainerStub().running() as stub:
        done = run(case("training-fuse").text("setup/access.sh"), tmp_path, stub)

    assert done.returncode == 0, done.stderr
    sent = [binding for _, _, body in stub.requests for binding in _bindings(body)]
    assert [(binding["role"], "condition" in binding) for binding in sent] == [
        ("roles/storage.objectUser", True),
        ("roles/storage.legacyBucketReader", False),
    ]


def _bindings(body: Any) -> list[Any]:
    if not body:
        return []
    return list(body.get("bindings") or body.get("policy", {}).get("bindings") or [])
