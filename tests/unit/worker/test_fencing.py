"""Results of several queues and versions in one sink: no clock decides, and nothing is dropped."""

import contextlib
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from outlast.queue import LeaseTerms, Queue, Settlement, open_queue
from outlast.results import Result, Sink, open_sink
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker import Worker
from tests.faults.worker_around import ApartSink
from tests.unit.worker.given import double, errors_of, numbers, stored

HOUR_SECONDS = 3600.0


@contextlib.contextmanager
def places(folder: Path, name: str, *, apart: bool) -> Iterator[tuple[Queue, Sink]]:
    """A queue of its own, and the one sink: in another file than the queue, or in the same."""
    queue_file = folder / f"{name}.db" if apart else folder / "shared.db"
    with (
        contextlib.closing(open_queue(f"sqlite:///{queue_file}")) as queue,
        contextlib.closing(open_sink(f"sqlite:///{folder}/shared.db")) as sink,
    ):
        yield queue, sink


def results(sink: Sink) -> dict[str, object]:
    return {result.key: json.loads(result.payload) for result in sink.results()}


def work(queue: Queue, sink: Sink, version: str) -> None:
    summary = Worker(queue, sink, result_version=version).run(lambda number: f"{version}-{number}")
    assert summary.done == 5


@pytest.mark.parametrize("moved_seconds", [HOUR_SECONDS, -HOUR_SECONDS], ids=["back", "ahead"])
def test_a_clock_that_is_moved_between_two_versions_costs_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved_seconds: float
) -> None:
    real = time.time
    with places(tmp_path, "one", apart=True) as (queue, sink):
        monkeypatch.setattr(time, "time", lambda: real() + moved_seconds)
        queue.publish(numbers(5))
        work(queue, sink, "v1")
    with places(tmp_path, "two", apart=True) as (queue, sink):
        monkeypatch.setattr(time, "time", real)
        queue.publish(numbers(5))
        work(queue, sink, "v2")

        assert results(sink) == {key: f"v2-{n}" for key, n in numbers(5).items()}
        assert sink.count(version="v2") == 5


def test_a_clock_that_is_moved_back_costs_nothing_in_one_file_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    with places(tmp_path, "one", apart=True) as (queue, sink):
        monkeypatch.setattr(time, "time", lambda: real() + HOUR_SECONDS)
        queue.publish(numbers(5))
        work(queue, sink, "v1")
    with places(tmp_path, "two", apart=False) as (queue, sink):
        monkeypatch.setattr(time, "time", real)
        assert queue.database == sink.database  # type: ignore[attr-defined]  # SQLite's
        queue.publish(numbers(5))
        work(queue, sink, "v2")

        assert results(sink) == {key: f"v2-{n}" for key, n in numbers(5).items()}


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
def test_a_refused_result_is_neither_done_nor_silent(
    queue: MemoryQueue, sink: MemorySink, apart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    queue.publish(numbers(4))
    sink.store([Result("item-0003", "0")], token=1, version="first", queue=identity(queue))
    sink.store([Result("item-0001", "7")], token=1, version="newer", queue="newer")

    summary = Worker(queue, ApartSink(sink) if apart else sink, result_version="first").run(double)

    assert (summary.done, summary.skipped, summary.refused, summary.dead) == (2, 1, 1, 1)
    assert stored(sink) == {"item-0000": 0, "item-0001": 7, "item-0002": 4, "item-0003": 0}
    stats = queue.stats()
    assert (stats.done, stats.dead, stats.leased) == (3, 1, 0)
    assert "publish the item to a new queue" in errors_of(queue)["item-0001"]
    assert f"{sink.url} refused the results of 1 items" in caplog.text
    assert "1 refused" in str(summary)


def identity(queue: MemoryQueue) -> str:
    lease = queue.claim(1, LeaseTerms(worker="other"))
    assert lease is not None
    keys = tuple(item.key for item in lease.items)
    queue.settle(lease, Settlement(released=keys), LeaseTerms(worker="other"))
    return lease.queue


def test_a_result_that_another_queue_stored_meanwhile_is_as_good(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(2))
    sink.store([Result("other", "0")], token=1, version="", queue=identity(queue))

    def beaten(number: int) -> int:
        sink.store([Result("item-0001", '"theirs"')], token=1, version="", queue="newer")
        return number

    summary = Worker(queue, sink).run(beaten)

    assert (summary.done, summary.skipped, summary.refused, summary.dead) == (1, 1, 0, 0)
    assert stored(sink)["item-0001"] == "theirs"
    assert queue.stats().done == 2
