"""Why a run waits, on a real control plane: the diagnosis from what the client really reads."""

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.diagnosis.engine import why_waiting
from outlast.cluster.resources import PRIORITY_CLASSES, Resource
from tests.patience import eventually
from tests.servers.control_plane import ControlPlane
from tests.servers.live_run import LiveRun, live_run
from tests.servers.node_agent import SECRETS

pytestmark = pytest.mark.needs("control-plane")

QUOTAS = Resource(api_version="v1", kind="ResourceQuota", plural="resourcequotas")
CPU = {"resources": {"requests": {"cpu": "3"}}}


@pytest.fixture
def run(control_plane: ControlPlane, admin: ClusterClient, namespace: str) -> Iterator[LiveRun]:
    with live_run(control_plane, admin, namespace) as live:
        yield live


def test_no_node_has_the_label(run: LiveRun) -> None:
    run.node()
    run.job(pod={"nodeSelector": {"pool": f"{run.namespace}-gpu"}})

    run.waits(
        "P01",
        "No node matches the Pod's node selector or affinity: no node has the label "
        f"pool={run.namespace}-gpu.",
    )


def test_a_taint_that_is_not_tolerated(run: LiveRun) -> None:
    taint = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
    run.node(taints=[taint])
    run.job()

    run.waits(
        "P02",
        "The nodes that the Pod could use have the taint "
        "cloud.google.com/gke-spot=true:NoSchedule, which it does not tolerate.",
    )


def test_a_taint_does_not_hide_that_no_node_has_the_label(run: LiveRun) -> None:
    """The scheduler looks at taints first, and reports nothing else of these nodes."""
    run.node(taints=[{"key": "team", "value": "b", "effect": "NoSchedule"}])
    run.job(pod={"nodeSelector": {"pool": f"{run.namespace}-gpu"}})

    run.waits(
        "P01",
        "No node matches the Pod's node selector or affinity: no node has the label "
        f"pool={run.namespace}-gpu.",
        name="behind a taint",
    )


def test_a_pod_that_never_fits(run: LiveRun) -> None:
    run.node(cpus=2)
    run.job(main=CPU)

    run.waits(
        "P03",
        "The Pod never fits these nodes: it requests 3 of cpu, and the largest matching node has "
        "2.",
        name="never fits",
    )


def test_a_node_that_is_full(run: LiveRun) -> None:
    agent = run.node(cpus=4)
    run.job(main=CPU, parallelism=2, completions=2)
    run.started(agent)

    run.waits("P03", "The matching nodes are full: not enough cpu is free.", name="full")


def test_a_job_that_nobody_resumes(run: LiveRun) -> None:
    run.job(suspend=True)

    run.waits(
        "P23",
        "run is suspended, and nothing is going to resume it: it has no queue label for Kueue.",
        has_kueue=True,
    )


def test_a_scheduling_gate(run: LiveRun) -> None:
    run.job(pod={"schedulingGates": [{"name": "example.com/wait"}]})

    run.waits("P30", "The Pod is kept back by its scheduling gate: example.com/wait.")


def test_a_quota_of_the_namespace(run: LiveRun) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": run.namespace},
        "spec": {"hard": {"requests.cpu": "1"}},
    }
    run.admin.apply(QUOTAS, quota)
    eventually(
        lambda: (run.admin.get(QUOTAS, "team", run.namespace) or {}).get("status", {}).get("hard"),
        "the quota is in force",
    )
    run.job(main=CPU)

    run.waits(
        "P31",
        "The namespace's ResourceQuota team allows no more Pods (requested requests.cpu=3).",
        name="quota",
    )


def test_a_missing_priority_class(run: LiveRun) -> None:
    run.job(pod={"priorityClassName": "outlast-batch"})

    run.waits("P31", "The PriorityClass outlast-batch does not exist.", name="priority class")


def test_a_missing_service_account(run: LiveRun) -> None:
    run.job(pod={"serviceAccountName": "trainer"})

    run.waits(
        "P31",
        f"The ServiceAccount {run.namespace}/trainer does not exist.",
        name="service account",
    )


def test_the_next_pod_comes_when_the_back_off_says(run: LiveRun) -> None:
    agent = run.node()
    run.job()
    first = run.started(agent)
    run.evict(first)
    eventually(lambda: _finished_at(run, first), "the Pod has ended")
    due = _finished_at(run, first)
    assert due is not None
    at = datetime.fromtimestamp(due.timestamp() + 10, due.tzinfo)

    run.waits(
        "P32",
        "The Job waits for its back-off after 1 failed Pod: the next Pod starts at about "
        f"{at:%H:%M:%S} UTC.",
    )

    eventually(lambda: agent.running() not in ([], [first]), "the next Pod runs")
    [after] = [pod for pod in run.pods() if pod["metadata"]["name"] != first]
    created = datetime.fromisoformat(after["metadata"]["creationTimestamp"])
    # The controller and the agent round to seconds; a slow machine is later, never earlier.
    assert (created - at).total_seconds() >= -1


