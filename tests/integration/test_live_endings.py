"""How attempts end, on a real control plane: the diagnosis on the Pod, and what the Job counts."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.resources import NODES, PODS, PRIORITY_CLASSES
from tests.patience import eventually
from tests.servers.control_plane import ControlPlane
from tests.servers.live_run import IGNORES, SAVES, SUCCEEDS, WAITS, LiveRun, live_run

pytestmark = pytest.mark.needs("control-plane")


@pytest.fixture
def run(control_plane: ControlPlane, admin: ClusterClient, namespace: str) -> Iterator[LiveRun]:
    with live_run(control_plane, admin, namespace) as live:
        yield live


def _is_accounted(run: LiveRun, *, failed: int) -> None:
    """The Job has taken note of all ended Pods, and has counted so many."""

    def is_done() -> bool:
        status = run.status()
        return not status.get("active") and not status.get("uncountedTerminatedPods")

    eventually(is_done, "the Job has accounted for its Pods")
    assert run.status().get("failed", 0) == failed


@pytest.mark.parametrize(
    ("script", "cause", "summary"),
    [
        pytest.param(
            SAVES,
            "E01",
            "Its node was shut down, as for a Spot reclaim; it exited after saving.",
            id="saved",
        ),
        pytest.param(
            SUCCEEDS,
            "E02",
            "It exited with 0 while its node was shut down, so the Job counts it as finished.",
            id="exit 0",
        ),
        pytest.param(
            IGNORES,
            "E03",
            "Its node was shut down, and it was killed before it exited.",
            id="killed",
        ),
    ],
)
def test_a_node_that_shuts_down(run: LiveRun, script: str, cause: str, summary: str) -> None:
    agent = run.node()
    run.job(script)
    pod = run.started(agent)
    agent.shut_down(window_seconds=2 if cause == "E03" else 15)

    run.ends(pod, cause, summary, is_counted=False)
    _is_accounted(run, failed=0)
    # Exit 0 is taken for success: this is why Outlast exits with 75.
    assert run.status().get("succeeded", 0) == (1 if cause == "E02" else 0)


def test_a_node_that_is_gone_without_notice(run: LiveRun) -> None:
    agent = run.node()
    run.job()
    pod = run.started(agent)
    agent.vanish()
    run.delete_node(agent.name)

    run.ends(pod, "E04", "Its node is gone, without notice to the program.", is_counted=False)
    _is_accounted(run, failed=0)


def test_a_taint_that_evicts(run: LiveRun) -> None:
    agent = run.node()
    run.job()
    pod = run.started(agent)
    run.taint(agent.name, "maintenance", "NoExecute")

    run.ends(
        pod,
        "E06",
        f"It was evicted by a taint: node {agent.name} got a NoExecute taint.",
        is_counted=False,
        name="taint",
    )
    _is_accounted(run, failed=0)


def test_a_node_that_does_not_answer(run: LiveRun) -> None:
    """The Pod is deleted by the taint of its silent node, and cannot end while that Node is there.

    A healthy node is needed too: if all are silent, the controllers blame the network.
    """
    agent = run.node()
    run.node("healthy", labels={"pool": "other"})
    key = "node.kubernetes.io/unreachable"
    soon = {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
    run.job(pod={"tolerations": [soon]})
    pod = run.started(agent)
    agent.vanish()

    run.waits(
        "P33",
        f"The old Pod {pod} cannot end: its node {agent.name} does not answer. The Job starts no "
        "new Pod before that.",
        name="by its taint",
    )
    [found] = [one for one in run.pods() if one["metadata"]["name"] == pod]
    reasons = {one["type"]: one.get("reason") for one in found["status"]["conditions"]}
    assert reasons["DisruptionTarget"] == "DeletionByTaintManager"


def test_an_eviction_by_the_api(run: LiveRun) -> None:
    agent = run.node()
    run.job()
    pod = run.started(agent)
    run.evict(pod)

    run.ends(
        pod,
        "E07",
        "It was evicted by the API: a drain, an upgrade or a scale-down of its node.",
        is_counted=False,
    )
    _is_accounted(run, failed=0)


def test_a_pod_of_a_higher_priority(run: LiveRun) -> None:
    agent = run.node(cpus=2)
    cpu = {"resources": {"requests": {"cpu": "2"}}}
    run.job(main=cpu)
    pod = run.started(agent)
    _make_urgent_pod(run, cpu)

    run.ends(
        pod,
        "E08",
        "The scheduler preempted it for a Pod with a higher priority.",
        is_counted=False,
    )
    assert not run.status().get("failed")


def _make_urgent_pod(run: LiveRun, cpu: dict[str, Any]) -> None:
    urgent = {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
        "metadata": {"name": run.namespace},
        "value": 1000,
    }
    run.admin.apply(PRIORITY_CLASSES, urgent)
    main = {"name": "main", "image": "example.com/x:1", "command": ["sleep", "3600"], **cpu}
    spec = {
        "restartPolicy": "Never",
        "priorityClassName": run.namespace,
        "nodeSelector": {"pool": run.namespace},
        "containers": [main],
    }
    metadata = {"name": "urgent", "namespace": run.namespace}
    run.admin.apply(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


@pytest.mark.parametrize("reason", ["NodeShutdown", "OutOfcpu", "NodeAffinity"])
def test_a_kubelet_that_refuses_is_counted(run: LiveRun, reason: str) -> None:
    agent = run.node()
    agent.refuse(reason)
    run.job(backoffLimit=0)
    pod = run.first_pod()

    run.ends(
        pod,
        "E11",
        f"The kubelet of {agent.name} refused it ({reason}): no program ran, and the Job counts it "
        "as a failure.",
        is_counted=True,
        name=reason,
    )
    _is_accounted(run, failed=1)


@pytest.mark.parametrize(("script", "code"), [(SAVES, "75"), (WAITS, "143")])
def test_a_job_that_a_person_suspends(run: LiveRun, script: str, code: str) -> None:
    agent = run.node()
    run.job(script)
    pod = run.started(agent)
    run.suspend()

    summary = "The Job was suspended, so it was stopped."
    run.ends(pod, "E13", summary, is_counted=False, name=f"exit {code}")
    _is_accounted(run, failed=0)


def test_a_node_whose_lease_ended(run: LiveRun) -> None:
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=1)
    expiry = {"node.gke.io/machine-termination-datetime": f"{ends:%Y-%m-%dT%H:%M:%SZ}"}
    agent = run.node(annotations=expiry)
    run.job()
    pod = run.started(agent)
    agent.shut_down()

    run.ends(pod, "E14", f"The lease of its node ended at {ends:%H:%M:%S} UTC.", is_counted=False)


def test_a_machine_that_comes_back_under_its_name(run: LiveRun) -> None:
    agent = run.node()
    run.job(backoffLimit=0)
    pod = run.started(agent)
    agent.vanish()
    agent.come_back()

    run.ends(
        pod,
        "E16",
        "Its container was lost when the node restarted; the Job counts this as a failure.",
        is_counted=True,
    )
    _is_accounted(run, failed=1)


def test_an_alarm_that_was_false(run: LiveRun) -> None:
    """The disruption controller takes back what did not happen within two minutes."""
    agent = run.node()
    run.job()
    pod = run.started(agent)
    before = datetime.now(UTC) - timedelta(minutes=3)
    announced = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": f"{before:%Y-%m-%dT%H:%M:%SZ}",
    }
    path = PODS.path(run.namespace, pod, "status")
    patch = "application/strategic-merge-patch+json"
    run.send("PATCH", path, {"status": {"conditions": [announced]}}, 200, patch)

    run.ends(
        pod,
        "E18",
        "A disruption was announced and did not happen; the Pod goes on.",
        is_counted=False,
    )


def test_a_program_that_cannot_be_started(run: LiveRun) -> None:
    run.node()
    run.job(main={"command": ["no-such-program"]}, backoffLimit=0)

    run.ends(
        run.first_pod(),
        "E21",
        "The program could not be started; the Job counts it.",
        is_counted=True,
        name="not started",
    )
    eventually(lambda: run.status().get("failed") == 1, "the Job has counted it")


def test_a_program_that_fails(run: LiveRun) -> None:
    run.node()
    run.job("exit 3", backoffLimit=0)

    run.ends(
        run.first_pod(),
        "E21",
        "The program failed with exit code 3; the Job counts it.",
        is_counted=True,
    )
    _is_accounted(run, failed=1)


def test_a_failure_that_an_indexed_job_ignores_because_of_a_later_taint(run: LiveRun) -> None:
    """A failed Pod stays until it is replaced, and the taint of its node marks it as disrupted.

    The Job looks at its conditions only when it replaces it. It is suspended meanwhile, so that
    this does not depend on the length of its back-off.
    """
    agent = run.node()
    run.job("exit 3", completionMode="Indexed", completions=1, backoffLimitPerIndex=3)
    pod = run.first_pod()
    eventually(lambda: _finished_at(run, pod), "the program has failed")
    run.suspend()
    # Less could be a difference of clocks.
    finished_at = _finished_at(run, pod)
    assert finished_at is not None
    late = finished_at + timedelta(seconds=6)
    eventually(lambda: datetime.now(UTC) > late, "a taint would come later")
    run.taint(agent.name, "maintenance", "NoExecute")
    eventually(lambda: _is_marked(run, pod), "the failed Pod is marked as disrupted")
    run.admin.patch(NODES, agent.name, {"spec": {"taints": []}})
    run.suspend(is_on=False)

    run.ends(
        pod,
        "E21",
        "The program failed with exit code 3; the Job does not count it, because its node was "
        "tainted or drained before it was replaced.",
        is_counted=False,
        name="tainted",
    )
    eventually(lambda: len(run.pods()) > 1, "it is replaced")
    [replacement, *_] = [one for one in run.pods() if one["metadata"]["name"] != pod]
    annotations = replacement["metadata"]["annotations"]
    assert annotations["batch.kubernetes.io/job-index-failure-count"] == "0"
    assert annotations["batch.kubernetes.io/job-index-ignored-failure-count"] == "1"


def _status(run: LiveRun, pod: str) -> dict[str, Any]:
    [found] = [one for one in run.pods() if one["metadata"]["name"] == pod]
    status = found["status"]
    assert isinstance(status, dict)
    return status


def _finished_at(run: LiveRun, pod: str) -> datetime | None:
    for one in _status(run, pod).get("containerStatuses") or ():
        if "terminated" in one["state"]:
            return datetime.fromisoformat(one["state"]["terminated"]["finishedAt"])
    return None


def _is_marked(run: LiveRun, pod: str) -> bool:
    conditions = _status(run, pod)["conditions"]
    return any(one["type"] == "DisruptionTarget" for one in conditions)


def test_a_program_that_finishes(run: LiveRun) -> None:
    run.node()
    run.job("exit 0")

    run.ends(run.first_pod(), "E22", "The program finished.", is_counted=False)
    eventually(lambda: run.observer.waiting() is None, "it waits for nothing")


def test_a_pod_that_a_person_deletes(run: LiveRun) -> None:
    agent = run.node()
    run.job()
    pod = run.started(agent)
    run.delete_pod(pod)

    run.ends(
        pod,
        "E23",
        "It was interrupted and exited after saving; the cluster does not record by what.",
        is_counted=False,
    )
    _is_accounted(run, failed=0)
