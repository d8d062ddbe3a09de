"""The backends of the queue contract: one row each, with what it can promise.

A test names the traits that it needs, and runs on the backends that have them all.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from outlast.queue import Queue, open_queue
from outlast.results import open_sink
from outlast.results.protocol import TransactionalSink
from outlast.testing import MemoryQueue, MemorySink
from tests.servers.postgres import shared_postgres
from tests.servers.pubsub import client_of, shared_pubsub


@dataclass(frozen=True, kw_only=True, slots=True)
class Backend:
    """A fresh, empty queue. `url` opens it in another process, unless it is None.

    `open` gives one more handle on the same queue; `open_sink` a sink of the same place.
    """

    open: Callable[[], Queue]
    open_sink: Callable[[], TransactionalSink] | None = None
    url: str | None = None
    lease_seconds_least: float = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """How to get a backend, and what it can do.

    Traits: "dedupe" (known keys are not added), "counts" (exact statistics), "order" (oldest
    first), "transaction" (settling is all or nothing, and results share it), "halves" (expired
    chunks come back in halves), "processes" (another process can open it).
    """

    name: str
    opened: Callable[[Path], AbstractContextManager[Backend]]
    traits: frozenset[str]
    marks: tuple[pytest.MarkDecorator, ...] = ()


def on_queues(*traits: str) -> pytest.MarkDecorator:
    """Run a test on every queue with these traits."""
    rows = [
        pytest.param(row, id=row.name, marks=row.marks) for row in ROWS if row.traits >= {*traits}
    ]
    return pytest.mark.parametrize("backend", rows, indirect=True)


def backend_of(request: pytest.FixtureRequest, folder: Path) -> AbstractContextManager[Backend]:
    row: Row = request.param
    return row.opened(folder)


@contextlib.contextmanager
def _memory(_folder: Path) -> Iterator[Backend]:
    queue = MemoryQueue()
    sink = MemorySink(queue.url.removeprefix("memory://"))
    yield Backend(open=lambda: queue, open_sink=lambda: sink)


@contextlib.contextmanager
def _sqlite(folder: Path) -> Iterator[Backend]:
    yield _database(f"sqlite:///{folder / 'queue.db'}")


@contextlib.contextmanager
def _postgres(_folder: Path) -> Iterator[Backend]:
    yield _database(shared_postgres().new_schema())


@contextlib.contextmanager
def _pubsub(_folder: Path) -> Iterator[Backend]:
    emulator = shared_pubsub()
    url = f"pubsub://outlast-test/topic-{uuid.uuid4().hex}?subscription=workers-{uuid.uuid4().hex}"

    def opened() -> Queue:
        # Imported here, because it takes a second that other tests need not wait.
        from outlast.queue.pubsub.queue import PubSubQueue

        return PubSubQueue(url, wait_seconds=1.0)

    with client_of(emulator):
        yield Backend(open=opened, url=url, lease_seconds_least=1.0)


def _database(url: str) -> Backend:
    def sink() -> TransactionalSink:
        opened: Any = open_sink(url)
        assert isinstance(opened, TransactionalSink)
        return opened

    return Backend(open=lambda: open_queue(url), open_sink=sink, url=url)


FULL = frozenset({"dedupe", "counts", "order", "transaction", "halves"})

ROWS = (
    Row(name="memory", opened=_memory, traits=FULL),
    Row(name="sqlite", opened=_sqlite, traits=FULL | {"processes"}),
    Row(
        name="postgres",
        opened=_postgres,
        traits=FULL | {"processes"},
        marks=(pytest.mark.needs("postgres"),),
    ),
    Row(
        name="pubsub",
        opened=_pubsub,
        traits=frozenset(),
        marks=(pytest.mark.needs("pubsub-emulator"),),
    ),
)
