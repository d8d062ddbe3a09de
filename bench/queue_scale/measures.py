"""What the length of a queue costs: its calls at 10,000,000 items against 10,000, taking turns."""

import contextlib
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import psycopg

from bench.measure import Row, counted
from bench.queue.ours import TERMS
from bench.queue.system import PAYLOAD
from bench.queue_scale.filling import KeptServer, sqlite_url
from outlast.queue import Lease, Queue, Settlement, open_queue
from outlast.queue.items import Item

CALLS = ("claim", "settle", "publish", "stats")
_CHUNK = 10
_PUBLISHED = _CHUNK
# They read from the disk what others then find in memory.
_UNCOUNTED = 20
_BAR = "≤ 1.2 x"

T = TypeVar("T")


def sqlite_rows(folder: Path, rounds: int) -> list[Row]:
    with contextlib.ExitStack() as stack:
        urls = {name: sqlite_url(folder, name) for name in ("few", "many")}
        return _compared(_opened(stack, urls), rounds)


def postgres_rows(server: KeptServer, dead: int, rounds: int) -> list[Row]:
    """Also while so many rows of done items cannot be vacuumed."""
    with contextlib.ExitStack() as stack:
        rows = _compared(
            _opened(stack, {name: server.url(name) for name in ("few", "many")}), rounds
        )
        url = server.url("drained")
        stack.enter_context(_dead_rows(url, dead))
        queues = _opened(stack, {"few": server.url("few"), "many": url})
        return rows + _compared(queues, rounds, f", {dead:,} dead rows kept")


def _opened(stack: contextlib.ExitStack, urls: Mapping[str, str]) -> dict[str, Queue]:
    return {
        name: stack.enter_context(contextlib.closing(open_queue(url))) for name, url in urls.items()
    }


@contextlib.contextmanager
def _dead_rows(url: str, count: int) -> Iterator[None]:
    """The first items are done, and a transaction elsewhere keeps their rows from being removed."""
    with psycopg.connect(url, autocommit=True) as other, psycopg.connect(url) as holding:
        holding.execute("SELECT txid_current()")
        done = other.execute(
            "DELETE FROM outlast_ready WHERE id IN "
            "(SELECT id FROM outlast_ready ORDER BY id LIMIT %s)",
            (count,),
        ).rowcount
        other.execute("UPDATE outlast_queue SET done = done + %s", (done,))
        yield
        holding.rollback()


def _compared(queues: Mapping[str, Queue], rounds: int, condition: str = "") -> list[Row]:
    seen: dict[tuple[str, str], list[float]] = {
        (name, call): [] for name in queues for call in CALLS
    }
    numbers = itertools.count(time.time_ns())
    for number in counted(_UNCOUNTED + rounds):
        for name, queue in queues.items():
            for call, seconds in _round(queue, numbers):
                if number >= _UNCOUNTED:
                    seen[name, call].append(seconds)
    rows = []
    for call in CALLS:
        less, more = (statistics.median(seen[name, call]) * 1e6 for name in ("few", "many"))
        rows.append(
            Row(
                f"{call}{condition}", f"{more:,.0f} µs", f"{more / less:.2f} x {less:,.0f} µs", _BAR
            )
        )
    return rows


def _round(queue: Queue, numbers: Iterator[int]) -> Iterator[tuple[str, float]]:
    lease, seconds = _timed(lambda: queue.claim(_CHUNK, TERMS))
    yield "claim", seconds
    assert lease is not None
    done = Settlement(done=tuple(item.key for item in lease.items))
    yield "settle", _timed(_settling(queue, lease, done))[1]
    items = [Item(f"more-{next(numbers)}", PAYLOAD) for _ in range(_PUBLISHED)]
    yield "publish", _timed(lambda: queue.publish(items))[1]
    yield "stats", _timed(queue.stats)[1]


def _settling(queue: Queue, lease: Lease, done: Settlement) -> Callable[[], Lease | None]:
    return lambda: queue.settle(lease, done, TERMS)


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    value = call()
    return value, time.perf_counter() - started
