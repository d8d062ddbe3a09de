"""A node for a control plane: runs the Pods bound to it as processes, and reports as a kubelet.

It has the credentials of a kubelet (CN=system:node:NAME), so that the API server's Node authorizer
and NodeRestriction judge what it does. It registers the Node, renews its Lease, refuses Pods that
do not fit, runs the first container as a session of its own, reports phases, exit codes and
conditions in the order in which a kubelet does, honors grace periods, and plays a graceful node
shutdown, a node that vanishes, and one that comes back. It does not play: probes, volumes, images,
restarts of containers, and namespaces of their own.
"""

import base64
import contextlib
import json
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from outlast.cluster.connection.api import UpdateKind
from outlast.cluster.connection.client import ClusterClient
from outlast.cluster.connection.link import Request
from outlast.cluster.errors import ClusterError
from outlast.cluster.resources import NODES, PODS, Object, Query, Resource, name_of
from tests.patience import eventually
from tests.servers.certificates import make_certificate
from tests.servers.container_logs import serving_logs
from tests.servers.control_plane import ControlPlane
from tests.servers.pod_process import (
    MissingConfig,
    PodProcess,
    ended_status,
    lost_status,
    now,
    refused_status,
    running_status,
    start_process,
    unstarted_status,
    variables,
    waiting_status,
)

LEASES = Resource(api_version="coordination.k8s.io/v1", kind="Lease", plural="leases")
SECRETS = Resource(api_version="v1", kind="Secret", plural="secrets")
_RENEW_SECONDS = 2.0


