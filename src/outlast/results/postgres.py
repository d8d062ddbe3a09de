"""Results in a table of a PostgreSQL database, by key.

If the queue is in the same database, results are stored in the transaction that acknowledges their
items. The table is `results`, or the one named after '#' in the URL.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from outlast._base.batches import BYTES_MAX
from outlast.databases.postgres import REFUSED, Connection, PostgresClient, text_array
from outlast.databases.postgres_url import PostgresAddress, parse_address
from outlast.queue.postgres.queue import PostgresQueue
from outlast.queue.protocol import StoreInTransaction
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
# Earlier versions did not have these columns. Adding them rewrites no row.
_ADD_FENCE = """
ALTER TABLE {table} ADD COLUMN IF NOT EXISTS queue text NOT NULL DEFAULT '';
ALTER TABLE {table} ADD COLUMN IF NOT EXISTS epoch bigint NOT NULL DEFAULT 0;
CREATE TABLE IF NOT EXISTS outlast_epochs (
    epoch bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    sink text NOT NULL,
    queue text NOT NULL,
    version text NOT NULL
);
CREATE INDEX IF NOT EXISTS outlast_epochs_run ON outlast_epochs (sink, queue, epoch)
"""
_FIND_TABLE = "SELECT to_regclass(%s) IS NOT NULL"
_FIND_COLUMNS = """
SELECT array_agg(attname::text)
FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped
"""
_COLUMNS = frozenset({"key", "result", "version", "token", "stored_at"})
_FENCE_COLUMNS = frozenset({"queue", "epoch"})
_NEWEST_EPOCH = """
SELECT epoch, version FROM outlast_epochs WHERE sink = %s AND queue = %s
ORDER BY epoch DESC LIMIT 1
"""
_ADD_EPOCH = "INSERT INTO outlast_epochs (sink, queue, version) VALUES (%s, %s, %s) RETURNING epoch"
# A result that is stored again with the same token and version stays unchanged.
_STORE = """
INSERT INTO {table} AS known (key, result, version, token, stored_at, queue, epoch)
SELECT key, result, %(version)s, %(token)s, statement_timestamp(), %(queue)s, %(epoch)s
FROM unnest(%(keys)s::text[], %(results)s::text[]) AS given (key, result)
ON CONFLICT (key) DO UPDATE SET
    result = CASE WHEN (known.queue, known.token, known.version)
        = (excluded.queue, excluded.token, excluded.version)
        THEN known.result ELSE excluded.result END,
    version = excluded.version, token = excluded.token, stored_at = excluded.stored_at,
    queue = excluded.queue, epoch = excluded.epoch
WHERE CASE WHEN known.queue = excluded.queue
    THEN (excluded.token, excluded.epoch) >= (known.token, known.epoch)
    ELSE excluded.epoch > known.epoch END
