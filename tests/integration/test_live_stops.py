"""`outlast stop` and `resume` on a real API server, beside Kueue and JobSet, and killed.

The server stores the objects, their field managers and their versions. Its controllers do not run
here: the test plays those of Kueue and JobSet, and the Pods.
"""

import json
from collections.abc import Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from outlast.cli.app import run as run_command
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.link import Request
from outlast.cluster.errors import ApiRefusal
from outlast.cluster.resources import (
    JOBS,
    JOBSETS,
    NAMESPACES,
    Object,
    Query,
    Resource,
    version_of,
)
from tests.servers.control_plane import OwnApiServer
from tests.servers.custom_kinds import WORKLOADS, define
from tests.servers.killing import run_killed
from tests.unit.cli.journal_files import write_journal
from tests.unit.cluster.watched_runs import records_of, three_attempts

pytestmark = pytest.mark.needs("control-plane")

QUEUE = {"kueue.x-k8s.io/queue-name": "q"}
KUEUE = "kueue"
"""The field manager of its controller."""
RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}},
]


@dataclass(frozen=True)
class Cluster:
    """A namespace of an API server of this file alone, and the commands of a user in it."""

    admin: ClusterClient
    kubeconfig: Path
    namespace: str
    folder: Path

    def outlast(self, *words: str | Path, code: int = 0) -> str:
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            found = run_command([*map(str, words), "--kubeconfig", str(self.kubeconfig)])
        text = out.getvalue() + err.getvalue()
        assert found == code, text
        return text

    def stop(self, *words: str, code: int = 0) -> str:
        return self.outlast("stop", "tiny", *words, "--journal", self.journal, code=code)

    @property
    def journal(self) -> str:
        return str(self.folder / "run")

    def submit(self, *items: Object) -> None:
        path = self.folder / "objects.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        self.outlast("submit", path)

    def get(self, resource: Resource, name: str = "tiny") -> Object:
        found = self.admin.get(resource, name, self.namespace)
        assert found is not None
        return found

    def patch_as(
        self, manager: str, resource: Resource, changes: Object, name: str = "tiny"
    ) -> None:
        request = Request(
            method="PATCH",
            path=resource.path(self.namespace, name),
            params={"fieldManager": manager},
            body=json.dumps(changes).encode(),
            content_type="application/merge-patch+json",
        )
        assert self.admin._link.send(request).status == 200

    def make_workload(self, resource: Resource, name: str = "tiny") -> None:
        """What Kueue creates for a queued object."""
        owner = self.get(resource, name)
        reference = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": name,
            "uid": owner["metadata"]["uid"],
            "controller": True,
        }
        metadata = {"name": f"job-{name}", "namespace": self.namespace}
        body = {
            "apiVersion": WORKLOADS.api_version,
            "kind": WORKLOADS.kind,
            "metadata": {**metadata, "ownerReferences": [reference]},
            "spec": {"active": True, "queueName": "q"},
        }
        path = WORKLOADS.path(self.namespace)
        request = Request(
            method="POST", path=path, params={"fieldManager": KUEUE}, body=json.dumps(body).encode()
        )
        assert self.admin._link.send(request).status == 201


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnApiServer]:
    with closing(OwnApiServer(tmp_path_factory.mktemp("server"))) as server:
        with server.plane.client() as admin:
            define(admin, WORKLOADS, JOBSETS)
        yield server


@pytest.fixture
def cluster(server: OwnApiServer, tmp_path: Path) -> Iterator[Cluster]:
    namespace = f"t-{uuid4().hex[:10]}"
    kubeconfig = server.plane.kubeconfig(tmp_path / "kubeconfig", namespace=namespace)
    run = three_attempts()
    run.evict(final_seconds=5)
    write_journal(tmp_path / "run", records_of(run))
    with server.plane.client() as admin:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        admin.apply(NAMESPACES, body)
        yield Cluster(admin, kubeconfig, namespace, tmp_path)


