"""Queues of 10,000 and of 10,000,000 items, loaded in bulk into a folder that is kept.

Loading takes minutes and may share the machine; measuring takes a minute and should not.
"""

import contextlib
import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg

from bench.queue.system import PAYLOAD, numbered
from outlast.queue import open_queue
from outlast.queue.items import Item
from tests.servers.postgres import PostgresServer

FEW, MANY = 10_000, 10_000_000
CONNECTIONS_MAX = 450


class KeptServer(PostgresServer):
    """A PostgreSQL server whose folder outlives it. A folder that was filled keeps its port."""

    def _make(self) -> None:
        settings = self.folder / "data" / "postgresql.conf"
        if settings.exists():
            [port] = re.findall(r"^port = (\d+)$", settings.read_text(), re.MULTILINE)
            self.port = int(port)
            return
        super()._make()
        with settings.open("a") as file:
            file.write(f"max_connections = {CONNECTIONS_MAX}\nmax_wal_size = 4GB\n")


def sqlite_url(folder: Path, name: str) -> str:
    return f"sqlite:///{folder}/{name}.db"


@contextlib.contextmanager
def postgres(folder: Path, *, fsync: bool) -> Iterator[KeptServer]:
    place = folder / "postgres"
    if not place.exists():
        place.mkdir()
    server = KeptServer(place, fsync=fsync)
    server.start()
    try:
        yield server
        with psycopg.connect(server.url(), autocommit=True) as connection:
            connection.execute("CHECKPOINT")
    finally:
        server.stop()


def fill(folder: Path, many: int = MANY) -> None:
    """Fill the folder, which must be empty.

    The databases make the rows themselves, as publishing leaves them, which is far quicker.
    """
    # The server runs as another user, who has to reach its folder.
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    for name, count in {"few": FEW, "many": many}.items():
        _progress(f"SQLite, {count:,} items")
        _fill_sqlite(sqlite_url(folder, name), count)
    with postgres(folder, fsync=False) as server:
        for name, count in {"few": FEW, "many": many}.items():
            _progress(f"PostgreSQL, {count:,} items")
            _create(server, name)
            _fill_postgres(server.url(name), count)
        _progress("PostgreSQL, a copy that is going to be drained")
        # Through the log, which is the default, each byte would be written twice.
        _create(server, "drained TEMPLATE many STRATEGY file_copy")


def _progress(text: str) -> None:
    print(f"filling: {text}", file=sys.stderr, flush=True)


def _create(server: KeptServer, database: str) -> None:
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())


def _fill_sqlite(url: str, count: int) -> None:
    """The first item is published, and the rest added to its range."""
    with contextlib.closing(open_queue(url)) as queue:
        queue.publish([Item(key=key, payload=payload) for key, payload in numbered(1)])
    path = url.removeprefix("sqlite:///")
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("PRAGMA cache_size = -262144")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(
            "WITH RECURSIVE numbers (number) AS "
            "(SELECT 1 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < ?) "
            "INSERT INTO outlast_items (key, payload) "
            "SELECT printf('item-%09d', number), ? FROM numbers",
            (count, PAYLOAD),
        )
        connection.execute("UPDATE outlast_runs SET last = ? WHERE lease = 0", (count,))
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    os.sync()
    with contextlib.closing(open_queue(url)) as queue:
        assert queue.stats().ready == count


def _fill_postgres(url: str, count: int) -> None:
    open_queue(url).close()
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO outlast_items (key, payload) "
            "SELECT 'item-' || lpad((number - 1)::text, 9, '0'), %s "
            "FROM generate_series(1, %s) AS _ (number)",
            (PAYLOAD, count),
        )
        connection.execute("INSERT INTO outlast_ready SELECT id FROM outlast_items ORDER BY id")
        connection.execute("UPDATE outlast_queue SET published = published + %s", (count,))
        connection.execute("VACUUM ANALYZE")
