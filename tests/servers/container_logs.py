"""The part of a kubelet that serves the logs of containers, which the API server asks for them."""

import contextlib
import itertools
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import BufferedReader
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from tests.servers.certificates import KeyPair, make_certificate


@contextlib.contextmanager
def serving_logs(
    authority: KeyPair, folder: Path, is_running: Callable[[str], bool]
) -> Iterator[int]:
    """Serve POD.log of a folder as /containerLogs/NAMESPACE/POD/CONTAINER. Gives the port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            pod = parts.path.split("/")[3]
            query = parse_qs(parts.query)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            with (folder / f"{pod}.log").open("rb") as file:
                if tail := query.get("tailLines"):
                    lines = file.read().splitlines(keepends=True)
                    self.wfile.write(b"".join(lines[-int(tail[0]) :]))
                self._stamps = stamps() if query.get("timestamps") == ["true"] else None
                self._send(file, pod, follow=query.get("follow") == ["true"])

        def _send(self, file: BufferedReader, pod: str, *, follow: bool) -> None:
            while True:
                # Asked first, so that nothing printed before the end is missed.
                is_over = not follow or not is_running(pod)
                while data := file.readline() if self._stamps else file.read(65536):
                    self.wfile.write(next(self._stamps, b"") + data if self._stamps else data)
                if is_over:
                    return
                time.sleep(0.02)

        def log_message(self, format: str, *args: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*make_certificate(authority, "kubelet").write(folder, "kubelet"))
    with _Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


def stamps() -> Iterator[bytes]:
    """The time stamps of the lines of a log: always the same for the same line, and increasing."""
    for number in itertools.count():
        yield b"2026-01-01T00:00:00.%09dZ " % number


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: object, client_address: object) -> None:
        """A reader that goes away is part of what is tested."""