def job(name: str = "tiny", *, is_queued: bool = False) -> Object:
    main = {"name": "main", "image": "example.com/train:1", "command": ["python", "x.py"]}
    pod = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 25, "containers": [main]}
    labels = {"app.kubernetes.io/name": "tiny", "app.kubernetes.io/managed-by": "outlast"}
    spec = {"backoffLimit": 3, "podFailurePolicy": {"rules": RULES}, "template": {"spec": pod}}
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {"name": name, "labels": {**labels, **(QUEUE if is_queued else {})}},
        "spec": {**({"suspend": True} if is_queued else {}), **spec},
    }


def job_set(*, is_queued: bool = False) -> Object:
    labels = QUEUE if is_queued else {}
    template = {"spec": {**job()["spec"], "backoffLimit": 0}}
    replicated = [{"name": "workers", "replicas": 1, "template": template}]
    policy = {
        "maxRestarts": 3,
        "rules": [
            {
                "name": "interrupted",
                "action": "RestartJobSetAndIgnoreMaxRestarts",
                "onJobFailureReasons": ["PodFailurePolicy"],
            }
        ],
    }
    return {
        "apiVersion": JOBSETS.api_version,
        "kind": JOBSETS.kind,
        "metadata": {"name": "tiny", "labels": labels},
        "spec": {"suspend": is_queued, "failurePolicy": policy, "replicatedJobs": replicated},
    }


def managers_of(item: Object, field: str) -> set[str]:
    """Who owns a field of the spec, as the server records it."""
    return {
        one["manager"]
        for one in item["metadata"]["managedFields"]
        if f"f:{field}" in one["fieldsV1"].get("f:spec", {})
    }


def test_a_job_is_suspended_and_resumed_and_repeating_changes_nothing(cluster: Cluster) -> None:
    cluster.submit(job())

    assert "Job 'tiny' stopped" in cluster.stop()
    stopped = cluster.get(JOBS)
    assert "it is suspended already" in cluster.stop()
    assert version_of(cluster.get(JOBS)) == version_of(stopped)
    assert cluster.outlast("resume", "tiny") == "Job 'tiny' resumed\n"
    resumed = cluster.get(JOBS)
    assert "it is not suspended" in cluster.outlast("resume", "tiny")

    assert (stopped["spec"]["suspend"], resumed["spec"]["suspend"]) == (True, False)
    assert version_of(cluster.get(JOBS)) == version_of(resumed)


def test_a_stopped_job_stays_stopped_when_it_is_submitted_again(cluster: Cluster) -> None:
    cluster.submit(job())
    cluster.stop()
    cluster.submit(job())

    assert cluster.get(JOBS)["spec"]["suspend"] is True


def test_a_job_set_is_suspended_and_resumed(cluster: Cluster) -> None:
    cluster.submit(job_set())

    assert "JobSet 'tiny' stopped" in cluster.stop()
    assert cluster.get(JOBSETS)["spec"]["suspend"] is True
    assert cluster.outlast("resume", "tiny") == "JobSet 'tiny' resumed\n"
    assert cluster.get(JOBSETS)["spec"]["suspend"] is False


@pytest.mark.parametrize("resource", [JOBS, JOBSETS], ids=["Job", "JobSet"])
def test_beside_kueue_only_the_workload_changes(cluster: Cluster, resource: Resource) -> None:
    cluster.submit(job(is_queued=True) if resource == JOBS else job_set(is_queued=True))
    cluster.make_workload(resource)
    cluster.patch_as(KUEUE, resource, {"spec": {"suspend": False}})
    admitted = cluster.get(resource)
    assert KUEUE in managers_of(admitted, "suspend")

    assert "Workload 'job-tiny' stopped" in cluster.stop()
    assert cluster.get(WORKLOADS, "job-tiny")["spec"]["active"] is False
    assert version_of(cluster.get(resource)) == version_of(admitted)

    # What Kueue does then is Kueue's, and resuming leaves it alone.
    cluster.patch_as(KUEUE, resource, {"spec": {"suspend": True}})
    evicted = cluster.get(resource)
    assert cluster.outlast("resume", "tiny") == "Workload 'job-tiny' resumed\n"
    assert cluster.get(WORKLOADS, "job-tiny")["spec"]["active"] is True
    assert version_of(cluster.get(resource)) == version_of(evicted)
    assert managers_of(evicted, "suspend") == managers_of(cluster.get(resource), "suspend")


