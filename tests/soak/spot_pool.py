"""Spot nodes that take one Pod each, and twelve ways in which a Pod loses its node or its life."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.resources import (
    JOBS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    Object,
    Query,
    name_of,
)
from tests.servers.control_plane import ControlPlane
from tests.servers.live_run import LiveRun
from tests.servers.node_agent import NodeAgent, running_node

PATIENCE_SECONDS = 900.0
"""Longer than the longest back-off of a Job."""
SPOT = {"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}
INDEX = "batch.kubernetes.io/job-completion-index"
URGENT = "urgent"


def until(is_true: Callable[[], object], what: str) -> None:
    """As `eventually`, with the patience that a back-off needs."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        assert time.monotonic() < give_up_at, f"This never happened: {what}"
        time.sleep(0.2)


@dataclass(frozen=True)
class Target:
    """A Job, or one index of it. `key` names it in reports."""

    job: str
    index: str = ""

    @property
    def key(self) -> str:
        return f"{self.job}-{self.index}" if self.index else self.job

    def owns(self, pod: Object) -> bool:
        metadata: dict[str, dict[str, str]] = pod["metadata"]
        job = metadata["labels"].get("batch.kubernetes.io/job-name")
        return job == self.job and (metadata.get("annotations") or {}).get(INDEX, "") == self.index


class SpotPool:
    """Nodes of a pool. A node that is lost is replaced by a new one, under a new name."""

    def __init__(
        self, plane: ControlPlane, admin: ClusterClient, run: LiveRun, **options: Any
    ) -> None:
        self.admin = admin
        self.run = run
        self._plane = plane
        self._options = options
        self._made = 0
        self._nodes: dict[str, tuple[NodeAgent, contextlib.ExitStack]] = {}
        self._to_refuse: set[Target] = set()

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            self._made += 1
            stack = contextlib.ExitStack()
            node = running_node(
                self._plane,
                f"{self.run.namespace}-{self._made}",
                labels={"cloud.google.com/gke-spot": "true", "pool": self.run.namespace},
                taints=[SPOT],
                refuses=self._refuses,
                **self._options,
            )
            agent = stack.enter_context(node)
            self._nodes[agent.name] = (agent, stack)

    def drop(self, agent: NodeAgent) -> None:
        _, stack = self._nodes.pop(agent.name)
        stack.close()

    def close(self) -> None:
        for agent, _ in list(self._nodes.values()):
            self.drop(agent)

    def find(self, target: Target) -> tuple[NodeAgent, str] | None:
        """The node and the name of the target's running Pod."""
        for agent, _ in list(self._nodes.values()):
            for pod in agent.pods():
                if target.owns(pod):
                    return agent, name_of(pod)
        return None

    def refuse_next(self, target: Target) -> None:
        self._to_refuse.add(target)

    def _refuses(self, pod: Object) -> str:
        for target in list(self._to_refuse):
            if target.owns(pod):
                self._to_refuse.discard(target)
                return "NodeAffinity"
        return ""


@dataclass(frozen=True)
class Way:
    """A way to lose a Pod. `causes` are the diagnoses that are right for it.

    `is_counted` is whether the Job counts it. `act` returns when the Pod has lost its process, and
    `tidy` when there is room for a new one.
    """

    name: str
    causes: tuple[str, ...]
    act: Callable[[SpotPool, Target, NodeAgent, str], None]
    is_counted: bool = False
    tidy: Callable[[SpotPool, Target, NodeAgent], None] = lambda pool, target, agent: None


def _gone(agent: NodeAgent, pod: str) -> None:
    until(lambda: pod not in agent.running(), f"{pod} has no process any more")


