"""A server that knows where buckets are, like Cloud Storage, and misbehaves on request."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tests.stubs.metadata import reply

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "/storage/v1/b/"


class StorageServer:
    """Serves `locations` by bucket to whoever has the `token`; `mood` overrides what it does.

    With a folder that holds `cert.pem` and `key.pem`, it speaks TLS.
    """

    def __init__(self, token: str, certificate: Path | None = None) -> None:
        self.locations: dict[str, object] = {}
        self.mood: Callable[[BaseHTTPRequestHandler], bool] | None = None
        self.seen: list[tuple[str, str | None]] = []
        self._token = token
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        scheme = "http"
        if certificate is not None:
            scheme = "https"
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}"
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
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(stub) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                stub.seen.append((self.path, self.headers["Authorization"]))
                if stub.mood is None or not stub.mood(self):
                    stub._answer(self)

            def log_message(self, format: str, *args: object) -> None: ...

        return Handler

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        bucket = request.path.removeprefix(PREFIX).removesuffix("/storageLayout")
        if request.headers["Authorization"] != f"Bearer {self._token}":
            reply(request, 401)
        elif bucket not in self.locations:
            reply(request, 404)
        else:
            facts = {"location": self.locations[bucket], "locationType": "region", "bucket": bucket}
            reply(request, 200, json.dumps(facts))