@pytest.mark.parametrize("resource", [JOBS, JOBSETS], ids=["Job", "JobSet"])
@pytest.mark.parametrize("is_admitted", [False, True])
def test_without_a_workload_suspend_is_left_to_kueue(
    cluster: Cluster, resource: Resource, is_admitted: bool
) -> None:
    cluster.submit(job(is_queued=True) if resource == JOBS else job_set(is_queued=True))
    if is_admitted:
        cluster.patch_as(KUEUE, resource, {"spec": {"suspend": False}})
    before = cluster.get(resource)

    assert "Kueue has not created its Workload" in cluster.stop(code=1)
    note = "it is not suspended" if is_admitted else "it is in a queue: Kueue starts it"
    assert note in cluster.outlast("resume", "tiny")

    assert version_of(cluster.get(resource)) == version_of(before)


def test_an_object_that_was_created_again_is_not_changed_in_place_of_the_old_one(
    cluster: Cluster,
) -> None:
    """The patch has the UID of what was listed, and the server compares it."""
    cluster.submit(job())
    changes = {"metadata": {"uid": str(uuid4())}, "spec": {"suspend": True}}

    with pytest.raises(ApiRefusal) as caught:
        cluster.admin.patch(JOBS, "tiny", changes, cluster.namespace)

    assert caught.value.status in (409, 422)
    assert cluster.get(JOBS)["spec"].get("suspend") is not True


def _three_jobs(cluster: Cluster) -> None:
    cluster.submit(*(job(f"tiny-{index}") for index in range(3)))


def _set(cluster: Cluster) -> None:
    cluster.submit(job_set())


def _queued(cluster: Cluster) -> None:
    cluster.submit(job(is_queued=True))
    cluster.make_workload(JOBS)
    cluster.patch_as(KUEUE, JOBS, {"spec": {"suspend": False}})


def _state(cluster: Cluster) -> dict[str, Any]:
    """What the commands may change, of all objects."""
    return {
        f"{resource} {item['metadata']['name']}": (
            item["spec"].get("suspend", False),
            item["spec"].get("active"),
        )
        for resource in (JOBS, JOBSETS, WORKLOADS)
        for item in cluster.admin.list(Query(resource=resource, namespace=cluster.namespace))
    }


RUNS = {"three Jobs": (_three_jobs, 3), "a JobSet": (_set, 1), "a queued Job": (_queued, 1)}


@pytest.mark.parametrize("command", ["stop", "resume"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for name, (_, writes) in RUNS.items() for number in range(1, writes + 1)],
)
def test_killed_anywhere_it_completes_when_repeated(
    cluster: Cluster, name: str, number: int, when: str, command: str
) -> None:
    RUNS[name][0](cluster)
    running = _state(cluster)
    words = ("--journal", cluster.journal) if command == "stop" else ()
    if command == "resume":
        cluster.stop()
    before = _state(cluster)

    run_killed(cluster.kubeconfig, number, when, command, "tiny", *words)
    killed = _state(cluster)
    cluster.outlast(command, "tiny", *words)

    changed = [title for title in before if before[title] != killed[title]]
    assert len(changed) == (number if when == "after" else number - 1)
    assert (_state(cluster) == running) is (command == "resume")
    assert all(
        suspend is (command == "stop") if active is None else active is (command == "resume")
        for title, (suspend, active) in _state(cluster).items()
        if name != "a queued Job" or title.startswith("workloads")
    )