def _shut_down(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    pool.add()
    agent.shut_down()
    _gone(agent, pod)


def _drop(pool: SpotPool, target: Target, agent: NodeAgent) -> None:
    """The machine is gone, and so is its Node, as a cloud's controller sees to."""
    pool.drop(agent)
    if pool.admin.get(NODES, agent.name) is not None:
        pool.run.delete_node(agent.name)


def _evict(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    pool.run.evict(pod)
    _gone(agent, pod)


def _taint(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    until(lambda: _is_settled(pool, agent, pod), f"{agent.name} has no Pod that is to be replaced")
    taint = {"key": "maintenance", "value": "true", "effect": "NoExecute"}
    pool.admin.patch(NODES, agent.name, {"spec": {"taints": [SPOT, taint]}})
    _gone(agent, pod)


def _is_settled(pool: SpotPool, agent: NodeAgent, pod: str) -> bool:
    """Whether Jobs have accounted for all other Pods of the node.

    One that has failed waits on its node for its replacement. The taint would mark it as disrupted,
    and its Job would not count its failure: tests/integration/test_live_endings.py shows it.
    """
    query = Query(resource=PODS, fields=f"spec.nodeName={agent.name}")
    others = [one for one in pool.admin.list(query) if name_of(one) != pod]
    return not any(one["metadata"].get("finalizers") for one in others)


def _untaint(pool: SpotPool, target: Target, agent: NodeAgent) -> None:
    pool.admin.patch(NODES, agent.name, {"spec": {"taints": [SPOT]}})


def _preempt(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    main = {
        "name": "main",
        "image": "example.com/x:1",
        "command": ["sleep", "3600"],
        "resources": {"requests": {"cpu": "5"}},
    }
    spec = {
        "restartPolicy": "Never",
        "priorityClassName": URGENT,
        "terminationGracePeriodSeconds": 1,
        "nodeSelector": {"kubernetes.io/hostname": agent.name},
        "tolerations": [{"operator": "Exists"}],
        "containers": [main],
    }
    metadata = {"name": _urgent(pool, target), "namespace": "default"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    pool.admin.apply(PODS, body)
    _gone(agent, pod)


def _after_preemption(pool: SpotPool, target: Target, agent: NodeAgent) -> None:
    name = _urgent(pool, target)
    until(lambda: name in agent.running(), "the urgent Pod runs")
    pool.run.send("DELETE", PODS.path("default", name), {}, 200)
    until(lambda: pool.admin.get(PODS, name, "default") is None, "the urgent Pod is gone")


def _urgent(pool: SpotPool, target: Target) -> str:
    """In another namespace: that of the run accepts only Pods as restricted as the rendered."""
    return f"{URGENT}-{pool.run.namespace}-{target.key}"


def _delete(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    pool.run.delete_pod(pod)
    _gone(agent, pod)


def _terminate(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    agent.signal(pod, signal.SIGTERM)
    _gone(agent, pod)


def _kill(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    agent.signal(pod, signal.SIGKILL)
    _gone(agent, pod)


def _suspend(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    pool.admin.patch(JOBS, target.job, {"spec": {"suspend": True}}, pool.run.namespace)
    _gone(agent, pod)


def _resume(pool: SpotPool, target: Target, agent: NodeAgent) -> None:
    pool.admin.patch(JOBS, target.job, {"spec": {"suspend": False}}, pool.run.namespace)


def _vanish(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    pool.add()
    agent.vanish()
    pool.run.delete_node(agent.name)
    _gone(agent, pod)


def _strand(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    """The machine is gone and its Node stays: the Pod cannot end before somebody deletes that."""
    pool.add()
    agent.vanish()
    _gone(agent, pod)
    until(lambda: _is_unknown(pool, agent.name), f"{agent.name} is found to be silent")
    pool.run.delete_pod(pod)
    until(lambda: _is_terminating(pool, target), "the Job waits for its old Pod")
    pool.run.delete_node(agent.name)


def _is_unknown(pool: SpotPool, name: str) -> bool:
    node = pool.admin.get(NODES, name) or {}
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "Unknown" for one in conditions)


def _is_terminating(pool: SpotPool, target: Target) -> bool:
    job = pool.admin.get(JOBS, target.job, pool.run.namespace) or {}
    return bool((job.get("status") or {}).get("terminating"))


def _come_back(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    agent.vanish()
    agent.come_back()


def _refuse(pool: SpotPool, target: Target, agent: NodeAgent, pod: str) -> None:
    pool.refuse_next(target)
    _delete(pool, target, agent, pod)


WAYS = (
    Way("node shutdown", ("E01",), _shut_down, tidy=_drop),
    Way("eviction API", ("E07",), _evict),
    Way("taint", ("E06",), _taint, tidy=_untaint),
    Way("preemption", ("E08",), _preempt, tidy=_after_preemption),
    Way("kubectl delete", ("E23",), _delete),
    Way("SIGTERM by itself", ("E23",), _terminate),
    Way("SIGKILL", ("E21",), _kill, is_counted=True),
    Way("node gone, Node deleted", ("E04",), _vanish, tidy=_drop),
    Way("node gone, Node stays", ("E04",), _strand, tidy=_drop),
    Way("node back under its name", ("E16",), _come_back, is_counted=True),
    Way("refused by the kubelet", ("E23",), _refuse),
)
SUSPEND = Way("suspend and resume", ("E13",), _suspend, tidy=_resume)
"""Of a complete Job: other Pods of the Job end with it."""


@contextlib.contextmanager
def spot_pool(
    plane: ControlPlane, admin: ClusterClient, run: LiveRun, size: int, **options: Any
) -> Iterator[SpotPool]:
    priority = {
        "apiVersion": PRIORITY_CLASSES.api_version,
        "kind": PRIORITY_CLASSES.kind,
        "metadata": {"name": URGENT},
        "value": 1000,
    }
    admin.apply(PRIORITY_CLASSES, priority)
    with contextlib.closing(SpotPool(plane, admin, run, **options)) as pool:
        pool.add(size)
        yield pool
