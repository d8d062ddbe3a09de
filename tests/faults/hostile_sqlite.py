"""SQLite queue and sink files with contents that this library never writes."""

import contextlib
import random
import sqlite3
from pathlib import Path

from outlast.errors import OutlastError
from outlast.queue import Failure, LeaseTerms, Settlement
from outlast.queue.sqlite.queue import SQLiteQueue
from outlast.results import Result
from outlast.results.sqlite import SQLiteSink

# As SQL, so that text that is not UTF-8 can be stored, too.
VALUES = (
    "'abc'",
    "''",
    "x'ff00'",
    "CAST(x'ff' AS TEXT)",
    "9223372036854775807",
    "-9223372036854775808",
    "-5",
    "0",
    "2",
    "1.5",
    "1e308",
    "-1e308",
    "9e999",
    "NULL",
)
TERMS = LeaseTerms(worker="tester", lease_seconds=60.0, failures_max=2)


def make_file(path: Path) -> None:
    """A queue with items in every state, and a sink in the same file."""
    url = f"sqlite:///{path}"
    with contextlib.closing(SQLiteQueue(url)) as queue:
        queue.publish({f"key-{number}": number for number in range(12)})
        lease = queue.claim(8, TERMS)
        assert lease is not None
        failed = (
            Failure("key-1", "delayed", delay_seconds=3600.0),
            Failure("key-2", "dead", is_final=True),
            Failure("key-3", "due", delay_seconds=1e-9),
        )
        queue.settle(lease, Settlement(done=("key-0",), failed=failed, released=("key-4",)), TERMS)
    with contextlib.closing(SQLiteSink(url)) as sink:
        sink.store([Result("key-0", "0")], token=1, version="v1", queue=lease.queue)


def columns_of(path: Path) -> list[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        tables = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        ]
        return [
            (table, row[1])
            for table in tables
            for row in connection.execute(f'PRAGMA table_info("{table}")')
        ]


def change(path: Path, table: str, column: str, value: str) -> bool:
    """Set a column in all rows, or in one; false if the table does not take the value."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        try:
            connection.execute(f'UPDATE "{table}" SET "{column}" = {value}')
        except sqlite3.IntegrityError:
            pass
        else:
            return True
        try:
            connection.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = {value}')
        except sqlite3.IntegrityError:
            return False
    return True


def flip(path: Path, seed: random.Random) -> None:
    """Overwrite a few bytes anywhere in the file."""
    data = bytearray(path.read_bytes())
    for _ in range(seed.randint(1, 8)):
        data[seed.randrange(len(data))] = seed.randrange(256)
    path.write_bytes(data)


def use_everything(path: Path) -> list[OutlastError]:
    """Everything that a command or a worker does with such a file. Only our errors may come."""
    refusals: list[OutlastError] = []
    url = f"sqlite:///{path}"
    try:
        with contextlib.closing(SQLiteQueue(url)) as queue:
            refusals += _use_queue(queue)
    except OutlastError as error:
        refusals.append(error)
    try:
        with contextlib.closing(SQLiteSink(url)) as sink:
            refusals += _use_sink(sink)
    except OutlastError as error:
        refusals.append(error)
    return refusals


def _use_queue(queue: SQLiteQueue) -> list[OutlastError]:
    def work() -> None:
        lease = queue.claim(3, TERMS)
        if lease is not None:
            lease = queue.extend(lease, TERMS)
            first, *rest = (item.key for item in lease.items)
            failed = (Failure(first, "failed"),)
            queue.settle(lease, Settlement(done=tuple(rest), failed=failed), TERMS, claim=3)

    acts = (
        lambda: queue.stats().eta_seconds,
        lambda: queue.dead_letters(),
        lambda: queue.publish({"another": 1, "key-0": 0}),
        work,
        work,
        lambda: queue.retry_dead(),
        work,
        lambda: queue.stats(),
    )
    return _refusals(acts)


def _use_sink(sink: SQLiteSink) -> list[OutlastError]:
    acts = (
        lambda: sink.count(),
        lambda: sink.done(["key-0", "key-1"], version="v1"),
        lambda: list(sink.results()),
        lambda: sink.store([Result("key-1", "1")], token=2, version="v2", queue="q"),
        lambda: sink.store([Result("key-0", "1")], token=2, version="v1", queue=""),
    )
    return _refusals(acts)


def _refusals(acts: object) -> list[OutlastError]:
    refusals = []
    for act in acts:  # type: ignore[attr-defined]  # a tuple of functions
        try:
            act()
        except OutlastError as error:
            refusals.append(error)
    return refusals