RETURNING key
"""
# Fails, and so rolls back the transaction of the queue, if a result was refused.
_STORE_ALL = f"""
WITH stored AS ({_STORE})
SELECT (CASE WHEN count(*) = %(count)s THEN '1' ELSE '{REFUSED}' END)::integer FROM stored
"""
_DONE = "SELECT key FROM {table} WHERE key = ANY (%s::text[]) AND version = %s"
_COUNT = "SELECT count(*) FROM {table} WHERE %s::text IS NULL OR version = %s::text"
# The server limits the bytes of a page, because the driver keeps all rows of an answer in memory.
_PAGE = """
SELECT key, result
FROM (
    SELECT key, result, sum(bytes) OVER (ORDER BY key) - bytes AS bytes_before
    FROM (
        SELECT key, result, octet_length(result) AS bytes
        FROM {table} WHERE key > %s ORDER BY key LIMIT %s
    ) AS page
) AS measured
WHERE bytes_before < %s ORDER BY key
"""


class PostgresSink:
    """A table of results, created if it does not exist.

    `retry_seconds` limits how long a call tries to reach the server before it raises
    `SinkUnavailable`. A sink `beside` a queue with the same address uses its connection.
    """

    def __init__(
        self, url: str, *, retry_seconds: float = 10.0, beside: PostgresQueue | None = None
    ) -> None:
        self._address = _address(url)
        self._table = f'"{self._address.table or "results"}"'
        self._retry_seconds = retry_seconds
        shared = beside.shared_client(self._address) if beside is not None else None
        self._is_shared = shared is not None
        self._client = self._new_client(shared)
        self._epochs: dict[tuple[str, str], int] = {}
        with self._unhurried() as client:
            client.call(self._make_table)
        self._place = self._client.database

    @property
    def url(self) -> str:
        return self._address.shown

    @property
    def database(self) -> str:
        return self._place

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        rows = self._client.call(
            lambda connection: connection.execute(
                self._sql(_DONE), (text_array(keys), version), prepare=True
            ).fetchall()
        )
        return {row[0] for row in rows}

    def store(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> AbstractSet[str]:
        statement = self._sql(_STORE)
        keys, values = self._values(results, token, version, queue)
        rows = self._client.call(
            lambda connection: connection.execute(statement, values, prepare=True).fetchall()
        )
        return set(keys) - {row[0] for row in rows}

    def storing(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> StoreInTransaction:
        _, values = self._values(results, token, version, queue)

        def store(connection: Connection) -> None:
            connection.execute(self._sql(_STORE_ALL), values, prepare=True)

        return store

    def count(self, *, version: str | None = None) -> int:
        with self._unhurried() as client:
            row = client.call(
                lambda connection: connection.execute(
                    self._sql(_COUNT), (version, version)
                ).fetchone()
            )
        assert row is not None
        return int(row[0])

    def results(self) -> Iterator[Result]:
        after = ""
        with self._unhurried() as client:
            while rows := client.call(self._page_after(after)):
                yield from map(Result._make, rows)
                after = rows[-1][0]

    def close(self) -> None:
        self._client.close()

    def _new_client(self, beside: PostgresClient | None = None) -> PostgresClient:
        return PostgresClient(
            self._address,
            unavailable=SinkUnavailable,
            bad_url=SinkUrlError,
            retry_seconds=self._retry_seconds,
            beside=beside,
        )

    @contextlib.contextmanager
    def _unhurried(self) -> Iterator[PostgresClient]:
        """For statements that may take long or wait for a lock.

        Never the connection of a queue: the heartbeat of a worker uses it, and must not wait.
        """
        if not self._is_shared:
            yield self._client
            return
        client = self._new_client()
        try:
            yield client
        finally:
            client.close()

    def _sql(self, statement: str) -> str:
        return statement.format(table=self._table)

    def _page_after(self, key: str) -> Callable[[Connection], list[Any]]:
        values = (key, _PAGE_ROWS, BYTES_MAX)
        return lambda connection: connection.execute(self._sql(_PAGE), values).fetchall()

    def _values(
        self, results: Sequence[Result], token: int, version: str, queue: str
    ) -> tuple[list[str], dict[str, object]]:
        """The keys, and the values to store. If a key repeats, the last value counts.

        Sorted by key, so that two workers that store the same keys cannot deadlock.
        """
        payloads = dict(results)
        keys = sorted(payloads)
        return keys, {
            "keys": text_array(keys),
            "results": text_array(map(payloads.__getitem__, keys)),
            "count": len(keys),
            "token": token,
            "version": version,
            "queue": queue,
            "epoch": self._epoch(queue, version),
        }

    def _epoch(self, queue: str, version: str) -> int:
        """The number of the run; a new one if the queue's latest run has another version.

        A process keeps its number, or two versions on one queue would keep replacing each other.
        """
        run = (queue, version)
        if run not in self._epochs:
            with self._unhurried() as client:
                self._epochs[run] = client.call(
                    lambda connection: self._find_epoch(connection, run)
                )
        return self._epochs[run]

    def _find_epoch(self, connection: Connection, run: tuple[str, str]) -> int:
        sink = self._table.strip('"')
        with connection.transaction():
            # One at a time, so that workers of a run that start together get the same number.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TABLE_LOCK,))
            row = connection.execute(_NEWEST_EPOCH, (sink, run[0])).fetchone()
            if row is None or row[1] != run[1]:
                row = connection.execute(_ADD_EPOCH, (sink, *run)).fetchone()
        assert row is not None
        return int(row[0])

    def _make_table(self, connection: Connection) -> None:
        """Create or upgrade the table. If killed: everything happened or nothing."""
        is_there = self._finds(connection, self._table)
        if is_there and not self._columns(connection) >= _COLUMNS:
            raise SinkUrlError(
                f"The table {self._table} exists, but it is not a table of results.",
                hint="Name another table after '#' in the URL.",
            )
        if not (
            is_there
            and self._columns(connection) >= _FENCE_COLUMNS
            and self._finds(connection, "outlast_epochs")
        ):
            with connection.transaction():
                # Workers that start at the same time would conflict, even with IF NOT EXISTS.
                connection.execute("SELECT pg_advisory_xact_lock(%s)", (_TABLE_LOCK,))
                connection.execute(self._sql(_MAKE_TABLE))
                connection.execute(self._sql(_ADD_FENCE))

    def _columns(self, connection: Connection) -> AbstractSet[str]:
        [names] = connection.execute(_FIND_COLUMNS, (self._table,)).fetchone() or [None]
        return set(names or ())

    def _finds(self, connection: Connection, table: str) -> bool:
        row = connection.execute(_FIND_TABLE, (table,)).fetchone()
        return bool(row and row[0])


def _address(url: str) -> PostgresAddress:
    try:
        return parse_address(url)
    except ValueError as error:
        raise SinkUrlError(
            str(error),
            hint="Use letters, digits and '_' in a table name. In a password, write '#' as %23.",
        ) from None
