"""Kueue, ProvisioningRequests and ComputeClasses, as a real API server stores them.

Their controllers do not run here: the test writes the statuses of the fixtures, which are from
source. What is proved is that the diagnosis reads them as the server sends them, beside Jobs and
Pods that are real. JobSets are not defined: other tests need a kind that is not served.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.diagnosis.engine import why_waiting
from outlast.cluster.diagnosis.snapshot import Snapshot
from outlast.cluster.resources import JOBS, NODES, PODS, Object, Query, Resource
from tests.patience import eventually
from tests.servers.control_plane import ControlPlane
from tests.servers.custom_kinds import WORKLOADS, define
from tests.servers.live_run import LiveRun, live_run
from tests.servers.observer import ClusterObserver
from tests.unit.cluster.snapshots import READERS, Case, all_cases

pytestmark = pytest.mark.needs("control-plane")

REQUESTS = Resource(
    api_version="autoscaling.x-k8s.io/v1",
    kind="ProvisioningRequest",
    plural="provisioningrequests",
)
CLASSES = Resource(
    api_version="cloud.google.com/v1",
    kind="ComputeClass",
    plural="computeclasses",
    is_namespaced=False,
)
KINDS = {one.kind: one for one in (WORKLOADS, REQUESTS, CLASSES)}
FIXTURE_AGE = timedelta(minutes=20)
OWNERS = {"Workload": "Job", "ProvisioningRequest": "Workload"}
CASES = [
    case
    for case in all_cases()
    if {item["kind"] for item in case.objects} & set(KINDS)
    and case.id != "E12"
    and not case.is_near_miss
    and case.name != "just created"
]


@pytest.fixture(scope="module")
def kinds(control_plane: ControlPlane, admin: ClusterClient) -> None:
    """The kinds with schemas that accept anything, and with statuses of their own."""
    define(admin, *KINDS.values())


@pytest.mark.usefixtures("kinds")
@pytest.mark.parametrize("case", CASES, ids=[f"{case.id} {case.name}" for case in CASES])
def test_a_status_that_the_server_has_stored(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str, case: Case
) -> None:
    run = LiveRun(control_plane, admin, namespace, _no_observer())
    wanted = {item["kind"]: item for item in case.objects}
    # Objects of the cluster need names of their own: tests run beside each other.
    name = str(wanted.get("ComputeClass", {}).get("metadata", {}).get("name", ""))
    names = {name: f"{name}-{namespace}"} if name else {}
    made = {"Job": _make_job(run, wanted, names)} if {"Job", "Pod"} & set(wanted) else {}
    for kind, resource in KINDS.items():
        if kind in wanted:
            owner = made.get(OWNERS.get(kind, ""))
            made[kind] = _make(run, resource, wanted[kind], names, owner)

    eventually(lambda: _cause(admin, namespace) == case.id, f"the diagnosis is {case.id}")
    diagnosis = why_waiting(_snapshot(admin, namespace))

    assert diagnosis is not None
    expected = case.expect["summary"]
    for old, new in names.items():
        expected = expected.replace(old, new)
    assert diagnosis.summary == expected


def _no_observer() -> ClusterObserver:
    return None  # type: ignore[return-value]  # these tests list, and follow nothing


def _make_job(run: LiveRun, wanted: dict[str, Object], names: dict[str, str]) -> Object:
    """The real Job, and through it the Pod of the case, which no node takes."""
    pod = wanted.get("Pod", {})
    selector = {
        key: names.get(value, value)
        for key, value in (pod.get("spec", {}).get("nodeSelector") or {}).items()
    }
    job = wanted.get("Job", {})
    return run.job(
        metadata={"name": "tiny", "labels": job.get("metadata", {}).get("labels", {})},
        suspend=job.get("spec", {}).get("suspend", False),
        pod={"nodeSelector": {"pool": run.namespace, **selector}},
        pod_metadata={"annotations": pod.get("metadata", {}).get("annotations", {})},
    )


def _make(
    run: LiveRun, resource: Resource, item: Object, names: dict[str, str], owner: Object | None
) -> Object:
    name = item["metadata"]["name"]
    metadata: dict[str, Any] = {"name": names.get(name, name)}
    if resource.is_namespaced:
        metadata["namespace"] = run.namespace
    if owner is not None:
        reference = {
            "apiVersion": owner["apiVersion"],
            "kind": owner["kind"],
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        metadata["ownerReferences"] = [reference]
    body = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": metadata,
        "spec": item.get("spec", {}),
    }
    made = run.admin.apply(resource, body)
    run.set_status(resource, metadata["name"], item.get("status", {}))
    return made


def _cause(admin: ClusterClient, namespace: str) -> str | None:
    found = why_waiting(_snapshot(admin, namespace))
    return found.cause if found else None


def _snapshot(admin: ClusterClient, namespace: str) -> Snapshot:
    facts: dict[str, list[Any]] = {}
    for resource in (JOBS, PODS, NODES, *KINDS.values()):
        place = namespace if resource.is_namespaced else None
        field, read = READERS[resource.kind]
        for item in admin.list(Query(resource=resource, namespace=place)):
            facts.setdefault(field, []).append(read(item))
    given: dict[str, Any] = {field: tuple(found) for field, found in facts.items()}
    # So old are the objects of the fixtures, unless a case is about their age.
    return Snapshot(now=datetime.now(UTC) + FIXTURE_AGE, **given)


@pytest.mark.usefixtures("kinds")
def test_kueue_evicts_a_running_job(
    control_plane: ControlPlane, admin: ClusterClient, namespace: str
) -> None:
    with live_run(control_plane, admin, namespace, WORKLOADS) as run:
        agent = run.node()
        job = run.job()
        pod = run.started(agent)
        workload = {"metadata": {"name": "job-run"}, "kind": "Workload"}
        evicted = {"type": "Evicted", "status": "True", "reason": "Preempted"}
        preempted = {"type": "Preempted", "status": "True", "reason": "InClusterQueue"}
        status = {"conditions": [evicted, preempted]}
        _make(run, WORKLOADS, {**workload, "status": status}, {}, job)
        run.suspend()

        run.ends(pod, "E12", "Kueue evicted it (Preempted).", is_counted=False)
        assert not run.status().get("failed")
