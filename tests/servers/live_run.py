"""A Job on a real control plane, its nodes, and the diagnoses of the diagnosis on it."""

import contextlib
import json
from collections.abc import Callable, Iterator
from typing import Any

from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.link import Request
from outlast.cluster.diagnosis.diagnosis import Diagnosis
from outlast.cluster.resources import JOBS, NODES, PODS, Object, Resource, name_of
from tests.patience import eventually
from tests.servers import recording
from tests.servers.control_plane import ControlPlane
from tests.servers.node_agent import NodeAgent, running_node
from tests.servers.observer import ClusterObserver, observing

WAITS = "echo running; while :; do sleep 3600 & wait $!; done"
SAVES = f"trap 'exit 75' TERM; {WAITS}"
"""Exits with 75 on SIGTERM, as Outlast does."""
SUCCEEDS = f"trap 'exit 0' TERM; {WAITS}"
IGNORES = f"trap '' TERM; {WAITS}"

_RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [75]}},
]


class LiveRun:
    """The Job `run` of a namespace. Its Pods go to nodes of this test only."""

    def __init__(
        self, plane: ControlPlane, admin: ClusterClient, namespace: str, observer: ClusterObserver
    ) -> None:
        self.plane = plane
        self.admin = admin
        self.namespace = namespace
        self.observer = observer
        self._stack = contextlib.ExitStack()

    def close(self) -> None:
        self._stack.close()

    def node(self, suffix: str = "a", **options: Any) -> NodeAgent:
        labels = {"pool": self.namespace, **options.pop("labels", {})}
        name = f"{self.namespace}-{suffix}"
        return self._stack.enter_context(running_node(self.plane, name, labels=labels, **options))

    def job(self, script: str = SAVES, **changes: Any) -> Object:
        """Apply the Job. `pod` changes the Pod's spec, `metadata` the Job's, others its spec."""
        main = {
            "name": "main",
            "image": "example.com/train:1",
            "command": ["/bin/sh", "-c", script],
            **changes.pop("main", {}),
        }
        pod = {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 25,
            "nodeSelector": {"pool": self.namespace},
            "containers": [main],
            **changes.pop("pod", {}),
        }
        metadata = {"name": "run", "namespace": self.namespace, **changes.pop("metadata", {})}
        spec = {"backoffLimit": 3, "podFailurePolicy": {"rules": _RULES}, **changes}
        template = {"metadata": spec.pop("pod_metadata", {}), "spec": pod}
        job = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": metadata,
            "spec": {**spec, "template": template},
        }
        return self.admin.apply(JOBS, job)

    def started(self, agent: NodeAgent) -> str:
        """Wait until the program on a node runs and hears signals. The name of its Pod."""
        eventually(lambda: len(agent.running()) == 1, f"a Pod runs on {agent.name}")
        [pod] = agent.running()
        eventually(lambda: "running" in agent.log_of(pod), "the program runs")
        return pod

    def evict(self, pod: str) -> None:
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod, "namespace": self.namespace},
        }
        path = PODS.path(self.namespace, pod, "eviction")
        self.send("POST", path, body, 201)

    def delete_pod(self, pod: str) -> None:
        self.send("DELETE", PODS.path(self.namespace, pod), {}, 200)

    def delete_node(self, name: str) -> None:
        """What a cloud's controller does when the machine is gone."""
        self.send("DELETE", NODES.path(None, name), {}, 200)

    def taint(self, name: str, key: str, effect: str) -> None:
        taint = {"key": key, "value": "true", "effect": effect}
        self.admin.patch(NODES, name, {"spec": {"taints": [taint]}})

    def suspend(self, *, is_on: bool = True) -> None:
        self.admin.patch(JOBS, "run", {"spec": {"suspend": is_on}}, self.namespace)

    def set_status(self, resource: Resource, name: str, status: Object) -> None:
        """Write a status as its controller would."""
        namespace = self.namespace if resource.is_namespaced else None
        path = resource.path(namespace, name, "status")
        self.send("PATCH", path, {"status": status}, 200, "application/merge-patch+json")

    def send(
        self, method: str, path: str, body: Object, code: int, kind: str = "application/json"
    ) -> Object:
        request = Request(
            method=method, path=path, body=json.dumps(body).encode(), content_type=kind
        )
        response = self.admin._link.send(request)
        assert response.status == code, response.body
        answer = json.loads(response.body)
        assert isinstance(answer, dict)
        return answer

    def waits(self, cause: str, summary: str, *, name: str = "", **more: Any) -> Diagnosis:
        """Wait until this is the diagnosis on the run's waiting. `more` is known otherwise."""
        diagnosis = self._reached(lambda: self.observer.waiting(**more), cause)
        assert diagnosis.summary == summary
        if recording.VERSION:
            recording.record(
                cause,
                name or "live",
                self.namespace,
                self.observer.objects(),
                diagnosis,
                snapshot=more,
            )
        return diagnosis

    def ends(self, pod: str, cause: str, summary: str, *, is_counted: bool, name: str = "") -> None:
        """Wait until this is the diagnosis on how a Pod ended."""

        def found() -> Diagnosis | None:
            return next((e.diagnosis for e in self.observer.endings() if e.pod.name == pod), None)

        diagnosis = self._reached(found, cause)
        assert diagnosis.summary == summary
        [ending] = [one for one in self.observer.endings() if one.pod.name == pod]
        assert ending.is_counted is is_counted
        if recording.VERSION:
            objects = self.observer.objects()
            recording.record(
                cause,
                name or "live",
                self.namespace,
                objects,
                diagnosis,
                is_counted=is_counted,
                pod=pod,
            )

    def status(self) -> Object:
        found = self.admin.get(JOBS, "run", self.namespace) or {}
        status = found.get("status") or {}
        assert isinstance(status, dict)
        return status

    def pods(self) -> list[Object]:
        return [one for one in self.observer.objects() if one["kind"] == "Pod"]

    def first_pod(self) -> str:
        """The name of the Job's Pod once the Job has made it."""
        eventually(self.pods, "the Job makes a Pod")
        return name_of(self.pods()[0])

    def _reached(self, find: Callable[[], Diagnosis | None], cause: str) -> Diagnosis:
        seen: list[Diagnosis | None] = [None]

        def is_reached() -> bool:
            seen[0] = find()
            return seen[0] is not None and seen[0].cause == cause

        try:
            eventually(is_reached, f"the diagnosis is {cause}")
        except AssertionError as error:
            raise AssertionError(f"{error}, but {seen[0]}") from None
        assert seen[0] is not None
        return seen[0]


@contextlib.contextmanager
def live_run(
    plane: ControlPlane, admin: ClusterClient, namespace: str, *kinds: Resource
) -> Iterator[LiveRun]:
    with plane.client() as client, observing(client, namespace, *kinds) as observer:
        run = LiveRun(plane, admin, namespace, observer)
        with contextlib.closing(run):
            yield run
