"""`outlast watch`, `logs`, `stop` and `resume` with a real run on a real control plane."""

import json
import sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from outlast.cli.app import run
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.link import Request
from outlast.cluster.resources import JOBS, PODS, Object
from outlast.cluster.roles import WATCH_RULES
from outlast.measured import open_journal
from tests.patience import eventually
from tests.programs import outlast
from tests.servers.control_plane import ControlPlane, grant
from tests.servers.node_agent import running_node

pytestmark = pytest.mark.needs("control-plane")

# Ends as soon as the file it waits for is there, as a loop whose steps are all done.
PROGRAM = """
import os, sys, time
import outlast
finish = sys.argv[1]
with outlast.Run(os.environ["OUTLAST_RUN_URL"], {"n": 0}, every_steps=5) as run:
    print(f"starting at step {run.step}", flush=True)
    for step in run.steps(10**6):
        time.sleep(0.02)
        if step % 10 == 0:
            print(f"step {step} \\x1b[31mred", flush=True)
        if os.path.exists(finish):
            break
print("done", flush=True)
"""


def _job(namespace: str, folder: Path, **spec: Any) -> Object:
    fields = {"OUTLAST_POD_NAME": "metadata.name", "OUTLAST_POD_UID": "metadata.uid"}
    env: list[dict[str, Any]] = [
        {"name": "OUTLAST_EXIT_CODE", "value": "75"},
        {"name": "OUTLAST_GRACE_SECONDS", "value": "20"},
        {"name": "OUTLAST_RUN_URL", "value": str(folder / "run")},
        {"name": "OUTLAST_TIER", "value": "spot"},
        *(
            {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
            for name, path in fields.items()
        ),
    ]
    main = {
        "name": "main",
        "image": "example.com/train:1",
        "command": [sys.executable, "-c", PROGRAM, str(folder / "finish")],
        "env": env,
    }
    labels = {"app.kubernetes.io/name": "tiny", "app.kubernetes.io/managed-by": "outlast"}
    disruption = [{"type": "DisruptionTarget", "status": "True"}]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "tiny", "namespace": namespace, "labels": labels},
        "spec": {
            "backoffLimit": 3,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": disruption},
                    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}},
                ]
            },
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 25,
                    "nodeSelector": {"pool": namespace},
                    "containers": [main],
                },
            },
            **spec,
        },
    }


def _called(*arguments: str) -> tuple[int, str]:
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(list(arguments))
    return code, out.getvalue() + err.getvalue()


def _watched(*arguments: str) -> dict[str, Any]:
    code, text = _called("watch", *arguments, "--once", "--format", "json")
    assert code == 0, text
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def _evict(admin: ClusterClient, namespace: str, pod: str) -> None:
    metadata = {"name": pod, "namespace": namespace}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    path = PODS.path(namespace, pod, "eviction")
    request = Request(method="POST", path=path, body=json.dumps(body).encode())
    assert admin._link.send(request).status == 201


