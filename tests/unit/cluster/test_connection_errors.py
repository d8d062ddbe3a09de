"""Every way in which a connection cannot be made: one error, one hint, exit 2 or 3."""

import base64
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from outlast.cli.app import run
from tests.servers.certificates import KeyPair, make_authority, make_certificate
from tests.servers.ports import free_port
from tests.unit.cluster.kubeconfigs import write_kubeconfig


def _doctor(*arguments: str | Path) -> tuple[int, list[str]]:
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()) as err:
        code = run(["doctor", *map(str, arguments)])
    return code, err.getvalue().splitlines()


def _expect(result: tuple[int, list[str]], code: int, words: str) -> None:
    found, lines = result
    assert found == code, lines
    assert [line[:7] for line in lines] == ["error: ", "hint:  "], lines
    assert words in lines[0]


@contextmanager
def _tls_server(folder: Path, pair: KeyPair) -> Iterator[str]:
    """Completes or fails TLS handshakes, and answers nothing."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*pair.write(folder, "server"))
    listener = socket.create_server(("127.0.0.1", 0))
    stopping = threading.Event()

    def serve() -> None:
        while not stopping.is_set():
            connection, _ = listener.accept()
            with connection:
                try:
                    context.wrap_socket(connection, server_side=True).close()
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    port = listener.getsockname()[1]
    try:
        yield f"https://127.0.0.1:{port}"
    finally:
        stopping.set()
        socket.create_connection(("127.0.0.1", port)).close()
        thread.join()
        listener.close()


def _trusting(authority: KeyPair) -> dict[str, Any]:
    return {"certificate-authority-data": base64.b64encode(authority.certificate).decode()}


def test_no_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    _expect(_doctor(), 2, "No kubeconfig was found")


def test_a_wrong_context(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1")

    _expect(_doctor("--kubeconfig", file, "--context", "nosuch"), 2, "no context 'nosuch'")


def test_a_missing_plugin(tmp_path: Path) -> None:
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": "gke-nosuch-plugin"}
    file = write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1", user={"exec": entry})

    _expect(_doctor("--kubeconfig", file), 2, "'gke-nosuch-plugin' is not installed")


def test_nobody_listens(tmp_path: Path) -> None:
    file = write_kubeconfig(tmp_path / "config", f"https://127.0.0.1:{free_port()}")

    _expect(_doctor("--kubeconfig", file), 3, "cannot be reached")


def test_an_expired_certificate(tmp_path: Path) -> None:
    authority = make_authority()
    expired = make_certificate(authority, "server", is_expired=True)
    with _tls_server(tmp_path, expired) as url:
        file = write_kubeconfig(tmp_path / "config", url, cluster=_trusting(authority))
        result = _doctor("--kubeconfig", file)

    _expect(result, 3, "certificate has expired")


def test_a_certificate_of_another_authority(tmp_path: Path) -> None:
    with _tls_server(tmp_path, make_certificate(make_authority(), "server")) as url:
        file = write_kubeconfig(tmp_path / "config", url, cluster=_trusting(make_authority()))
        result = _doctor("--kubeconfig", file)

    _expect(result, 3, "is not valid here")


def test_a_server_of_another_name_needs_tls_server_name(tmp_path: Path) -> None:
    authority = make_authority()
    with _tls_server(tmp_path, make_certificate(authority, "server")) as url:
        trusting = _trusting(authority)
        wrong = {**trusting, "tls-server-name": "example.com"}
        file = write_kubeconfig(tmp_path / "config", url, cluster=wrong)
        refused = _doctor("--kubeconfig", file)
        right = {**trusting, "tls-server-name": "localhost"}
        file = write_kubeconfig(tmp_path / "config", url, cluster=right)
        accepted = _doctor("--kubeconfig", file)

    _expect(refused, 3, "is not valid here")
    # The handshake succeeded; this server then says nothing.
    _expect(accepted, 3, "cannot be reached")


@pytest.mark.parametrize("data", ["bm90IHBlbQ==", "%%%"])
def test_a_broken_authority(tmp_path: Path, data: str) -> None:
    cluster = {"certificate-authority-data": data}
    file = write_kubeconfig(tmp_path / "config", "https://127.0.0.1:1", cluster=cluster)

    _expect(_doctor("--kubeconfig", file), 2, "certificate")
