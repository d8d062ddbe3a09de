"""A stand-in for the Google APIs that gcloud speaks to. It keeps what is sent."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_DONE = {"name": "operation-1", "status": "DONE", "operationType": "CREATE_NODE_POOL"}


class ContainerStub:
    """`requests` holds (method, path, body) of all that came."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, Any]] = []
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(None)

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", "0"))
                self._answer(json.loads(self.rfile.read(size) or b"{}"))

            do_PUT = do_POST

            def _answer(self, body: Any) -> None:
                path = self.path.partition("?")[0]
                stub.requests.append((self.command, path, body))
                content = json.dumps(_answer_to(self.command, path)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/"

    @property
    def node_pool(self) -> Any:
        """The body of the one request that creates a node pool."""
        [body] = [
            b for method, path, b in self.requests if method == "POST" and "nodePools" in path
        ]
        return body["nodePool"]

    @contextmanager
    def running(self) -> Iterator["ContainerStub"]:
        thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join(5)


def _answer_to(method: str, path: str) -> dict[str, Any]:
    if "iam" in path.lower():
        return {"version": 1, "etag": "CAE=", "bindings": []}
    if path.startswith("/v1/projects/") and path.count("/") == 3:
        return {"projectId": "lab-project", "projectNumber": "123456"}
    if method == "POST" or "/operations/" in path:
        return _DONE
    if "/nodePools/" in path:
        return {"name": path.rpartition("/")[2], "status": "RUNNING", "version": "1.35.1"}
    return {"name": "lab", "status": "RUNNING", "currentMasterVersion": "1.35.1-gke.1000000"}
