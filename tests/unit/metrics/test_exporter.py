"""A run shows its figures to Prometheus, where a port is set."""

import contextlib
import http.client
import re
import socket
import threading
import time
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import outlast
from outlast.errors import SettingError
from outlast.metrics import Exporter, Metric
from outlast.metrics.server import CONNECTIONS_MAX, REQUEST_BYTES_MAX, PageServer
from tests.patience import PATIENCE_SECONDS
from tests.unit.checkpoint.stores import memory_url


def fetched(url: str | None) -> str:
    assert url is not None
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        text: str = answer.read().decode()
    return text


def figure(page: str, name: str) -> float:
    found = re.search(rf"^{name} (\S+)$", page, re.MULTILINE)
    assert found, page
    return float(found[1])


def test_a_run_shows_progress_the_newest_checkpoint_and_the_expiry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expires = datetime.now(UTC) + timedelta(hours=3)
    monkeypatch.setenv("OUTLAST_METRICS_PORT", "0")
    monkeypatch.setenv("OUTLAST_EXPIRES_AT", expires.isoformat())
    state: dict[str, Any] = {"x": np.zeros(3)}
    with outlast.Run(memory_url(), state) as run:
        for step in run.steps(5):
            state["x"] += 1
            if step == 3:
                run._session.save(4)
                run._session.wait()
                page = fetched(run._exporter.url)

    assert figure(page, "outlast_progress_total") == 3
    assert abs(figure(page, "outlast_checkpoint_timestamp_seconds") - time.time()) < 60
    assert abs(figure(page, "outlast_expires_timestamp_seconds") - expires.timestamp()) < 5
    assert "# TYPE outlast_progress_total counter" in page


def test_without_a_port_there_is_no_page_and_no_thread() -> None:
    with Exporter([]) as exporter:
        assert exporter.url is None
        assert not [t for t in threading.enumerate() if t.name == "outlast-metrics"]


def test_the_page_listens_on_loopback_and_is_gone_when_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OUTLAST_METRICS_PORT", "0")

    with Exporter([]) as exporter:
        assert exporter.url is not None
        assert exporter.url.startswith("http://127.0.0.1:")
        connection = http.client.HTTPConnection(
            exporter.url.split("/")[2], timeout=PATIENCE_SECONDS
        )
        connection.request("GET", "/etc/passwd")
        assert connection.getresponse().status == 404
        connection.close()

    with pytest.raises(OSError):
        fetched(exporter.url)
    assert not [t for t in threading.enumerate() if t.name == "outlast-metrics"]


def test_a_port_in_use_is_said_and_no_reason_to_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setenv("OUTLAST_METRICS_PORT", str(taken.getsockname()[1]))

        with Exporter([]) as exporter:
            assert exporter.url is None

    assert "Cannot serve metrics at 127.0.0.1" in caplog.text


def test_a_figure_that_cannot_be_read_is_left_out() -> None:
    def fails() -> float:
        raise ConnectionError("gone")

    metrics = [
        Metric(name="a", kind="gauge", meaning="Fails.", read=fails),
        Metric(name="b", kind="gauge", meaning="Unknown.", read=lambda: None),
        Metric(name="c", kind="gauge", meaning="Known.", read=lambda: 2.5),
    ]

    assert Exporter(metrics).page() == "# HELP c Known.\n# TYPE c gauge\nc 2.5\n"


def test_a_port_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_METRICS_PORT", "http")

    with pytest.raises(SettingError, match="Expected a port from 0 to 65535"):
        Exporter([])


def is_closed(connection: socket.socket) -> bool:
    """Waits for the server to say something, and whether that is the end of the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def test_idle_connections_neither_block_a_scrape_nor_pile_up() -> None:
    before = set(threading.enumerate())
    # No deadline is near, so only the limit can close a connection.
    server = PageServer("127.0.0.1", 0, lambda: "a 1.0\n", deadline_seconds=3600)
    url = f"http://127.0.0.1:{server.port}/metrics"
    idle = []

    with contextlib.ExitStack() as stack:
        stack.callback(server.close)
        for number in range(200):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            # Some have begun a request that never ends.
            connection.sendall(b"GET /metrics HTTP/1.1\r\nX: " if number % 2 else b"")
            idle.append(connection)
        page = fetched(url)
        threads = set(threading.enumerate()) - before

        assert figure(page, "a") == 1
        # The oldest are gone, whatever they sent, and no more than the limit are kept.
        assert all(is_closed(connection) for connection in idle[: 200 - CONNECTIONS_MAX])
        assert len(threads) <= 2
        assert figure(fetched(url), "a") == 1


def test_a_page_larger_than_all_buffers_arrives() -> None:
    page = "x" * 20_000_000
    server = PageServer("127.0.0.1", 0, lambda: page)
    try:
        assert fetched(f"http://127.0.0.1:{server.port}/metrics") == page
    finally:
        server.close()


def test_a_request_that_trickles_in_has_one_deadline() -> None:
    server = PageServer("127.0.0.1", 0, lambda: "", deadline_seconds=0.2)
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.settimeout(0.1)
            # Fewer bytes than a request may have, so that its size cannot be what ends it.
            assert any(is_closed_after_a_byte(connection) for _ in range(REQUEST_BYTES_MAX // 10))
    finally:
        server.close()


def is_closed_after_a_byte(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"x")
        return is_closed(connection)
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_request_without_end_is_cut_off() -> None:
    server = PageServer("127.0.0.1", 0, lambda: "", deadline_seconds=3600)
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"a" * (REQUEST_BYTES_MAX * 4))
            assert is_closed(connection)
    finally:
        server.close()


def test_a_figure_that_hangs_ends_by_the_deadline_and_holds_nobody_up() -> None:
    release, entered = threading.Event(), threading.Event()

    def page() -> str:
        entered.set()
        release.wait()
        return ""

    server = PageServer("127.0.0.1", 0, page, deadline_seconds=0.2)
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert entered.wait(PATIENCE_SECONDS)
            assert is_closed(connection)
        server.close()
    finally:
        release.set()


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        (b"GET / HTTP/1.1", b"200"),
        (b"GET /metrics?x=1 HTTP/1.0", b"200"),
        (b"GET /../etc HTTP/1.1", b"404"),
        (b"POST /metrics HTTP/1.1", b"405"),
        (b"\xff\xfe", b"400"),
        (b"GET /metrics SPDY/3", b"400"),
    ],
)
def test_only_the_page_is_given_out(request_line: bytes, status: bytes) -> None:
    server = PageServer("127.0.0.1", 0, lambda: "figures\n")
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(request_line + b"\r\n\r\n")
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    finally:
        server.close()

    assert answer.split()[1] == status
    assert answer.endswith(b"figures\n") == (status == b"200")
