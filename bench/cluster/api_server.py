"""An API server with many Jobs, Pods and events, for measurements. Deterministic; loopback only.

Lists in pages, watches with bookmarks. `POST /changes?count=N` changes N Pods, as fast as they are
read; `POST /mark?word=W` sends an event with this word about the first Pod, and answers with the
monotonic time of it; `GET /calls` says how many requests of clients it has had.
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

BOOKMARK_SECONDS = 30.0
NAMESPACES = 20
STOCKOUT = (
    "Node scale up in zones us-central1-a associated with this pod failed: GCE out of resources. "
    "Pod is at risk of not being scheduled."
)
PATHS = {
    "/apis/batch/v1/jobs": ("batch/v1", "Job"),
    "/api/v1/pods": ("v1", "Pod"),
    "/api/v1/events": ("v1", "Event"),
    "/api/v1/nodes": ("v1", "Node"),
}


Change = tuple[dict[str, Any], bytes]


class World:
    """All objects, as JSON, and what has changed since."""

    def __init__(self, jobs: int, pods: int, events: int) -> None:
        self.objects = {
            "Job": [job(number) for number in range(jobs)],
            "Pod": [pod(number, jobs) for number in range(pods)],
            "Event": [event(number, pods) for number in range(events)],
            "Node": [node(number) for number in range(200)],
        }
        self.jobs = jobs
        self.changed = threading.Condition()
        self.changes: dict[str, list[Change]] = {kind: [] for kind in self.objects}
        self.calls = 0

    def change(self, count: int) -> None:
        with self.changed:
            for _ in range(count):
                number = len(self.changes["Pod"])
                item = pod(number % len(self.objects["Pod"]), self.jobs, version=10**6 + number)
                self._add("Pod", item)
            self.changed.notify_all()

    def mark(self, word: str) -> float:
        """Send an event that names a zone; returns when."""
        item = event(1, len(self.objects["Pod"]))
        metadata = {"name": "mark", "uid": "mark", "namespace": "team-0", "resourceVersion": "2"}
        item |= {"metadata": metadata, "involvedObject": {"kind": "Pod", "uid": "pod-0"}}
        item["message"] = STOCKOUT.replace("us-central1-a", word)
        with self.changed:
            self._add("Event", item)
            self.changed.notify_all()
            return time.monotonic()

    def _add(self, kind: str, item: dict[str, Any]) -> None:
        line = json.dumps({"type": "MODIFIED", "object": item}).encode()
        self.changes[kind].append((item, line))


def job(number: int) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/name": f"run-{number}",
        "app.kubernetes.io/managed-by": "outlast",
        "app.kubernetes.io/component": "training",
    }
    env = [{"name": f"OUTLAST_VALUE_{index}", "value": "x" * 20} for index in range(12)]
    env.append({"name": "OUTLAST_RUN_URL", "value": f"gs://runs/run-{number}"})
    spec = {"containers": [{"name": "main", "image": "registry.example/train:1", "env": env}]}
    return {
        "metadata": {**_metadata(f"run-{number}", f"job-{number}", number), "labels": labels},
        "spec": {
            "parallelism": 5,
            "completions": 5,
            "backoffLimit": 13,
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
        "status": {"active": 5, "ready": 4},
    }


def pod(number: int, jobs: int, version: int = 1) -> dict[str, Any]:
    """A Pod: every fifth waits for a node, the others run."""
    owner = number % jobs
    labels = {
        "app.kubernetes.io/managed-by": "outlast",
        "job-name": f"run-{owner}",
        "batch.kubernetes.io/job-name": f"run-{owner}",
    }
    is_waiting = owner % 5 == 0
    condition = {
        "type": "PodScheduled",
        "status": "False" if is_waiting else "True",
        "reason": "Unschedulable" if is_waiting else "",
        "message": "0/200 nodes are available: 200 Insufficient nvidia.com/gpu." * is_waiting,
        "lastTransitionTime": "2026-11-16T11:00:00Z",
    }
    resources = {"requests": {"cpu": "16500m", "memory": "66Gi", "nvidia.com/gpu": "2"}}
    main = {"name": "main", "image": "registry.example/train:1", "resources": resources}
    running = {"name": "main", "state": {"running": {"startedAt": "2026-11-16T11:00:00Z"}}}
    metadata = _metadata(f"run-{owner}-{number}", f"pod-{number}", owner, version)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "uid": f"job-{owner}", "controller": True}
    return {
        "metadata": {**metadata, "labels": labels, "ownerReferences": [reference]},
        "spec": {
            "containers": [main],
            "nodeSelector": {"cloud.google.com/gke-spot": "true"},
            **({} if is_waiting else {"nodeName": f"node-{number % 200}"}),
        },
        "status": {
            "phase": "Pending" if is_waiting else "Running",
            "conditions": [condition],
            "containerStatuses": [] if is_waiting else [running],
        },
    }


def event(number: int, pods: int) -> dict[str, Any]:
    owner = number % pods
    return {
        "metadata": _metadata(f"event-{number}", f"event-{number}", owner),
        "involvedObject": {"kind": "Pod", "uid": f"pod-{owner}"},
        "type": "Warning" if number % 2 else "Normal",
        "reason": "FailedScaleUp" if number % 2 else "Scheduled",
        "message": STOCKOUT if number % 2 else f"Successfully assigned run-{owner} to a node",
        "eventTime": "2026-11-16T11:00:00.000000Z",
    }


def node(number: int) -> dict[str, Any]:
    labels = {"cloud.google.com/gke-spot": "true", "topology.kubernetes.io/zone": "us-central1-a"}
    return {
        "metadata": {**_metadata(f"node-{number}", f"node-{number}", 0), "labels": labels},
        "spec": {},
        "status": {"allocatable": {"cpu": "23", "memory": "90Gi", "nvidia.com/gpu": "2"}},
    }


def _metadata(name: str, uid: str, owner: int, version: int = 1) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": f"team-{owner % NAMESPACES}",
        "uid": uid,
        "resourceVersion": str(version),
        "creationTimestamp": "2026-11-16T10:59:00Z",
    }


class Handler(BaseHTTPRequestHandler):
    """Answers lists, watches, and the two requests of the measurement itself."""

    protocol_version = "HTTP/1.1"
    world: World

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        if parts.path == "/calls":
            self._answer({"calls": self.world.calls})
            return
        self.world.calls += 1
        path, namespace, name = _split(parts.path)
        found = PATHS.get(path)
        if found is None:
            self._answer({"kind": "Status", "code": 404, "message": "not found"}, status=404)
            return
        selected = Selection(namespace, name, query)
        if name:
            self._get(found[1], selected)
        elif query.get("watch") == "true":
            self._watch(found[1], selected)
        else:
            self._list(found[1], query, selected)

    def do_POST(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(size)
        parts = urlsplit(self.path)
        if parts.path == "/changes":
            self.world.change(int(parse_qs(parts.query)["count"][0]))
            self._answer({})
            return
        if parts.path == "/mark":
            self._answer({"at": self.world.mark(parse_qs(parts.query)["word"][0])})
            return
        self.world.calls += 1
        self._answer({"status": {"allowed": True}})

    def _get(self, kind: str, selected: "Selection") -> None:
        item = next((one for one in self.world.objects[kind] if selected.has(one)), None)
        missing = {"kind": "Status", "code": 404, "message": "not found"}
        self._answer(item or missing, status=200 if item else 404)

    def _list(self, kind: str, query: dict[str, str], selected: "Selection") -> None:
        items = [one for one in self.world.objects[kind] if selected.has(one)]
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 500)
        more = str(start + limit) if start + limit < len(items) else ""
        metadata = {"resourceVersion": "1", "continue": more}
        self._answer({"metadata": metadata, "items": items[start : start + limit]})

    def _watch(self, kind: str, selected: "Selection") -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Connection", "close")
        self.end_headers()
        sent = 0
        bookmark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}
        while True:
            with self.world.changed:
                if sent == len(self.world.changes[kind]):
                    self.world.changed.wait(BOOKMARK_SECONDS)
                news = self.world.changes[kind][sent:]
            sent += len(news)
            lines = [line for item, line in news if selected.has(item)]
            if news and not lines:
                continue
            data = b"".join(line + b"\n" for line in lines or [json.dumps(bookmark).encode()])
            try:
                self.wfile.write(data)
                self.wfile.flush()
            except OSError:
                return

    def _answer(self, body: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


class Selection:
    """Which objects a request is about."""

    def __init__(self, namespace: str, name: str, query: dict[str, str]) -> None:
        fields = query.get("fieldSelector", "").partition("metadata.name=")[2]
        self._namespace, self._name = namespace, name or fields
        pairs = [one.partition("=") for one in query.get("labelSelector", "").split(",") if one]
        self._labels = {key: value for key, _, value in pairs}

    def has(self, item: dict[str, Any]) -> bool:
        metadata = item["metadata"]
        labels = metadata.get("labels") or {}
        return (
            self._namespace in ("", metadata["namespace"])
            and self._name in ("", metadata["name"])
            and all(labels.get(key) == value for key, value in self._labels.items())
        )


def _split(path: str) -> tuple[str, str, str]:
    """The path of the collection in all namespaces, the namespace, and the name of one object."""
    head, mark, rest = path.partition("/namespaces/")
    if not mark:
        return path, "", ""
    namespace, _, rest = rest.partition("/")
    plural, _, name = rest.partition("/")
    return f"{head}/{plural}", namespace, name


if __name__ == "__main__":
    Handler.world = World(*map(int, sys.argv[1:4]))
    ThreadingHTTPServer.daemon_threads = True
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        print(f"http://127.0.0.1:{server.server_port}", flush=True)
        server.serve_forever()
