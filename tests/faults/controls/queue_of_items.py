"""A queue of items in SQLite for the worker controls: leases that expire, and a place for results.

Nothing of the library is in it. The faults are in how the controls use it.
"""

import contextlib
import json
import os
import signal
import sqlite3
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

ITEMS = 60
COMPUTE_SECONDS = 0.04
COMPUTE_SECONDS_MAX = 0.8
LEASE_SECONDS = 2.5
RESULTS = Path("results.jsonl")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS item (name TEXT PRIMARY KEY, leased_until REAL NOT NULL);
CREATE TABLE IF NOT EXISTS result (number INTEGER PRIMARY KEY, item TEXT, score INTEGER);
CREATE TABLE IF NOT EXISTS filled (once INTEGER PRIMARY KEY);
"""


class Items:
    """Shared by all workers of a run, through a file in its folder."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("jobs.db", timeout=15, isolation_level=None)
        with self.transaction() as database:
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            if not database.execute("SELECT 1 FROM filled").fetchone():
                database.execute("INSERT INTO filled VALUES (1)")
                _forget_deaths()
                for number in range(ITEMS):
                    database.execute("INSERT INTO item VALUES (?, 0)", (f"item-{number:03}",))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield self._database
            self._database.execute("COMMIT")
        except BaseException:
            # SIGTERM can come right after the commit.
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    def lease(self) -> str | None:
        """An item that nobody else has for now; waits while all that is left is leased."""
        while True:
            now = time.time()
            with self.transaction() as database:
                found = database.execute(
                    "SELECT name FROM item WHERE leased_until < ? ORDER BY name LIMIT 1", (now,)
                ).fetchone()
                if found:
                    database.execute(
                        "UPDATE item SET leased_until = ? WHERE name = ?",
                        (now + LEASE_SECONDS, found[0]),
                    )
                    return str(found[0])
                if not database.execute("SELECT 1 FROM item").fetchone():
                    return None
            time.sleep(0.05)

    def acknowledge(self, name: str) -> None:
        with self.transaction() as database:
            database.execute("DELETE FROM item WHERE name = ?", (name,))


class _Pace:
    left_at: float | None = None


def linger() -> None:
    """Take nine tenths of a worker's time, however slow the rest is.

    Where a fault shows only if the eviction comes at the right place, this is that place. If the
    first argument of the program names a folder, it has a file for each worker that died here.
    """
    now = time.monotonic()
    rest = 0.0 if _Pace.left_at is None else now - _Pace.left_at
    folder = _deaths()
    mark = folder / str(uuid.uuid4()) if folder else None
    if mark:
        mark.touch()
    time.sleep(min(max(COMPUTE_SECONDS, 9 * rest), COMPUTE_SECONDS_MAX))
    if mark:
        mark.unlink()
    _Pace.left_at = time.monotonic()


def _deaths() -> Path | None:
    return Path(sys.argv[1]) if sys.argv[1:] else None


def _forget_deaths() -> None:
    """Those of an earlier run. No worker of this one can be at the place yet."""
    folder = _deaths()
    for mark in folder.iterdir() if folder else ():
        mark.unlink()


def compute(name: str) -> int:
    linger()
    return sum(name.encode())


def append(name: str, score: int) -> None:
    """Add a line to the results, whole."""
    line = json.dumps({"item": name, "score": score}) + "\n"
    fd = os.open(RESULTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def leave_at_once() -> None:
    """Leave on SIGTERM, wherever it comes; the lease of the item in hand expires."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