def test_a_run_is_watched_stopped_and_resumed(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    flags = ("--kubeconfig", str(kubeconfig))
    journal = ("--journal", str(tmp_path / "run"))
    labels = {"pool": namespace}
    with running_node(control_plane, namespace, labels=labels) as agent:
        admin.apply(JOBS, _job(namespace, tmp_path))
        eventually(lambda: len(agent.running()) == 1, "the Pod runs")
        [first] = agent.running()
        with outlast("logs", "tiny", "-f", *flags) as logs:
            logs.wait_for("starting at step 0")
            logs.wait_for("step 10 ")
            _evict(admin, namespace, first)
            # The log goes on with the next Pod, where the run has resumed.
            logs.wait_for("starting at step ")
        [second] = agent.running()
        assert second != first

        view = _watched("tiny", *flags, *journal)
        assert view["state"] == "running"
        assert [one["attempt"] for one in view["attempts"]] == [2, 1]
        assert view["attempts"][0]["pod"] == second
        assert view["progress"]["evictions"] == view["progress"]["evictions_saved"] == 1
        assert view["retries"] == {
            "used": 0,
            "limit": 3,
            "is_per_index": False,
            "by_nodes": 0,
            "by_program": 0,
            "by_unknown": 0,
        }
        assert view["notes"] == []

        code, text = _called("stop", "tiny", "--dry-run", *flags, *journal)
        assert (code, text) == (0, "Job 'tiny' would be stopped\n")
        assert agent.running() == [second]
        code, text = _called("stop", "tiny", *flags, *journal)
        assert code == 0, text
        assert "All work is saved, up to step " in text
        assert agent.running() == []
        assert _called("stop", "tiny", *flags, *journal)[0] == 0

        stopped = _watched("tiny", *flags, *journal)
        assert (stopped["state"], stopped["why"]["cause"]) == ("stopped", "P23")
        assert stopped["why"]["next_step"].startswith("outlast resume tiny")

        code, text = _called("resume", "tiny", *flags)
        assert (code, text) == (0, "Job 'tiny' resumed\n")
        assert "it is not suspended" in _called("resume", "tiny", *flags)[1]
        eventually(lambda: len(agent.running()) == 1, "the resumed Pod runs")
        (tmp_path / "finish").touch()
        with outlast("watch", "tiny", *flags, *journal) as watch:
            assert watch.wait() == 0
        ended = _watched("tiny", *flags, *journal)
        code, text = _called("stop", "tiny", *flags, *journal)

    assert "FINISHED" in watch.lines[-1]
    assert (ended["state"], ended["progress"]["is_finished"]) == ("finished", True)
    assert (code, text) == (0, "Job 'tiny' ended (it has finished)\n")
    # The journal is the true count, whatever Pods are left.
    summary = open_journal(str(tmp_path / "run")).summary
    evictions = summary.interruptions_announced + summary.interruptions_unannounced
    assert ended["progress"]["evictions"] == evictions == 2


def test_why_a_run_waits_is_one_sentence(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    flags = ("--kubeconfig", str(kubeconfig))

    def is_diagnosed() -> bool:
        why = _watched("tiny", *flags)["why"]
        return why is not None and why["cause"] == "P01"

    with running_node(control_plane, namespace):
        admin.apply(JOBS, _job(namespace, tmp_path))
        eventually(is_diagnosed, "the scheduler reports that no node matches")
        code, text = _called("watch", "tiny", "--once", *flags)
        _, table = _called("watch", "--all", "--once", "--namespace", namespace, *flags)
        no_log = _called("logs", "tiny", *flags)

    assert code == 0
    assert no_log[0] == 1 and "No Pod of 'tiny' has started yet" in no_log[1]
    assert "WAITING" in text.splitlines()[0]
    assert "pool" in text
    assert "which is a path inside the Pod" in " ".join(text.split())
    assert table.startswith("1 run: 1 waiting")
    assert f"{namespace}/tiny" in table


def test_a_program_without_access_to_its_bucket_is_found_by_its_log(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    (tmp_path / "run").mkdir()
    flags = ("--kubeconfig", str(kubeconfig), "--journal", str(tmp_path / "run"))
    forbidden = "Forbidden: 403 GET b: trainer does not have storage.objects.list access to b."
    job = _job(namespace, tmp_path)
    [container] = job["spec"]["template"]["spec"]["containers"]
    container["command"] = ["/bin/sh", "-c", f"echo '{forbidden}' >&2; exit 1"]

    def is_diagnosed() -> bool:
        why = _watched("tiny", *flags)["why"]
        return why is not None and why["cause"] == "P42"

    with running_node(control_plane, namespace, labels={"pool": namespace}):
        admin.apply(JOBS, job)
        eventually(is_diagnosed, "the program's log was read")
        _, text = _called("watch", "tiny", "--once", *flags)

    assert "The program has no access to its bucket (403)" in text
    assert forbidden in " ".join(text.split())


@pytest.mark.parametrize("taken", ["events", "workloads", "pods", "jobs", "nodes"])
def test_each_missing_permission_is_named(
    control_plane: ControlPlane,
    admin: ClusterClient,
    namespace: str,
    tmp_path: Path,
    taken: str,
) -> None:
    rules = [
        {**rule, "resources": [one for one in rule["resources"] if one != taken]}
        for rule in WATCH_RULES
    ]
    user = control_plane.new_user()
    grant(admin, user, namespace, [rule for rule in rules if rule["resources"]])
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", user, namespace=namespace)
    admin.apply(JOBS, _job(namespace, tmp_path))

    code, text = _called("watch", "tiny", "--once", "--kubeconfig", str(kubeconfig))
    flat = " ".join(text.split())

    assert "Traceback" not in text
    if taken in ("pods", "jobs"):
        assert code != 0
        assert f'resources: ["{taken}"]' in flat
    else:
        assert code == 0
        # Nodes are for administrators to permit, and never in a Role.
        assert 'Add to a ClusterRole: {apiGroups: [""], resources: ["nodes"]' in flat
    if taken == "events":
        assert 'Add to a Role: {apiGroups: [""], resources: ["events"]' in flat


def test_a_run_that_does_not_exist_is_one_error(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)

    for command in ("watch", "logs", "stop", "resume"):
        code, text = _called(command, "nosuch", "--kubeconfig", str(kubeconfig))

        assert code == 1
        assert f"No run is called 'nosuch' in namespace '{namespace}'." in text
        assert "hint:" in text


WORKLOAD = """
name: moved
kind: training
namespace: {namespace}
image: example.com/train:1
command: [python, train.py]
machine: e2-standard-8
tier: spot
work: {{hours: 5}}
checkpoint: {{url: "gs://runs/moved", size: 1GiB}}
"""


def test_a_run_moves_to_another_tier(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    flags = ("--kubeconfig", str(kubeconfig))
    file = tmp_path / "workload.yaml"
    file.write_text(WORKLOAD.format(namespace=namespace))
    assert _called("submit", str(file), "--setup", *flags)[0] == 0
    moved = ("resume", str(file), "--tier", "on-demand", *flags)

    def job() -> Object:
        found = admin.get(JOBS, "moved", namespace)
        assert found is not None
        return found

    before = job()
    code, text = _called(*moved, "--dry-run")
    assert code == 0, text
    assert "Job 'moved' would be replaced" in text
    assert (job()["metadata"]["uid"], job()["spec"]) == (before["metadata"]["uid"], before["spec"])

    journal = ("--journal", str(tmp_path / "run"))
    code, text = _called("stop", "moved", *flags, *journal)
    # No Pod has ever started.
    assert code == 1 and "It has saved nothing" in text
    code, text = _called(*moved)
    assert code == 0, text
    after = job()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    selectors = [one["spec"]["template"]["spec"].get("nodeSelector") for one in (before, after)]
    assert "cloud.google.com/gke-spot" in selectors[0]
    assert "cloud.google.com/gke-spot" not in (selectors[1] or {})
    assert after["spec"].get("suspend") is not True

    code, text = _called(*moved)
    assert code == 0, text
    assert "Job 'moved' unchanged" in text
    assert job()["metadata"]["uid"] == after["metadata"]["uid"]
    assert _called("resume", "moved", "--tier", "spot", *flags)[0] == 2
