"""Results in a table of a SQLite file: `key` (the primary key), `result`, `version`, `token`,
`stored_at`.

In the file of the queue they are stored in the transaction that acknowledges their items.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime

from outlast.queue.protocol import Storing
from outlast.queue.sqlite_file import SQLiteFile, path_of
from outlast.results.errors import SinkUnavailable, SinkUrlError
from outlast.results.protocol import Result

_PAGE_ROWS = 1000
_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)
_COLUMNS = ("key", "result", "version", "token", "stored_at")


class SQLiteSink:
    """The table in `sqlite:///file#table`, or `results` if none is named. It is made if missing."""

    def __init__(self, url: str) -> None:
        self._url = url
        table = url.partition("#")[2] or "results"
        if not _TABLE.fullmatch(table) or table.startswith(("sqlite_", "outlast_")):
            raise SinkUrlError(
                f"{table!r:.100} cannot be the name of a table.",
                hint="Use letters, digits and '_', and neither 'sqlite_' nor 'outlast_' in front.",
            )
        self._table = table
        self._file = SQLiteFile(
            path_of(url, refused=SinkUrlError),
            schema=_SCHEMA.format(table=table),
            table=table,
            unavailable=SinkUnavailable,
        )
        self._upsert = _UPSERT.format(table=table)
        self._check_columns()

    @property
    def url(self) -> str:
        return self._url

    @property
    def place(self) -> str:
        return self._file.place

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        query = (
            f'SELECT key FROM "{self._table}" '
            "WHERE key IN (SELECT value FROM json_each(?)) AND version = ?"
        )
        with self._file.reading() as connection:
            return {row[0] for row in connection.execute(query, (json.dumps(list(keys)), version))}

    def store(self, results: Sequence[Result], *, token: int, version: str) -> AbstractSet[str]:
        """Store all results and give the keys that a newer lease has stored. If killed: none."""
        with self._file.writing() as connection:
            if self._store(connection, results, token, version) == len(results):
                return set()
            query = (
                f'SELECT key FROM "{self._table}" '
                "WHERE key IN (SELECT value FROM json_each(?)) AND token > ?"
            )
            keys = json.dumps([result.key for result in results])
            return {row[0] for row in connection.execute(query, (keys, token))}

    def storing(self, results: Sequence[Result], *, token: int, version: str) -> Storing:
        def store(connection: sqlite3.Connection) -> None:
            self._store(connection, results, token, version)

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
        """Every result, by key. Page by page, so that a slow reader holds up nobody."""
        query = f'SELECT key, result FROM "{self._table}" WHERE key > ? ORDER BY key LIMIT ?'
        last = ""
        while True:
            with self._file.reading() as connection:
                rows = connection.execute(query, (last, _PAGE_ROWS)).fetchall()
            yield from map(Result._make, rows)
            if len(rows) < _PAGE_ROWS:
                return
            last = rows[-1][0]

    def close(self) -> None:
        self._file.close()

    def _store(
        self, connection: sqlite3.Connection, results: Sequence[Result], token: int, version: str
    ) -> int:
        """How many were stored."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        rows = [(key, payload, version, token, at) for key, payload in results]
        return connection.executemany(self._upsert, rows).rowcount

    def _check_columns(self) -> None:
        with self._file.reading() as connection:
            rows = connection.execute(f'PRAGMA table_info("{self._table}")').fetchall()
        found = {row[1]: row[5] for row in rows}
        if not found.keys() >= set(_COLUMNS) or [n for n in found if found[n]] != ["key"]:
            self.close()
            raise SinkUrlError(
                f"The table {self._table!r} is there, but it is not one for results.",
                hint=f"Name another after '#', or one with the columns {', '.join(_COLUMNS)}, "
                "of which key is the primary key.",
            )


_SCHEMA = """\
CREATE TABLE IF NOT EXISTS "{table}" (
    key TEXT PRIMARY KEY NOT NULL,
    result TEXT NOT NULL,
    version TEXT NOT NULL,
    token INTEGER NOT NULL,
    stored_at TEXT NOT NULL
)
"""

_UPSERT = """
INSERT INTO "{table}" (key, result, version, token, stored_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (key) DO UPDATE SET
    result = excluded.result, version = excluded.version,
    token = excluded.token, stored_at = excluded.stored_at
WHERE excluded.token >= token
"""