class NodeAgent:
    """One node. Use it in a `with`; at its end all its processes are killed.

    Processes have the variables of `environ`, of their Pod, and of `overrides`, in this order: here
    all nodes share one machine. `refuses` gives the reason to refuse a Pod, empty to take it.
    """

    def __init__(
        self,
        plane: ControlPlane,
        name: str,
        *,
        labels: dict[str, str] | None = None,
        taints: list[dict[str, str]] | None = None,
        annotations: dict[str, str] | None = None,
        cpus: int = 8,
        environ: dict[str, str] | None = None,
        overrides: dict[str, str] | None = None,
        refuses: Callable[[Object], str] = lambda pod: "",
    ) -> None:
        self.name = name
        self._plane = plane
        # A zone of its own: in a zone with other dead nodes, the controllers evict nothing.
        own = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": name}
        self._labels = {**own, **(labels or {})}
        self._taints = taints or []
        self._annotations = annotations or {}
        self._cpus = cpus
        self._environ = environ or {}
        self._overrides = overrides or {}
        self._refuses = refuses
        self._running: dict[str, PodProcess] = {}
        self._ended: set[str] = set()
        self._to_retry: dict[str, Object] = {}
        self._unconfigured: set[str] = set()
        self._refusal_reason = ""
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._is_silent = threading.Event()
        self._threads: list[threading.Thread] = []
        self._folder = tempfile.TemporaryDirectory(prefix="node-")
        self._exit_stack = contextlib.ExitStack()

    def __enter__(self) -> "NodeAgent":
        pair = make_certificate(
            self._plane.authority, f"system:node:{self.name}", organization="system:nodes"
        )
        credentials = {
            "client-certificate-data": base64.b64encode(pair.certificate).decode(),
            "client-key-data": base64.b64encode(pair.key).decode(),
        }
        self._client = self._exit_stack.enter_context(
            self._plane.client(self.name, credentials=credentials)
        )
        pages = serving_logs(self._plane.authority, Path(self._folder.name), self._is_running)
        self._log_port = self._exit_stack.enter_context(pages)
        self._register()
        for target in (self._renew, self._follow):
            thread = threading.Thread(target=target, name=f"{self.name} {target.__name__}")
            thread.daemon = True
            thread.start()
            self._threads.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._is_silent.set()
        for pod in list(self._running.values()):
            pod.kill()
        for thread in self._threads:
            while thread.is_alive():
                self._client.cut_streams()
                thread.join(0.1)
        self._exit_stack.close()
        self._folder.cleanup()

    def log_of(self, pod: str) -> str:
        """What the process of a Pod has printed so far."""
        return (Path(self._folder.name) / f"{pod}.log").read_text()

    def running(self) -> list[str]:
        """The names of the Pods whose process lives."""
        with self._lock:
            return [name_of(one.pod) for one in self._running.values()]

    def pods(self) -> list[Object]:
        """The Pods whose process lives."""
        with self._lock:
            return [one.pod for one in self._running.values()]

    def _is_running(self, pod: str) -> bool:
        return pod in self.running()

    def shut_down(self, window_seconds: float = 15) -> None:
        """Shut the node down gracefully, as a reclaimed Spot VM does: Pods get SIGTERM.

        They are not deleted. That the node disrupted them is reported together with their end.
        """
        self.refuse("NodeShutdown")
        self._set_ready(False, "KubeletNotReady", "node is shutting down")
        with self._lock:
            for one in self._running.values():
                one.is_shut_down = True
                grace = one.pod["spec"].get("terminationGracePeriodSeconds", 30)
                one.stop(min(grace, window_seconds))

    def refuse(self, reason: str) -> None:
        """Refuse Pods that come from now on, as a kubelet that has no room or shuts down."""
        self._refusal_reason = reason

    def signal(self, pod: str, number: signal.Signals) -> None:
        """Send a signal to the first process of a Pod, as somebody on the machine could."""
        with self._lock:
            for one in self._running.values():
                if name_of(one.pod) == pod:
                    one.signal(number)

    def vanish(self) -> None:
        """Lose the machine without a word: processes die, nothing is reported any more."""
        self._is_silent.set()
        with self._lock:
            for one in self._running.values():
                one.kill()

    def come_back(self) -> None:
        """The machine is there again under its old name: Pods that ran on it are lost."""
        eventually(lambda: not self.running(), "all processes of the lost machine are gone")
        self._is_silent.clear()
        self._refusal_reason = ""
        self._register()
        query = Query(resource=PODS, fields=f"spec.nodeName={self.name}")
        for pod in self._client.list(query):
            if pod["status"].get("phase") in ("Pending", "Running"):
                self._report_lost(pod)

    def _register(self) -> None:
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": self._labels,
                "annotations": self._annotations,
            },
            "spec": {"taints": self._taints},
        }
        if self._client.get(NODES, self.name) is None:
            # A kubelet creates its Node; it may not apply labels later.
            request = Request(method="POST", path=NODES.path(), body=json.dumps(node).encode())
            assert self._client._link.send(request).status == 201
        resources = {"cpu": str(self._cpus), "memory": "64Gi", "pods": "110"}
        self._patch(
            NODES,
            self.name,
            {
                "capacity": resources,
                "allocatable": resources,
                "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
                "daemonEndpoints": {"kubeletEndpoint": {"Port": self._log_port}},
            },
        )
        self._set_ready(True, "KubeletReady", "kubelet is posting ready status")

    def _set_ready(self, is_ready: bool, reason: str, message: str) -> None:
        condition = {
            "type": "Ready",
            "status": "True" if is_ready else "False",
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now(),
            "lastTransitionTime": now(),
        }
        self._patch(NODES, self.name, {"conditions": [condition]})

    def _renew(self) -> None:
        """Keep the Lease, without which the node is taken for dead."""
        while not self._stop.is_set():
            if not self._is_silent.is_set():
                with contextlib.suppress(ClusterError):
                    self._renew_once()
                with self._lock:
                    for pod in list(self._to_retry.values()):
                        self._take(pod)
            self._stop.wait(_RENEW_SECONDS)

    def _renew_once(self) -> None:
        spec = {
            "holderIdentity": self.name,
            "leaseDurationSeconds": 40,
            "renewTime": now(micro=True),
        }
        metadata = {"name": self.name, "namespace": "kube-node-lease"}
        body = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata}
        path = LEASES.path("kube-node-lease")
        found = self._client.get(LEASES, self.name, "kube-node-lease")
        if found is None:
            data = json.dumps({**body, "spec": spec}).encode()
            self._client._link.send(Request(method="POST", path=path, body=data))
        else:
            found["spec"] = spec
            data = json.dumps(found).encode()
            request = Request(method="PUT", path=f"{path}/{self.name}", body=data)
            self._client._link.send(request)

    def _follow(self) -> None:
        query = Query(resource=PODS, fields=f"spec.nodeName={self.name}")
        for update in self._client.follow(query, lambda item: item, stop=self._stop):
            if update.kind in (UpdateKind.LISTED, UpdateKind.CHANGED):
                for pod in update.objects:
                    self._take(pod)

    def _take(self, pod: Object) -> None:
        """Do what a Pod needs now; what the API server did not allow yet is tried again."""
        uid = pod["metadata"]["uid"]
        with self._lock:
            self._to_retry.pop(uid, None)
            try:
                self._handle(pod)
            except ClusterError:
                self._to_retry[uid] = pod

    def _handle(self, pod: Object) -> None:
        if self._is_silent.is_set():
            return
        uid = pod["metadata"]["uid"]
        with self._lock:
            running = self._running.get(uid)
            if "deletionTimestamp" in pod["metadata"]:
                if running is not None:
                    running.stop(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
                else:
                    self._bury(pod)
            elif running is None and uid not in self._ended and not _is_over(pod):
                self._admit(pod)

    def _admit(self, pod: Object) -> None:
        reason = self._refusal(pod)
        if reason:
            self._patch_pod(pod, refused_status(reason))
            self._ended.add(pod["metadata"]["uid"])
            return
        self._start(pod)

    def _refusal(self, pod: Object) -> str:
        """Why a kubelet would refuse the Pod, empty if it would not."""
        selector = pod["spec"].get("nodeSelector") or {}
        if any(self._labels.get(key) != value for key, value in selector.items()):
            return "NodeAffinity"
        return self._refusal_reason or self._refuses(pod)

    def _start(self, pod: Object) -> None:
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        try:
            given = variables(
                pod, self.name, lambda name: self._client.get(SECRETS, name, namespace)
            )
        except MissingConfig as missing:
            if uid not in self._unconfigured:
                status = waiting_status(pod, "CreateContainerConfigError", str(missing))
                self._patch_pod(pod, status)
            self._unconfigured.add(uid)
            self._to_retry[uid] = pod
            return
        environ = {**self._environ, **given, **self._overrides}
        try:
            process = start_process(pod, environ, Path(self._folder.name))
        except OSError as error:
            self._patch_pod(pod, unstarted_status(pod, error))
            self._ended.add(uid)
            return
        running = PodProcess(pod, process)
        self._running[uid] = running
        threading.Thread(target=self._report, args=(running,), daemon=True).start()

    def _report(self, running: PodProcess) -> None:
        """Report that the Pod runs, and its end."""
        self._insist(lambda: self._patch_pod(running.pod, running_status(running)))
        code = running.process.wait()
        # The rest of its session must be gone before the Pod is reported as ended.
        running.kill()
        with self._lock:
            del self._running[running.uid]
            self._ended.add(running.uid)
        status = ended_status(running, 128 - code if code < 0 else code)
        self._insist(lambda: self._patch_pod(running.pod, status))
        self._insist(lambda: self._delete_if_asked(running.pod))

    def _insist(self, act: Callable[[], object]) -> None:
        """Try until the API server takes it, as a kubelet does; a lost machine does nothing."""
        while not self._is_silent.is_set():
            try:
                act()
                return
            except ClusterError:
                self._stop.wait(1.0)

    def _delete_if_asked(self, pod: Object) -> None:
        live = self._client.get(PODS, name_of(pod), pod["metadata"]["namespace"])
        if live is not None and "deletionTimestamp" in live["metadata"]:
            self._delete(live)

    def _report_lost(self, pod: Object) -> None:
        self._ended.add(pod["metadata"]["uid"])
        self._patch_pod(pod, lost_status(pod))

    def _bury(self, pod: Object) -> None:
        """Delete a Pod that does not run here; it gets a terminal phase first."""
        uid = pod["metadata"]["uid"]
        if not _is_over(pod) and uid not in self._ended:
            is_running = pod.get("status", {}).get("phase") == "Running"
            self._patch_pod(pod, lost_status(pod) if is_running else {"phase": "Failed"})
        self._delete(pod)

    def _delete(self, pod: Object) -> None:
        """The last word of a kubelet: the Pod's process is gone, so may be the object."""
        body = {"gracePeriodSeconds": 0, "preconditions": {"uid": pod["metadata"]["uid"]}}
        path = PODS.path(pod["metadata"]["namespace"], name_of(pod))
        request = Request(method="DELETE", path=path, body=json.dumps(body).encode())
        self._client._link.send(request)

    def _patch_pod(self, pod: Object, status: dict[str, Any]) -> None:
        metadata = pod["metadata"]
        self._patch(PODS, name_of(pod), status, metadata["namespace"], uid=metadata["uid"])

    def _patch(
        self,
        resource: Resource,
        name: str,
        status: dict[str, Any],
        namespace: str | None = None,
        *,
        uid: str = "",
    ) -> None:
        body = {"status": status, **({"metadata": {"uid": uid}} if uid else {})}
        request = Request(
            method="PATCH",
            path=resource.path(namespace, name, "status"),
            body=json.dumps(body).encode(),
            content_type="application/strategic-merge-patch+json",
        )
        response = self._client._link.send(request)
        if response.status in (403, 429) or response.status >= 500:
            raise ClusterError(f"not now: {response.body.decode()}")
        # A Pod may be gone meanwhile, or another one may have its name.
        assert response.status in (200, 404, 409), response.body


def _is_over(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


@contextlib.contextmanager
def running_node(plane: ControlPlane, name: str, **options: Any) -> Iterator[NodeAgent]:
    """A node that the scheduler may use from now on, unless it has taints of its own."""
    with NodeAgent(plane, name, **options) as agent, plane.client() as admin:
        own = [one["key"] for one in options.get("taints") or ()]
        eventually(lambda: _taints(admin, name) == own, f"node {name} gets ready")
        try:
            yield agent
        finally:
            # So that the scheduler of the session sends no further Pods here.
            request = Request(method="DELETE", path=NODES.path(None, name))
            assert admin._link.send(request).status in (200, 404)


def _taints(admin: ClusterClient, name: str) -> list[str] | None:
    found = admin.get(NODES, name)
    return None if found is None else [one["key"] for one in found["spec"].get("taints") or ()]
