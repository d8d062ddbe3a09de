"""The limit: what a competent hand would write with SQL alone, and nothing around it.

`BareJobs` is the layout that FACTS measured: items and jobs apart, one lease per chunk.
`BareRanges` leases ranges of items instead, as ours does: the least that can be done at all.
Neither reaps, blames, delays, checks a lease, counts or waits fairly.
"""

import sqlite3
import time
from pathlib import Path

from bench.queue.system import PAYLOAD, Puller, numbered

_FILE = "bare.db"
_ITEMS = """
CREATE TABLE items (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, payload TEXT NOT NULL);
CREATE TABLE results (
    key TEXT PRIMARY KEY NOT NULL, result TEXT NOT NULL, version TEXT NOT NULL,
    token INTEGER NOT NULL, stored_at TEXT NOT NULL);
"""
_JOBS = """
CREATE TABLE jobs (id INTEGER PRIMARY KEY, lease INTEGER);
CREATE TABLE leases (id INTEGER PRIMARY KEY, expires REAL NOT NULL);
CREATE INDEX jobs_ready ON jobs (id) WHERE lease IS NULL;
CREATE INDEX jobs_leased ON jobs (lease) WHERE lease IS NOT NULL;
INSERT INTO jobs SELECT id, NULL FROM items;
"""
_RANGES = """
CREATE TABLE leases (id INTEGER PRIMARY KEY, first INTEGER, last INTEGER, expires REAL NOT NULL);
CREATE TABLE frontier (next INTEGER NOT NULL);
INSERT INTO frontier VALUES (1);
"""
_UPSERT = (
    "INSERT INTO results VALUES (?, ?, 'v1', ?, '2026-01-01T00:00:00Z') ON CONFLICT (key) "
    "DO UPDATE SET result = excluded.result, token = excluded.token "
    "WHERE excluded.token >= token"
)


class BareJobs:
    name = "bare loop"
    knows_chunks = True

    def is_installed(self) -> bool:
        return True

    def fill(self, place: str, count: int) -> None:
        _fill(place, count, _JOBS)

    def open(self, place: str) -> Puller:
        return _JobsPuller(place)


class BareRanges(BareJobs):
    name = "bare loop, ranges"

    def fill(self, place: str, count: int) -> None:
        _fill(place, count, _RANGES)

    def open(self, place: str) -> Puller:
        return _RangesPuller(place)


class _JobsPuller:
    def __init__(self, place: str) -> None:
        self._connection = _connect(place)
        self._lease = 0
        self._keys: list[str] = []

    def step(self, chunk: int) -> int:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        if self._keys:
            rows = [(key, PAYLOAD, self._lease) for key in self._keys]
            run("DELETE FROM jobs WHERE lease = ?", (self._lease,))
            run("DELETE FROM leases WHERE id = ?", (self._lease,))
            self._connection.executemany(_UPSERT, rows)
        lease = int(time.time() * 1e6)
        run("INSERT INTO leases VALUES (?, ?)", (lease, time.time() + 60))
        run(
            "UPDATE jobs SET lease = ? "
            "WHERE id IN (SELECT id FROM jobs WHERE lease IS NULL ORDER BY id LIMIT ?)",
            (lease, chunk),
        )
        found = run(
            "SELECT key, payload FROM jobs JOIN items USING (id) WHERE lease = ?", (lease,)
        ).fetchall()
        run("COMMIT")
        self._lease, self._keys = lease, [key for key, _ in found]
        return len(found)

    def close(self) -> None:
        self._connection.close()


class _RangesPuller(_JobsPuller):
    def step(self, chunk: int) -> int:
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        if self._keys:
            rows = [(key, PAYLOAD, self._lease) for key in self._keys]
            run("DELETE FROM leases WHERE id = ?", (self._lease,))
            self._connection.executemany(_UPSERT, rows)
        [first] = run("SELECT next FROM frontier").fetchone()
        found = run(
            "SELECT key, payload FROM items WHERE id BETWEEN ? AND ?", (first, first + chunk - 1)
        ).fetchall()
        lease = int(time.time() * 1e6)
        last = first + len(found)
        run("INSERT INTO leases VALUES (?, ?, ?, ?)", (lease, first, last - 1, time.time() + 60))
        run("UPDATE frontier SET next = ?", (last,))
        run("COMMIT")
        self._lease, self._keys = lease, [key for key, _ in found]
        return len(found)


def _fill(place: str, count: int, tables: str) -> None:
    connection = _connect(place)
    connection.executescript(_ITEMS)
    connection.execute("BEGIN")
    connection.executemany("INSERT INTO items (key, payload) VALUES (?, ?)", numbered(count))
    connection.execute("COMMIT")
    connection.executescript(tables)
    connection.close()


def _connect(place: str) -> sqlite3.Connection:
    connection = sqlite3.connect(Path(place) / _FILE, timeout=60, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection
