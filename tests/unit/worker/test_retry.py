"""A worker waits for what does not answer from the first moment on, and not for what never will."""

import contextlib
import logging
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import outlast
from outlast.errors import Interrupted
from outlast.queue import Queue, QueueUnavailable, open_queue
from outlast.results import SinkUnavailable, open_sink
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker import Worker
from tests.unit.worker.given import double, numbers, stored


class Flaky:
    """Opens what it is given, after so many tries that fail."""

    def __init__(self, opened: Any, error: Exception, fails: int) -> None:
        self.opened = opened
        self.error = error
        self.fails = fails
        self.tries = 0

    def __call__(self, *_: object) -> Any:
        self.tries += 1
        if self.tries <= self.fails:
            raise self.error
        return self.opened


@pytest.mark.parametrize("what", ["queue", "sink"])
def test_a_server_that_is_down_at_the_start_is_waited_for(
    queue: MemoryQueue,
    sink: MemorySink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    what: str,
) -> None:
    queue.publish(numbers(2))
    down = {"queue": QueueUnavailable("It is starting."), "sink": SinkUnavailable("It is full.")}
    opening = Flaky(queue if what == "queue" else sink, down[what], fails=2)
    function = {"queue": "open_queue", "sink": "open_sink_beside"}[what]
    monkeypatch.setattr(f"outlast.worker.worker.{function}", opening)
    given: dict[str, Any] = {"queue": queue, "sink": sink, what: "some://url"}

    summary = Worker(given["queue"], given["sink"]).run(double)

    assert opening.tries == 3
    assert summary.done == 2
    assert f"{what.capitalize()} unavailable; retrying in 0." in caplog.text


def test_patience_that_ends_at_the_start_raises_what_was_in_the_way(
    sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    opening = Flaky(None, QueueUnavailable("It is starting."), fails=1_000_000)
    monkeypatch.setattr("outlast.worker.worker.open_queue", opening)
    clock = SimpleNamespace(monotonic=lambda: 100.0 * opening.tries)
    monkeypatch.setattr("outlast.worker.retry.time", clock)

    with pytest.raises(QueueUnavailable, match="It is starting"):
        Worker("some://url", sink, patience_seconds=250).run(double)

    assert opening.tries == 3


def test_a_notice_is_heard_while_a_server_is_waited_for_at_the_start(
    sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with outlast.Guard() as guard:

        def down(_url: str) -> Queue:
            guard.interrupt("evicted")
            raise QueueUnavailable("It is starting.")

        monkeypatch.setattr("outlast.worker.worker.open_queue", down)
        with pytest.raises(Interrupted):
            Worker("some://url", sink).run(double)


@pytest.mark.parametrize("open_it", ["queue", "sink"])
def test_what_no_waiting_helps_against_is_reported_at_once(tmp_path: Path, open_it: str) -> None:
    (tmp_path / "notes.db").write_bytes(b"these are my notes, not a database" * 100)
    places = {"queue": f"sqlite:///{tmp_path}/q.db", "sink": f"sqlite:///{tmp_path}/r.db"}
    for wrong in ("missing/q.db", "notes.db"):
        places[open_it] = f"sqlite:///{tmp_path}/{wrong}"

        with pytest.raises((QueueUnavailable, SinkUnavailable), match="Could not open"):
            Worker(places["queue"], places["sink"], patience_seconds=3600).run(double)


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A file that another program has locked for itself."""
    with contextlib.closing(sqlite3.connect(tmp_path / "q.db", isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode=DELETE")
        other.execute("BEGIN EXCLUSIVE")
        yield other


def test_a_file_that_is_locked_at_the_start_is_waited_for(
    tmp_path: Path, locked: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.databases.sqlite._BUSY_SECONDS", 0.1)
    waiting = threading.Event()

    class Hearing(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "Queue unavailable; retrying" in record.getMessage():
                assert "database is locked" in record.getMessage()
                locked.execute("ROLLBACK")
                waiting.set()

    hearing = Hearing()
    logging.getLogger("outlast.worker.retry").addHandler(hearing)
    try:
        url = f"sqlite:///{tmp_path}/q.db"
        summary = Worker(url, url).run(double)
    finally:
        logging.getLogger("outlast.worker.retry").removeHandler(hearing)

    assert waiting.is_set()
    assert summary.done == 0
    with contextlib.closing(open_queue(url)) as queue, contextlib.closing(open_sink(url)) as sink:
        queue.publish(numbers(1))
        Worker(queue, sink).run(double)
        assert stored(sink) == {"item-0000": 0}  # type: ignore[arg-type]  # any sink has results