def _finished_at(run: LiveRun, name: str) -> datetime | None:
    for pod in run.pods():
        for one in pod["status"].get("containerStatuses") or ():
            time = (one["state"].get("terminated") or {}).get("finishedAt")
            if pod["metadata"]["name"] == name and time:
                return datetime.fromisoformat(time)
    return None


def test_an_old_pod_that_cannot_end(run: LiveRun) -> None:
    agent = run.node()
    run.job()
    pod = run.started(agent)
    agent.vanish()
    run.delete_pod(pod)

    run.waits(
        "P33",
        f"The old Pod {pod} cannot end: its node {agent.name} does not answer. The Job starts no "
        "new Pod before that.",
    )


def test_a_claim_that_is_missing(run: LiveRun) -> None:
    run.node()
    claim = {"claimName": "checkpoints"}
    run.job(pod={"volumes": [{"name": "c", "persistentVolumeClaim": claim}]})

    run.waits("P34", "The PersistentVolumeClaim checkpoints does not exist.", name="no claim")


def test_a_claim_that_is_not_bound(run: LiveRun) -> None:
    run.node()
    claims = Resource(
        api_version="v1", kind="PersistentVolumeClaim", plural="persistentvolumeclaims"
    )
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    metadata = {"name": "checkpoints", "namespace": run.namespace}
    run.admin.apply(
        claims,
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec},
    )
    claim = {"claimName": "checkpoints"}
    run.job(pod={"volumes": [{"name": "c", "persistentVolumeClaim": claim}]})

    run.waits("P34", "A PersistentVolumeClaim of the Pod has no volume yet.", name="unbound claim")


def test_a_secret_that_is_missing_until_it_is_created(run: LiveRun) -> None:
    agent = run.node()
    reference = {"name": "queue", "key": "url"}
    variable = {"name": "URL", "valueFrom": {"secretKeyRef": reference}}
    run.job("echo running $URL; sleep 3600", main={"env": [variable]})
    run.waits("P36", "The secret queue does not exist.", name="no secret")

    _make_secret(run, password="x")
    # The kubelet tries again, and says the next thing that is wrong only with a new Pod.
    run.delete_pod(run.first_pod())
    where = f"{run.namespace}/queue"
    run.waits("P36", f"The Secret {where} has no key url.", name="no key")

    _make_secret(run, url="postgresql://q")
    pod = run.started(agent)
    assert "running postgresql://q" in agent.log_of(pod)
    eventually(lambda: run.observer.waiting() is None, "the run does not wait any more")


def _make_secret(run: LiveRun, **data: str) -> None:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    metadata = {"name": "queue", "namespace": run.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": encoded}
    run.admin.apply(SECRETS, secret)


@pytest.mark.parametrize(
    ("changes", "script", "why"),
    [
        pytest.param(
            {"backoffLimit": 0},
            "exit 1",
            "more Pods failed than backoffLimit allows",
            id="backoff limit",
        ),
        pytest.param(
            {"activeDeadlineSeconds": 1},
            "sleep 3600",
            "it ran longer than activeDeadlineSeconds",
            id="deadline",
        ),
        pytest.param(
            {
                "podFailurePolicy": {
                    "rules": [
                        {
                            "action": "FailJob",
                            "onExitCodes": {"operator": "In", "values": [2]},
                        }
                    ]
                }
            },
            "exit 2",
            "a Pod failed in a way that its podFailurePolicy does not retry",
            id="failure policy",
        ),
        pytest.param(
            {"completionMode": "Indexed", "completions": 1, "backoffLimitPerIndex": 0},
            "exit 1",
            "some of its indexes failed",
            id="failed indexes",
        ),
        pytest.param(
            {
                "completionMode": "Indexed",
                "completions": 2,
                "parallelism": 1,
                "backoffLimitPerIndex": 0,
                "maxFailedIndexes": 0,
            },
            "exit 1",
            "more indexes failed than maxFailedIndexes allows",
            id="max failed indexes",
        ),
    ],
)
def test_a_job_that_has_failed(
    run: LiveRun, request: pytest.FixtureRequest, changes: dict[str, Any], script: str, why: str
) -> None:
    run.node()
    if "backoffLimitPerIndex" in changes:
        changes = {**changes, "backoffLimit": 2147483647}
    run.job(script, **changes)

    name = re.sub(r".*\[(.*)\]", r"\1", request.node.name)
    run.waits("E19", f"The Job run failed: {why}.", name=name)


def test_a_priority_that_the_autoscaler_ignores(run: LiveRun) -> None:
    """There is no autoscaler, so there is no event of one. It is blamed after two minutes."""
    body = {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
        "metadata": {"name": run.namespace},
        "value": -11,
    }
    run.admin.apply(PRIORITY_CLASSES, body)
    run.node()
    run.job(pod={"priorityClassName": run.namespace, "nodeSelector": {"pool": "none"}})
    eventually(lambda: (one := run.observer.waiting()) and one.cause == "P01", "it waits")

    snapshot = run.observer.snapshot()
    later = replace(snapshot, now=snapshot.now + timedelta(minutes=3))
    diagnosis = why_waiting(later)

    assert diagnosis is not None and diagnosis.cause == "P18"
    assert "The Pod's priority -11 is below -10" in diagnosis.summary
