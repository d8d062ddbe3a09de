"""A metadata server that speaks Compute Engine's protocol, and misbehaves on request."""

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "/computeMetadata/v1/"


class MetadataServer:
    """Serves `values` by path and long-polls their changes; `mood` overrides what it does."""

    def __init__(self) -> None:
        self.values = {"instance/preempted": "FALSE", "instance/maintenance-event": "NONE"}
        self.mood: Callable[[BaseHTTPRequestHandler], bool] | None = None
        self.requests: list[str] = []
        self._changed = threading.Condition()
        self._closed = False
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.host = f"127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.vanish()

    def vanish(self) -> None:
        """Stop at once: no connection is answered any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def set(self, path: str, value: str) -> None:
        with self._changed:
            self.values[path] = value
            self._changed.notify_all()

    def _handler(stub) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.requests.append(self.path)
                if stub.mood is not None and stub.mood(self):
                    return
                stub._answer(self)

            def log_message(self, format: str, *args: object) -> None: ...

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        url = urlsplit(request.path)
        path = url.path.removeprefix(PREFIX)
        if request.headers["Metadata-Flavor"] != "Google":
            reply(request, 403)
        elif path not in self.values:
            reply(request, 404)
        else:
            query = parse_qs(url.query)
            value = self._value(path, query)
            reply(request, 200, value, {"ETag": etag_of(value)})

    def _value(self, path: str, query: dict[str, list[str]]) -> str:
        with self._changed:
            if query.get("wait_for_change") == ["true"]:
                give_up_at = time.monotonic() + float(query["timeout_sec"][0])
                while etag_of(self.values[path]) == query["last_etag"][0] and not self._closed:
                    if not self._changed.wait(give_up_at - time.monotonic()):
                        break
            return self.values[path]


def etag_of(value: str) -> str:
    return f"{sum(value.encode()):x}"


def reply(
    request: BaseHTTPRequestHandler,
    status: int,
    body: str = "",
    headers: dict[str, str] | None = None,
) -> bool:
    try:
        request.send_response(status)
        for name, value in {"Metadata-Flavor": "Google", **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body.encode())
    except OSError:
        pass
    return True
