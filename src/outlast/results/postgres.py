"""Results in a table of a PostgreSQL database, by key.

With a queue in the same database, results are stored in the transaction that acknowledges their
items. The table is `results`, or what the URL names after '#'.
"""

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from outlast.queue.postgres_link import Connection, PostgresLink, text_array
from outlast.queue.postgres_url import Address, parse_address
from outlast.queue.protocol import Storing
from outlast.results.errors import SinkUnavailable, SinkUrlError
from outlast.results.protocol import Result

_PAGE_ROWS = 1000
_TABLE_LOCK = 7_310_287_405_112_503

_MAKE_TABLE = """
CREATE TABLE IF NOT EXISTS {table} (
    key text COLLATE "C" PRIMARY KEY,
    result text NOT NULL,
    version text NOT NULL,
    token bigint NOT NULL,
    stored_at timestamptz NOT NULL
)
"""
_FIND_TABLE = "SELECT to_regclass(%s) IS NOT NULL"
_COLUMNS_OF = """
SELECT array_agg(attname) @> '{key, result, version, token, stored_at}'::name[]
FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
_STORE = """
INSERT INTO {table} AS known (key, result, version, token, stored_at)
SELECT key, result, %s, %s, statement_timestamp()
FROM unnest(%s::text[], %s::text[]) AS given (key, result)
ON CONFLICT (key) DO UPDATE SET
    result = excluded.result, version = excluded.version,
    token = excluded.token, stored_at = excluded.stored_at
WHERE known.token <= excluded.token
"""
_DONE = "SELECT key FROM {table} WHERE key = ANY (%s::text[]) AND version = %s"
_COUNT = "SELECT count(*) FROM {table} WHERE %s::text IS NULL OR version = %s::text"
_PAGE = "SELECT key, result FROM {table} WHERE key > %s ORDER BY key LIMIT %s"


class PostgresSink:
    """A table of results; it is made if it is not there.

    `retry_seconds` bounds how long a call tries to reach a server that is gone before it raises
    `SinkUnavailable`.
    """

    def __init__(self, url: str, *, retry_seconds: float = 10.0) -> None:
        self._address = _address(url)
        self._table = f'"{self._address.table or "results"}"'
        self._link = PostgresLink(
            self._address,
            unavailable=SinkUnavailable,
            bad_url=SinkUrlError,
            retry_seconds=retry_seconds,
        )
        self._link.call(self._make_table)
        self._place = self._link.place

    @property
    def url(self) -> str:
        return self._address.shown

    @property
    def place(self) -> str:
        return self._place

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        rows = self._link.call(
            lambda connection: connection.execute(
                self._sql(_DONE), (text_array(keys), version), prepare=True
            ).fetchall()
        )
        return {row[0] for row in rows}

    def store(self, results: Sequence[Result], *, token: int, version: str) -> AbstractSet[str]:
        statement = self._sql(_STORE) + " RETURNING key"
        keys, values = _columns(results, version, token)
        rows = self._link.call(
            lambda connection: connection.execute(statement, values, prepare=True).fetchall()
        )
        return set(keys) - {row[0] for row in rows}

    def storing(self, results: Sequence[Result], *, token: int, version: str) -> Storing:
        _, values = _columns(results, version, token)

        def store(connection: Connection) -> None:
            connection.execute(self._sql(_STORE), values, prepare=True)

        return store

    def count(self, *, version: str | None = None) -> int:
        row = self._link.call(
            lambda connection: connection.execute(self._sql(_COUNT), (version, version)).fetchone()
        )
        assert row is not None
        return int(row[0])

    def results(self) -> Iterator[Result]:
        after = ""
        while rows := self._link.call(self._page_after(after)):
            yield from map(Result._make, rows)
            after = rows[-1][0]

    def close(self) -> None:
        self._link.close()

    def _sql(self, statement: str) -> str:
        return statement.format(table=self._table)

    def _page_after(self, key: str) -> Callable[[Connection], list[Any]]:
        return lambda connection: connection.execute(self._sql(_PAGE), (key, _PAGE_ROWS)).fetchall()

    def _make_table(self, connection: Connection) -> None:
        """Make the table, unless it is there. If killed: it is there whole, or not at all."""
        row = connection.execute(_FIND_TABLE, (self._table,)).fetchone()
        if not (row and row[0]):
            with connection.transaction():
                # Workers that start at once would trip over each other, even with IF NOT EXISTS.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TABLE_LOCK,))
                connection.execute(self._sql(_MAKE_TABLE))
        row = connection.execute(_COLUMNS_OF, (self._table,)).fetchone()
        if not (row and row[0]):
            raise SinkUrlError(
                f"The table {self._table} is there, but it is not one for results.",
                hint="Name another table after '#' in the URL.",
            )


def _address(url: str) -> Address:
    try:
        return parse_address(url)
    except ValueError as error:
        raise SinkUrlError(
            str(error),
            hint="Name a table by letters, digits and '_'; in a password, write '#' as %23.",
        ) from None


def _columns(
    results: Sequence[Result], version: str, token: int
) -> tuple[list[str], tuple[str, int, str, str]]:
    """The keys, and the values to store: each key once, the last counts.

    In the order of the keys, so that two who store the same ones never wait for each other.
    """
    payloads = dict(results)
    keys = sorted(payloads)
    return keys, (version, token, text_array(keys), text_array(map(payloads.__getitem__, keys)))
