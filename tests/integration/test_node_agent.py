"""Jobs with our failure rules on a real control plane, whose node plays the ways of an eviction."""

import json
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from outlast.cli.app import run
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.link import Request
from outlast.cluster.resources import JOBS, NODES, PODS, Object, Query
from tests.patience import eventually
from tests.servers.control_plane import ControlPlane
from tests.servers.node_agent import NodeAgent, running_node

pytestmark = pytest.mark.needs("control-plane")

# Exits with 75 on SIGTERM, as Outlast does; with 0 as soon as the file it waits for is there.
PROGRAM = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
print("running", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
"""


def _job(namespace: str, finish: Path) -> dict[str, Any]:
    disruption = [{"type": "DisruptionTarget", "status": "True"}]
    main = {
        "name": "main",
        "image": "example.com/train:1",
        "command": [sys.executable, "-c", PROGRAM, str(finish)],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "run", "namespace": namespace},
        "spec": {
            "backoffLimit": 3,
            "podFailurePolicy": {
                "rules": [
                    {"action": "Ignore", "onPodConditions": disruption},
                    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}},
                ]
            },
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 25,
                    "nodeSelector": {"pool": namespace},
                    "containers": [main],
                }
            },
        },
    }


def _start(admin: ClusterClient, agent: NodeAgent, job: dict[str, Any]) -> str:
    """Apply the Job and wait until its program runs and hears signals. The name of its Pod."""
    admin.apply(JOBS, job)
    eventually(lambda: len(agent.running()) == 1, "the Pod of the Job runs")
    [pod] = agent.running()
    eventually(lambda: "running" in agent.log_of(pod), "the program runs")
    return pod


def _pod(admin: ClusterClient, namespace: str, name: str) -> Object:
    found = admin.get(PODS, name, namespace)
    assert found is not None
    return found


def _status(admin: ClusterClient, namespace: str) -> dict[str, Any]:
    found = admin.get(JOBS, "run", namespace)
    assert found is not None
    status = found.get("status") or {}
    assert isinstance(status, dict)
    return status


def _conditions(pod: Object) -> dict[str, str]:
    return {one["type"]: one.get("reason", "") for one in pod["status"].get("conditions") or ()}


def test_a_node_shutdown_is_not_counted_and_the_job_completes(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    finish = tmp_path / "finish"
    labels = {"pool": namespace}
    with running_node(control_plane, f"{namespace}-a", labels=labels) as first:
        pod = _start(admin, first, _job(namespace, finish))
        first.shut_down()
        eventually(
            lambda: _pod(admin, namespace, pod)["status"]["phase"] == "Failed", "the Pod ends"
        )
        ended = _pod(admin, namespace, pod)
        assert ended["status"]["reason"] == "Terminated"
        assert _conditions(ended)["DisruptionTarget"] == "TerminationByKubelet"
        code = ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
        assert code == 75

        with running_node(control_plane, f"{namespace}-b", labels=labels) as second:
            eventually(lambda: len(second.running()) == 1, "the Job starts a new Pod elsewhere")
            finish.touch()
            eventually(lambda: _status(admin, namespace).get("succeeded") == 1, "the Job completes")
    assert not _status(admin, namespace).get("failed")


def test_an_eviction_by_the_api_ends_with_75_and_is_not_counted(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    finish = tmp_path / "finish"
    with running_node(control_plane, namespace, labels={"pool": namespace}) as agent:
        pod = _start(admin, agent, _job(namespace, finish))
        _evict(admin, namespace, pod)
        eventually(
            lambda: [one for one in agent.running() if one != pod], "the Job starts a new Pod"
        )
        assert not _status(admin, namespace).get("failed")
        finish.touch()
        eventually(lambda: _status(admin, namespace).get("succeeded") == 1, "the Job completes")


def _evict(admin: ClusterClient, namespace: str, pod: str) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod, "namespace": namespace},
    }
    path = PODS.path(namespace, pod, "eviction")
    request = Request(method="POST", path=path, body=json.dumps(body).encode())
    assert admin._link.send(request).status == 201


def test_a_machine_that_comes_back_under_its_name_is_counted(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    with running_node(control_plane, namespace, labels={"pool": namespace}) as agent:
        pod = _start(admin, agent, _job(namespace, tmp_path / "never"))
        agent.vanish()
        agent.come_back()

        eventually(lambda: _status(admin, namespace).get("failed") == 1, "the Job counts it")
        ended = _pod(admin, namespace, pod)
        state = ended["status"]["containerStatuses"][0]["state"]["terminated"]
        assert (state["exitCode"], state["reason"]) == (137, "ContainerStatusUnknown")
        assert "DisruptionTarget" not in _conditions(ended)


def test_a_pod_that_the_node_refuses_has_no_condition(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    with running_node(control_plane, namespace, labels={"pool": namespace}) as agent:
        agent.refuse("NodeShutdown")
        admin.apply(JOBS, _job(namespace, tmp_path / "never"))

        eventually(lambda: _status(admin, namespace).get("failed"), "the Job counts the refusal")
        query = Query(resource=PODS, namespace=namespace)
        refused = next(iter(admin.list(query)))
        assert refused["status"]["reason"] == "NodeShutdown"
        assert "DisruptionTarget" not in _conditions(refused)


def test_submit_waits_until_the_work_has_finished(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, tmp_path: Path
) -> None:
    finish, path = tmp_path / "finish", tmp_path / "job.json"
    path.write_text(json.dumps(_job(namespace, finish)))
    kubeconfig = control_plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    words = ["submit", str(path), "--kubeconfig", str(kubeconfig), "--wait"]

    with (
        running_node(control_plane, namespace, labels={"pool": namespace}),
        redirect_stdout(StringIO()),
        redirect_stderr(StringIO()) as err,
    ):
        assert run([*words, "finished", "--timeout", "1s"]) == 1
        assert run([*words, "started"]) == 0
        threading.Timer(0.5, finish.touch).start()
        assert run([*words, "finished"]) == 0
    assert "Not finished in time" in err.getvalue()
    assert f"see why: outlast watch run --namespace {namespace}\n" in err.getvalue()
    assert "Job 'run' finished" in err.getvalue()


def test_the_node_of_a_test_is_gone_at_its_end(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str
) -> None:
    with running_node(control_plane, namespace):
        assert admin.get(NODES, namespace) is not None

    assert admin.get(NODES, namespace) is None
