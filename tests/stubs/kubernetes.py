"""A TLS server that answers like the Kubernetes API, with the service account that trusts it."""

import json
import ssl
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self


class ApiServer:
    """Gives `answers` in turn, the last one for ever, and keeps what it saw."""

    def __init__(self, service_account: Path) -> None:
        self.answers: list[tuple[int, object]] = []
        self.seen: list[tuple[str, str | None]] = []
        self.service_account = service_account
        make_certificate(service_account / "ca.crt", service_account / "key.pem")
        (service_account / "token").write_text("pod-token\n")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(service_account / "ca.crt", service_account / "key.pem")
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self.environ = {
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self._server.server_port),
        }

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

    def _handler(api) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.seen.append((self.path, self.headers["Authorization"]))
                status, body = api.answers.pop(0) if len(api.answers) > 1 else api.answers[0]
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            def log_message(self, format: str, *args: object) -> None: ...

        return Handler


def make_certificate(certificate: Path, key: Path) -> None:
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=api", "-addext", "subjectAltName=IP:127.0.0.1"]
    command += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(command, check=True, capture_output=True)


def node_with(annotations: object) -> dict[str, object]:
    return {"kind": "Node", "metadata": {"name": "gke-flex-1", "annotations": annotations}}
