"""An HTTP server in a thread that answers each request by a function, for instance by asking on."""

import contextlib
import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

from tests.patience import PATIENCE_SECONDS


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    method: str
    path: str
    headers: Mapping[str, str]
    """With names in lower case."""
    body: bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """`reset_after`: so many bytes of the body are sent, then the connection is reset; -1: none of
    the answer at all.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    reset_after: int | None = None


@contextlib.contextmanager
def serving(answer: Callable[[Request], Answer]) -> Iterator[str]:
    """The address of a server that answers so."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            given = answer(Request(method=self.command, path=self.path, headers=headers, body=body))
            if given.reset_after == -1:
                self._reset()
                return
            self.send_response_only(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            if "content-length" not in given.headers:
                self.send_header("content-length", str(len(given.body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(given.body[: given.reset_after])
            if given.reset_after is not None:
                self._reset()

        def _reset(self) -> None:
            self.close_connection = True
            self.wfile.flush()
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            # Closed here, because a graceful shutdown would send the end of the stream first.
            self.rfile.close()
            self.connection.close()

        do_GET = do_HEAD = do_PUT = do_POST = do_PATCH = do_DELETE = _serve

        def log_message(self, format: str, *args: object) -> None:
            pass

    with _Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is part of what is tested."""


def forward(server: str, request: Request) -> Answer:
    """What another server answers to the request. Headers that bind it to the first are left."""
    connection = http.client.HTTPConnection(urlsplit(server).netloc, timeout=PATIENCE_SECONDS)
    dropped = ("host", "connection")
    try:
        headers = {name: text for name, text in request.headers.items() if name not in dropped}
        connection.request(request.method, request.path, body=request.body, headers=headers)
        response = connection.getresponse()
        body = response.read()
        kept = {
            name.lower(): value
            for name, value in response.getheaders()
            if name.lower() not in ("connection", "transfer-encoding", "date", "server")
        }
        return Answer(status=response.status, headers=kept, body=body)
    finally:
        connection.close()
