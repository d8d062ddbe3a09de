"""Results in a table of a SQLite file: `key` (the primary key), `result`, `version`, `token`,
`stored_at`, `queue`, `epoch`.

If the queue is in the same file, results are stored in the transaction that acknowledges their
items.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import closing
from datetime import UTC, datetime

from outlast._base.batches import batched, text_bytes
from outlast.databases.errors import StaleResults
from outlast.databases.sqlite import SQLiteFile, as_integer, as_text, path_of
from outlast.queue.protocol import StoreInTransaction
from outlast.results.errors import SinkUnavailable, SinkUrlError
from outlast.results.protocol import Result

_PAGE_ROWS = 1000
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_COLUMNS = ("key", "result", "version", "token", "stored_at")
_FENCE_COLUMNS = {"queue": "TEXT NOT NULL DEFAULT ''", "epoch": "INTEGER NOT NULL DEFAULT 0"}


class SQLiteSink:
    """The table in `sqlite:///file#table`, by default `results`. Created if it does not exist."""

    def __init__(self, url: str) -> None:
        self._url = url
        table = url.partition("#")[2] or "results"
        if not _TABLE.fullmatch(table) or table.startswith(("sqlite_", "outlast_")):
            raise SinkUrlError(
                f"Invalid table name {table!r:.100}.",
                hint="Use letters, digits and '_', and no name starting with 'sqlite_' or "
                "'outlast_'.",
            )
        self._table = table
        self._file = SQLiteFile(
            path_of(url, refused=SinkUrlError),
            schema=_SCHEMA.format(table=table),
            table=table,
            unavailable=SinkUnavailable,
        )
        self._upsert = _UPSERT.format(table=table)
        self._epochs: dict[tuple[str, str], int] = {}
        self._check_columns()

    @property
    def url(self) -> str:
        return self._url

    @property
    def database(self) -> str:
        return self._file.database

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        query = (
            f'SELECT key FROM "{self._table}" '
            "WHERE key IN (SELECT value FROM json_each(?)) AND version = ?"
        )
        with self._file.reading() as connection:
            return {row[0] for row in connection.execute(query, (json.dumps(list(keys)), version))}

    def store(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> AbstractSet[str]:
        """Store all results. Returns the refused keys. If killed: nothing is stored."""
        with self._file.writing() as connection:
            if self._store(connection, results, token, version, queue) == len(results):
                return set()
            query = (
                f'SELECT key FROM "{self._table}" WHERE key IN (SELECT value FROM json_each(?)) '
                "AND (queue, token, version) <> (?, ?, ?)"
            )
            keys = json.dumps([result.key for result in results])
            return {row[0] for row in connection.execute(query, (keys, queue, token, version))}

    def storing(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> StoreInTransaction:
        def store(connection: sqlite3.Connection) -> None:
            if self._store(connection, results, token, version, queue) != len(results):
                raise StaleResults(f"{self._url!r} holds newer results for some of these keys.")

        return store

    def count(self, *, version: str | None = None) -> int:
        query = f'SELECT count(*) FROM "{self._table}"'
        given: tuple[str, ...] = ()
        if version is not None:
            query += " WHERE version = ?"
            given = (version,)
        with self._file.reading() as connection:
            [count] = connection.execute(query, given).fetchone()
        return int(count)

    def results(self) -> Iterator[Result]:
        """All results, sorted by key. Read in pages, so that a slow reader blocks no one."""
        query = f'SELECT key, result FROM "{self._table}" WHERE key > ? ORDER BY key'
        last = ""
        while True:
            with (
                self._file.reading() as connection,
                closing(connection.execute(query, (last,))) as rows,
            ):
                found = map(_result, rows)
                page = next(batched(found, lambda one: text_bytes(*one), count_max=_PAGE_ROWS), [])
            if not page:
                return
            yield from page
            last = page[-1].key

    def close(self) -> None:
        self._file.close()

    def _store(
        self,
        connection: sqlite3.Connection,
        results: Sequence[Result],
        token: int,
        version: str,
        queue: str,
    ) -> int:
        """Store them in this transaction. Returns how many were stored."""
        epoch = self._epoch(connection, queue, version)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        rows = [(key, payload, version, token, at, queue, epoch) for key, payload in results]
        return max(0, connection.executemany(self._upsert, rows).rowcount)

    def _epoch(self, connection: sqlite3.Connection, queue: str, version: str) -> int:
        """The number of the run; a new one if the queue's latest run has another version.

        A process keeps its number, or two versions on one queue would keep replacing each other.
        """
        if (known := self._epochs.get((queue, version))) is not None:
            return known
        row = connection.execute(_NEWEST_EPOCH, (self._table, queue)).fetchone()
        if row is not None and row[1] == version:
            self._epochs[queue, version] = as_integer(row[0], "epoch")
            return self._epochs[queue, version]
        # Not cached yet: the transaction may be rolled back.
        [last] = connection.execute(_LAST_EPOCH, (self._table,)).fetchone()
        epoch = as_integer(last, "epoch") + 1
        added = (self._table, epoch, queue, version)
        connection.execute("INSERT INTO outlast_epochs VALUES (?, ?, ?, ?)", added)
        return epoch

    def _check_columns(self) -> None:
        found = self._columns()
        if not found.keys() >= set(_COLUMNS) or [n for n in found if found[n]] != ["key"]:
            self.close()
            raise SinkUrlError(
                f"The table {self._table!r} exists, but it is not a table of results.",
                hint="Name another table after '#'. A table of results has the columns "
                f"{', '.join(_COLUMNS)}, with key as the primary key.",
            )
        if not found.keys() >= _FENCE_COLUMNS.keys() or not self._has_epochs():
            self._upgrade()

    def _columns(self) -> dict[str, int]:
        with self._file.reading() as connection:
            rows = connection.execute(f'PRAGMA table_info("{self._table}")').fetchall()
        return {row[1]: row[5] for row in rows}

    def _has_epochs(self) -> bool:
        query = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'outlast_epochs'"
        with self._file.reading() as connection:
            return connection.execute(query).fetchone() is not None

    def _upgrade(self) -> None:
        """Add what earlier versions did not have. If killed: nothing changed."""
        with self._file.writing() as connection:
            # Read again, because another process may have upgraded it while this one waited.
            for name in _FENCE_COLUMNS.keys() - self._columns().keys():
                connection.execute(
                    f'ALTER TABLE "{self._table}" ADD COLUMN {name} {_FENCE_COLUMNS[name]}'
                )
            connection.execute(_EPOCHS)


def _result(row: Sequence[object]) -> Result:
    return Result(as_text(row[0], "key"), as_text(row[1], "result"))


_EPOCHS = """\
CREATE TABLE IF NOT EXISTS outlast_epochs (
    sink TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    queue TEXT NOT NULL,
    version TEXT NOT NULL,
    PRIMARY KEY (sink, epoch)
) WITHOUT ROWID
"""

_SCHEMA = f"""\
{_EPOCHS.rstrip()};
CREATE TABLE IF NOT EXISTS "{{table}}" (
    key TEXT PRIMARY KEY NOT NULL,
    result TEXT NOT NULL,
    version TEXT NOT NULL,
    token INTEGER NOT NULL,
    stored_at TEXT NOT NULL,
    queue TEXT NOT NULL DEFAULT '',
    epoch INTEGER NOT NULL DEFAULT 0
)
"""

# A result that is stored again with the same token and version stays unchanged.
_UPSERT = """
INSERT INTO "{table}" (key, result, version, token, stored_at, queue, epoch)
VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    result = CASE WHEN (queue, token, version) = (excluded.queue, excluded.token, excluded.version)
        THEN result ELSE excluded.result END,
    version = excluded.version, token = excluded.token, stored_at = excluded.stored_at,
    queue = excluded.queue, epoch = excluded.epoch
WHERE CASE WHEN queue = excluded.queue
    THEN (excluded.token, excluded.epoch) >= (token, epoch) ELSE excluded.epoch > epoch END
"""
_NEWEST_EPOCH = (
    "SELECT epoch, version FROM outlast_epochs WHERE sink = ? AND queue = ? "
    "ORDER BY epoch DESC LIMIT 1"
)
_LAST_EPOCH = "SELECT coalesce(max(epoch), 0) FROM outlast_epochs WHERE sink = ?"
