"""An API server in this process that keeps objects, for commands that run as real processes.

It plays discovery, lists, watches, logs, merge patches, server-side apply and deletion, and the
controllers of Jobs, JobSets and Kueue, at once and in a fixed order. So the same requests always
lead to the same objects. It proves nothing about Kubernetes: tests/integration does that.
"""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from outlast.cluster.resources import (
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    JOBSETS,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    Object,
    Resource,
)
from tests.servers.object_store import CREATED, ObjectStore, Refused, value_at

WORKLOADS = Resource(api_version="kueue.x-k8s.io/v1beta1", kind="Workload", plural="workloads")
NETWORK_POLICIES = Resource(
    api_version="networking.k8s.io/v1", kind="NetworkPolicy", plural="networkpolicies"
)
BUDGETS = Resource(
    api_version="policy/v1", kind="PodDisruptionBudget", plural="poddisruptionbudgets"
)
SERVED = (
    DEPLOYMENTS,
    EVENTS,
    JOBS,
    JOBSETS,
    NAMESPACES,
    NETWORK_POLICIES,
    BUDGETS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
)
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_JOB_LABEL = "batch.kubernetes.io/job-name"
_SET_LABEL = "jobset.sigs.k8s.io/jobset-name"


@dataclass(frozen=True)
class Write:
    """A request that changes something."""

    method: str
    path: str
    body: Any


@dataclass
class KillPoint:
    """Kill a process at its n-th request that changes something, before or after it acts."""

    number: int
    is_after: bool
    process_id: int = 0
    is_known: threading.Event = field(default_factory=threading.Event)

    def kill(self) -> None:
        self.is_known.wait()
        os.kill(self.process_id, signal.SIGKILL)
        # Nothing is answered before it is dead, so that it cannot act on the answer.
        os.waitid(os.P_PID, self.process_id, os.WEXITED | os.WNOWAIT)


class ApiServer:
    """The server's state. `writes` has what clients have changed; `forbidden` what they may not."""

    def __init__(self, *, has_kueue: bool = False) -> None:
        self.store = ObjectStore()
        self.served = (*SERVED, WORKLOADS) if has_kueue else SERVED
        self.logs: dict[str, bytes] = {}
        self.writes: list[Write] = []
        self.forbidden: set[tuple[str, str]] = set()
        self.kill_point: KillPoint | None = None
        self.url = ""
        self.clock: Callable[[], datetime] = lambda: datetime.now(UTC)
        self.store.controllers += [run_kueue] if has_kueue else []
        self.store.controllers += [run_job_sets, run_jobs]

    def state(self) -> dict[str, Any]:
        """All objects without what differs between two equal runs: versions and UIDs."""
        uids: dict[str, str] = {}
        found = {}
        for resource in self.served:
            for item in self.store.all(resource):
                title = f"{item['kind']} {item['metadata']['name']}"
                uids[item["metadata"]["uid"]] = title
                item["metadata"].pop("resourceVersion", None)
                found[title] = item
        text = json.dumps(found, sort_keys=True)
        for uid, title in uids.items():
            text = text.replace(json.dumps(uid), json.dumps(f"UID of {title}"))
        state: dict[str, Any] = json.loads(text)
        return state

    def counted(self, method: str, path: str, body: Any, act: Callable[[], Object]) -> Object:
        """Do what a request asks, and kill its sender if this is the point for it."""
        self.writes.append(Write(method, path, body))
        point = self.kill_point
        is_it = point is not None and len(self.writes) == point.number
        if is_it and point is not None and not point.is_after:
            point.kill()
            raise ConnectionAbortedError
        try:
            return act()
        finally:
            if is_it and point is not None:
                point.kill()


def run_jobs(store: ObjectStore) -> None:
    """The Job controller with a kubelet: one Pod while a Job is not suspended."""
    for job in store.all(JOBS):
        metadata = job["metadata"]
        namespace, name, uid = metadata["namespace"], metadata["name"], metadata["uid"]
        pods = [pod for pod in store.all(PODS, namespace) if _is_of(pod, uid)]
        active = [pod for pod in pods if pod["status"]["phase"] == "Running"]
        is_over = "deletionTimestamp" in metadata
        if is_over or job["spec"].get("suspend") or value_at(job, ("status", "conditions")):
            for pod in active:
                ended = {"terminated": {"exitCode": 75, "reason": "Error", "finishedAt": CREATED}}
                statuses = [{"name": "main", "state": ended}]
                status = {"phase": "Failed", "containerStatuses": statuses}
                store.merge(PODS, namespace, pod["metadata"]["name"], {"status": status}, "kubelet")
                return
            wanted = 0
        else:
            wanted = 1
        if wanted and not active:
            labels = {
                _JOB_LABEL: name,
                **(value_at(job, ("spec", "template", "metadata", "labels")) or {}),
            }
            reference = {"kind": "Job", "name": name, "uid": uid, "controller": True}
            item = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{name}-{len(pods) + 1}",
                    "namespace": namespace,
                    "labels": labels,
                    "ownerReferences": [reference],
                },
                "status": {
                    "phase": "Running",
                    "containerStatuses": [{"name": "main", "state": {"running": {}}}],
                },
            }
            store.put(PODS, item, "controller")
            return
        if value_at(job, ("status", "active")) != wanted:
            store.merge(JOBS, namespace, name, {"status": {"active": wanted}}, "controller")
            return
    _collect_garbage(store)


def _collect_garbage(store: ObjectStore) -> None:
    """Pods and Workloads of owners that are gone or going."""
    owners = [*store.all(JOBS), *store.all(JOBSETS)]
    living = {
        one["metadata"]["uid"] for one in owners if "deletionTimestamp" not in one["metadata"]
    }
    for resource in (PODS, WORKLOADS, JOBS):
        for item in store.all(resource):
            references = item["metadata"].get("ownerReferences") or []
            if references and not any(one["uid"] in living for one in references):
                store.remove(resource, item["metadata"]["namespace"], item["metadata"]["name"])
                return


def run_job_sets(store: ObjectStore) -> None:
    """The JobSet controller: one Job, suspended as its JobSet is."""
    for one in store.all(JOBSETS):
        metadata = one["metadata"]
        namespace, name = metadata["namespace"], f"{metadata['name']}-workers-0"
        jobs = [job for job in store.all(JOBS, namespace) if job["metadata"]["name"] == name]
        suspend = bool(one["spec"].get("suspend"))
        if not jobs:
            reference = {"kind": "JobSet", "uid": metadata["uid"], "controller": True}
            labels = {_SET_LABEL: metadata["name"]}
            item = {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": labels,
                    "ownerReferences": [reference],
                },
                "spec": {"suspend": suspend, "template": {"metadata": {"labels": labels}}},
            }
            store.put(JOBS, item, "jobset")
            return
        if jobs[0]["spec"].get("suspend") != suspend:
            store.merge(JOBS, namespace, name, {"spec": {"suspend": suspend}}, "jobset")
            return


def run_kueue(store: ObjectStore) -> None:
    """Kueue with quota for all: a Workload for each queued Job, which runs while it is active."""
    for resource in (JOBS, JOBSETS):
        for item in store.all(resource):
            metadata = item["metadata"]
            namespace = metadata["namespace"]
            if QUEUE_LABEL not in (metadata.get("labels") or {}):
                continue
            found = [one for one in store.all(WORKLOADS, namespace) if _is_of(one, metadata["uid"])]
            if not found:
                if "deletionTimestamp" not in metadata:
                    reference = {"kind": item["kind"], "uid": metadata["uid"], "controller": True}
                    name = f"{item['kind'].lower()}-{metadata['name']}"
                    workload = {
                        "apiVersion": WORKLOADS.api_version,
                        "kind": "Workload",
                        "metadata": {
                            "name": name,
                            "namespace": namespace,
                            "ownerReferences": [reference],
                        },
                        "spec": {"active": True},
                    }
                    store.put(WORKLOADS, workload, "kueue")
                    return
                continue
            suspend = found[0]["spec"].get("active") is False
            if item["spec"].get("suspend") != suspend:
                changes = {"spec": {"suspend": suspend}}
                store.merge(resource, namespace, metadata["name"], changes, "kueue")
                return


