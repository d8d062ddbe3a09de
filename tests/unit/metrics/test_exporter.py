"""A run shows its figures to Prometheus, where a port is set."""

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
from tests.unit.checkpoint.stores import memory_url


def fetched(url: str | None) -> str:
    assert url is not None
    with urllib.request.urlopen(url, timeout=5) as answer:
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
                run._checkpointer.save(4)
                run._checkpointer.wait()
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
        connection = http.client.HTTPConnection(exporter.url.split("/")[2], timeout=5)
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

    assert "There is no page of metrics at 127.0.0.1" in caplog.text


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

    with pytest.raises(SettingError, match="A port is a whole number"):
        Exporter([])
