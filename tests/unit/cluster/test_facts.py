"""Facts from objects of the API server, and from whatever else may be in their place."""

import copy
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from outlast.cluster.diagnosis.diagnosis import Diagnosis, Evidence, not_recognized
from outlast.cluster.diagnosis.facts import EventFact, event_fact, job_fact, node_fact, pod_fact

AT = "2026-11-16T11:13:52Z"
METADATA = {
    "name": "tiny-abcde",
    "namespace": "team-a",
    "uid": "u-1",
    "creationTimestamp": AT,
    "ownerReferences": [{"uid": "u-0", "kind": "Job", "controller": True}],
}
POD: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {"nodeName": "n-1", "priority": -5, "schedulingGates": [{"name": "kueue"}]},
    "status": {
        "phase": "Failed",
        "reason": "Terminated",
        "conditions": [
            {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"},
            {"type": "Ready", "status": "Unknown"},
        ],
        "containerStatuses": [
            {"name": "main", "state": {"terminated": {"exitCode": 75, "finishedAt": AT}}},
            {"name": "side", "state": {"waiting": {"reason": "ErrImagePull"}}},
        ],
    },
}
NODE: dict[str, Any] = {
    "metadata": {
        "name": "n-1",
        "labels": {"topology.kubernetes.io/zone": "us-central1-a"},
        "annotations": {"node.gke.io/machine-termination-datetime": AT},
        "deletionTimestamp": AT,
    },
    "spec": {"unschedulable": True, "taints": [{"key": "gke-spot", "effect": "NoSchedule"}]},
}
JOB: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {"suspend": True, "backoffLimit": 13},
    "status": {"failed": 2, "terminating": 1},
}
EVENT: dict[str, Any] = {
    "metadata": {"creationTimestamp": "2026-11-16T11:00:00Z"},
    "involvedObject": {"uid": "u-1"},
    "reason": "FailedScheduling",
    "type": "Warning",
    "message": "0/3 nodes are available",
    "eventTime": "2026-11-16T11:00:00.123456Z",
    "series": {"count": 7, "lastObservedTime": AT},
}
READERS = [(pod_fact, POD), (node_fact, NODE), (job_fact, JOB), (event_fact, EVENT)]


def test_a_pod_is_read() -> None:
    pod = pod_fact(POD)

    assert (pod.name, pod.owner, pod.node, pod.priority) == ("tiny-abcde", "u-0", "n-1", -5)
    assert pod.gates == ("kueue",)
    target, ready = pod.condition("DisruptionTarget"), pod.condition("Ready")
    assert target is not None and ready is not None
    assert (target.is_true, target.reason, ready.is_true) == (True, "TerminationByKubelet", None)
    main, side = pod.containers
    assert (main.exit_code, side.waiting_reason, side.exit_code) == (75, "ErrImagePull", None)
    assert main.finished_at == datetime(2026, 11, 16, 11, 13, 52, tzinfo=UTC)


def test_a_node_and_a_job_are_read() -> None:
    node, job = node_fact(NODE), job_fact(JOB)

    assert (node.is_deleted, node.is_unschedulable, node.taints[0].key) == (True, True, "gke-spot")
    assert node.expires_at == datetime(2026, 11, 16, 11, 13, 52, tzinfo=UTC)
    assert (job.is_suspended, job.failed, job.terminating, job.active) == (True, 2, 1, 0)
    assert job.backoff_limit == 13


def test_an_event_was_last_seen_at_the_latest_of_its_times() -> None:
    assert event_fact(EVENT) == EventFact(
        about="u-1",
        reason="FailedScheduling",
        message="0/3 nodes are available",
        is_warning=True,
        count=7,
        last_seen=datetime(2026, 11, 16, 11, 13, 52, tzinfo=UTC),
    )


@pytest.mark.parametrize(("read", "found"), READERS, ids=["pod", "node", "job", "event"])
def test_nothing_that_a_server_sends_raises(read: Any, found: dict[str, Any]) -> None:
    chance = random.Random(11)
    junk: list[Any] = [
        None,
        7,
        True,
        "x",
        "9999-12-31T23:59:59+99:99",
        [],
        [None],
        {},
        {"x": 1},
        [[]],
        1.5,
    ]
    read({})

    for _ in range(300):
        damaged = copy.deepcopy(found)
        place: Any = damaged
        while isinstance(place, dict | list) and place:
            key = chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if chance.random() < 0.4 or not isinstance(place[key], dict | list):
                place[key] = chance.choice(junk)
                break
            place = place[key]
        read(damaged)


def test_text_that_is_not_recognized_is_shown_and_no_cause_is_claimed() -> None:
    diagnosis = not_recognized(Evidence(where="event Strange", text="something new"))

    assert diagnosis.cause is None
    assert diagnosis.evidence[0].text == "something new"
    with pytest.raises(ValueError, match="needs a summary"):
        Diagnosis(cause="P05", summary="")