def _is_of(item: Object, owner: str) -> bool:
    return any(one["uid"] == owner for one in item["metadata"].get("ownerReferences") or ())


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: ApiServer

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            answer = self._answer(parts.path, query, json.loads(body) if body else None)
        except Refused as refused:
            self._send(refused.status, json.dumps(refused.answer).encode())
        except (ConnectionError, TimeoutError):
            self.close_connection = True
        else:
            if answer is not None:
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self._send(200, data)

    do_GET = do_POST = do_PATCH = do_DELETE = _serve

    def _answer(self, path: str, query: dict[str, str], body: Any) -> Object | bytes | None:
        if path == "/version":
            return {"gitVersion": "v1.36.4"}
        if path.endswith("/selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            wanted = (asked["verb"], asked["resource"])
            return {"status": {"allowed": wanted not in self.api.forbidden}}
        words = [unquote(word) for word in path.strip("/").split("/")]
        version = "/".join(words[1:3]) if words[0] == "apis" else words[1]
        rest = words[3:] if words[0] == "apis" else words[2:]
        if not rest:
            return self._discovery(version)
        namespace = None
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = next(
            (one for one in self.api.served if (one.api_version, one.plural) == (version, rest[0])),
            None,
        )
        if resource is None:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        name = rest[1] if len(rest) > 1 else ""
        self._check(resource, namespace, name, rest, query)
        if rest[2:] == ["log"]:
            self.api.store.read(resource, namespace, name)
            return self.api.logs.get(name, b"")
        if self.command == "GET":
            if name:
                return self.api.store.read(resource, namespace, name)
            return self._listed(resource, namespace, query)
        return self._written(resource, namespace, name, query, body)

    def _discovery(self, version: str) -> Object:
        found = [one for one in self.api.served if one.api_version == version]
        if not found:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        return {
            "resources": [
                {"name": one.plural, "kind": one.kind, "namespaced": one.is_namespaced}
                for one in found
            ]
        }

    def _check(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        rest: list[str],
        query: dict[str, str],
    ) -> None:
        verbs = {"GET": "get" if name else "list", "PATCH": "patch", "DELETE": "delete"}
        verb = "watch" if query.get("watch") == "true" else verbs.get(self.command, "create")
        plural = "/".join([resource.plural, *rest[2:]])
        if (verb, plural) in self.api.forbidden:
            where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
            raise Refused(
                403,
                "Forbidden",
                f'{plural} is forbidden: User "x" cannot {verb} resource "{plural}" in API group '
                f'"{resource.group}" {where}',
            )

    def _listed(
        self, resource: Resource, namespace: str | None, query: dict[str, str]
    ) -> Object | None:
        if query.get("watch") == "true":
            self._watch(resource, namespace, query)
            return None
        store = self.api.store
        with store.changed:
            items = [one for one in store.all(resource, namespace) if _is_selected(one, query)]
            return {"metadata": {"resourceVersion": str(store.version)}, "items": items}

    def _watch(self, resource: Resource, namespace: str | None, query: dict[str, str]) -> None:
        store, seen = self.api.store, int(query["resourceVersion"])
        self.close_connection = True
        self.send_response_only(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        while True:
            with store.changed:
                news = [one for one in store.changes if one.version > seen]
                if not news:
                    store.changed.wait(1.0)
            seen = news[-1].version if news else seen
            for one in news:
                is_place = namespace in (None, one.item["metadata"].get("namespace"))
                if one.resource == resource and is_place and _is_selected(one.item, query):
                    line = json.dumps({"type": one.kind, "object": one.item})
                    self.wfile.write(line.encode() + b"\n")
            bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(seen)}}}
            self.wfile.write(json.dumps(bookmark).encode() + b"\n")
            self.wfile.flush()

    def _written(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        query: dict[str, str],
        body: Any,
    ) -> Object:
        store, manager = self.api.store, query.get("fieldManager", "unknown")
        if self.command == "DELETE":
            uid = value_at(body or {}, ("preconditions", "uid"))
            return self.api.counted(
                "DELETE", self.path, body, lambda: store.delete(resource, namespace, name, uid)
            )
        if "apply-patch" not in self.headers["Content-Type"]:
            return self.api.counted(
                "PATCH",
                self.path,
                body,
                lambda: store.merge(resource, namespace, name, body, manager),
            )
        if query.get("dryRun") == "All":
            return store.apply(resource, body, manager, dry_run=True)
        return self.api.counted(
            "PATCH", self.path, body, lambda: store.apply(resource, body, manager, dry_run=False)
        )

    def _send(self, status: int, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self.send_response_only(status)
            self.send_header("Date", format_datetime(self.api.clock(), usegmt=True))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _is_selected(item: Object, query: dict[str, str]) -> bool:
    fields = query.get("fieldSelector", "")
    if fields and fields != f"metadata.name={item['metadata']['name']}":
        return False
    labels = item["metadata"].get("labels") or {}
    pairs = [one.partition("=") for one in query.get("labelSelector", "").split(",") if one]
    return all(labels.get(key) == value if mark else key in labels for key, mark, value in pairs)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that was killed is part of what is tested."""


@contextlib.contextmanager
def api_server(*, has_kueue: bool = False) -> Iterator[ApiServer]:
    """A server on loopback; `url` is its address."""
    api = ApiServer(has_kueue=has_kueue)
    handler = type("Handler", (_Handler,), {"api": api})
    with _Server(("127.0.0.1", 0), handler) as server:
        api.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield api
        finally:
            server.shutdown()
            thread.join()
