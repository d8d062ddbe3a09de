"""Queues in PostgreSQL: the bare SKIP LOCKED loop as the limit, ours, and the peers.

    python -m bench.queue.postgres --rounds 5

The server is thrown away afterwards; fsync is on. The bare loops neither reap, blame, delay, check
a lease nor count, and do not find out what became of a call whose answer was lost. pgmq is an
extension that cannot be had everywhere, so what it sends is written down here. procrastinate is
measured if it is installed. Neither peer stores results here.
"""

import argparse
import asyncio
import contextlib
import statistics
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import psycopg

from bench.measure import Row, machine, table
from bench.queue.measures import CHUNKS, PROCESSES, report
from bench.queue.ours import TERMS, OurPuller
from bench.queue.system import PAYLOAD, Puller, System, numbered
from outlast.databases.postgres import text_array
from outlast.queue import Queue, Settlement, open_queue
from outlast.queue.items import Item
from tests.servers.postgres import PostgresServer, running_postgres

_CLAIMS = 300
_RESULTS = """
CREATE TABLE results (
    key text COLLATE "C" PRIMARY KEY, result text NOT NULL, version text NOT NULL,
    token bigint NOT NULL, stored_at timestamptz NOT NULL)
"""
_UPSERT = """
INSERT INTO results AS known
SELECT key, result, 'v1', %s, now() FROM unnest(%s::text[], %s::text[]) AS given (key, result)
ON CONFLICT (key) DO UPDATE SET result = excluded.result, token = excluded.token
WHERE known.token <= excluded.token
"""


class BareLoop:
    """What most write: jobs in one table, marked by the lease that has them."""

    name = "bare loop"
    knows_chunks = True

    def is_installed(self) -> bool:
        return True

    def fill(self, place: str, count: int) -> None:
        _make(
            place,
            count,
            "CREATE TABLE jobs (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "key text UNIQUE NOT NULL, payload text NOT NULL, lease bigint)",
            "CREATE INDEX ON jobs (id) WHERE lease IS NULL",
            "CREATE INDEX ON jobs (lease) WHERE lease IS NOT NULL",
            "CREATE TABLE leases (id bigserial PRIMARY KEY, expires timestamptz NOT NULL)",
            items="jobs",
        )

    def open(self, place: str) -> Puller:
        return _BarePuller(place)


class BareArrays(BareLoop):
    """The least that we know of: our layout, our way to send arrays, one round trip."""

    name = "bare loop, our layout"

    def fill(self, place: str, count: int) -> None:
        _make(
            place,
            count,
            "CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "key text UNIQUE NOT NULL, payload text NOT NULL)",
            "CREATE TABLE ready (id bigint PRIMARY KEY)",
            "CREATE TABLE leases (id bigserial PRIMARY KEY, ids bigint[], expires timestamptz)",
            items="items",
            after="INSERT INTO ready SELECT id FROM items ORDER BY id",
        )

    def open(self, place: str) -> Puller:
        return _ArraysPuller(place)


class OurPostgres:
    name = "outlast, PostgreSQL"
    knows_chunks = True

    def is_installed(self) -> bool:
        return True

    def fill(self, place: str, count: int) -> None:
        queue = open_queue(place)
        queue.publish(Item(key=key, payload=payload) for key, payload in numbered(count))
        queue.close()
        _settle_down(place)

    def open(self, place: str) -> Puller:
        return OurPuller(place)


class Pgmq(BareLoop):
    """What `pgmq.read` and `pgmq.delete` do to a queue of its own; two commits a chunk."""

    name = "pgmq's SQL"

    def fill(self, place: str, count: int) -> None:
        _make(
            place,
            count,
            "CREATE TABLE q (msg_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
            "read_ct integer NOT NULL DEFAULT 0, enqueued_at timestamptz NOT NULL DEFAULT now(), "
            "vt timestamptz NOT NULL DEFAULT clock_timestamp(), key text, message jsonb)",
            "CREATE INDEX ON q (vt)",
            items="q",
            column="message",
        )

    def open(self, place: str) -> Puller:
        return _PgmqPuller(place)


class Procrastinate:
    """Its own job manager, as its worker uses it: one job at a time, deleted when done."""

    name = "procrastinate"
    knows_chunks = False

    def is_installed(self) -> bool:
        return find_spec("procrastinate") is not None

    def fill(self, place: str, count: int) -> None:
        async def fill() -> None:
            app = _procrastinate(place)
            async with app.open_async():
                await app.schema_manager.apply_schema_async()
                for start in range(0, count, 1000):
                    batch = [{"payload": PAYLOAD}] * min(1000, count - start)
                    await app.configure_task("bench").batch_defer_async(*batch)

        asyncio.run(fill())
        _settle_down(place)

    def open(self, place: str) -> Puller:
        return _ProcrastinatePuller(place)


POSTGRES: tuple[System, ...] = (BareLoop(), BareArrays(), OurPostgres(), Pgmq(), Procrastinate())


class _BarePuller:
    def __init__(self, place: str) -> None:
        self._connection = psycopg.connect(place, autocommit=True)
        self._lease = 0
        self._keys: list[str] = []

    def step(self, chunk: int) -> int:
        run = self._connection.execute
        with self._connection.transaction():
            if self._keys:
                run(_UPSERT, (self._lease, self._keys, [PAYLOAD] * len(self._keys)))
                run("DELETE FROM jobs WHERE lease = %s", (self._lease,))
                run("DELETE FROM leases WHERE id = %s", (self._lease,))
            found = run(
                "INSERT INTO leases (expires) VALUES (now() + interval '60 s') RETURNING id"
            ).fetchone()
            assert found is not None
            [self._lease] = found
            rows = run(
                "UPDATE jobs SET lease = %s WHERE id IN (SELECT id FROM jobs WHERE lease IS NULL "
                "ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING key, payload",
                (self._lease, chunk),
            ).fetchall()
        self._keys = [row[0] for row in rows]
        return len(rows)

    def close(self) -> None:
        self._connection.close()


class _ArraysPuller(_BarePuller):
    def step(self, chunk: int) -> int:
        run = self._connection.execute
        with self._connection.pipeline():
            run("BEGIN")
            if self._keys:
                results = text_array([PAYLOAD] * len(self._keys))
                run(_UPSERT, (self._lease, text_array(self._keys), results))
                run("DELETE FROM leases WHERE id = %s", (self._lease,))
            cursor = run(
                "WITH taken AS (DELETE FROM ready WHERE id = ANY (ARRAY("
                "SELECT id FROM ready ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED)) RETURNING id), "
                "lease AS (INSERT INTO leases (ids, expires) SELECT array_agg(id), "
                "now() + interval '60 s' FROM taken HAVING count(*) > 0 RETURNING id) "
                "SELECT key, payload, lease.id FROM taken JOIN items USING (id), lease",
                (chunk,),
            )
            run("COMMIT")
        rows = cursor.fetchall()
        self._keys = [row[0] for row in rows]
        self._lease = rows[0][2] if rows else 0
        return len(rows)


class _PgmqPuller(_BarePuller):
    def step(self, chunk: int) -> int:
        run = self._connection.execute
        rows = run(
            "WITH chosen AS (SELECT msg_id FROM q WHERE vt <= clock_timestamp() "
            "ORDER BY msg_id LIMIT %s FOR UPDATE SKIP LOCKED) "
            "UPDATE q SET vt = clock_timestamp() + interval '60 s', read_ct = read_ct + 1 "
            "FROM chosen WHERE q.msg_id = chosen.msg_id RETURNING q.*",
            (chunk,),
        ).fetchall()
        ids = [row[0] for row in rows]
        if chunk == 1 and ids:
            run("DELETE FROM q WHERE msg_id = %s RETURNING msg_id", (ids[0],))
        elif ids:
            run("DELETE FROM q WHERE msg_id = ANY (%s) RETURNING msg_id", (ids,))
        return len(ids)


class _ProcrastinatePuller:
    def __init__(self, place: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._app = _procrastinate(place)
        self._loop.run_until_complete(self._app.open_async())
        self._worker = self._loop.run_until_complete(self._app.job_manager.register_worker())
        self._done = import_module("procrastinate.jobs").Status.SUCCEEDED

    def step(self, chunk: int) -> int:
        return self._loop.run_until_complete(self._step(chunk))

    async def _step(self, chunk: int) -> int:
        manager = self._app.job_manager
        for taken in range(chunk):
            job = await manager.fetch_job(queues=None, worker_id=self._worker)
            if job is None:
                return taken
            await manager.finish_job(job, self._done, delete_job=True)
        return chunk

    def close(self) -> None:
        self._loop.run_until_complete(self._app.close_async())
        self._loop.close()


def claims(server: PostgresServer, rounds: int) -> str:
    """A claim at a million waiting items against one at a thousand, taking turns."""
    with contextlib.ExitStack() as stack:
        queues: dict[int, Queue] = {}
        for count in (1_000, 1_000_000):
            url = stack.enter_context(_database(server))
            OurPostgres().fill(url, count)
            queues[count] = stack.enter_context(contextlib.closing(open_queue(url)))
        seen: dict[int, list[float]] = {count: [] for count in queues}
        for _ in range(rounds * _CLAIMS):
            for count, queue in queues.items():
                seen[count].append(_claim_seconds(queue))
    few, many = (statistics.median(seen[count]) * 1e6 for count in (1_000, 1_000_000))
    row = Row(
        "a claim of 10 at 1,000,000 waiting",
        f"{many:.0f} µs",
        f"{many / few:.2f} x that at 1,000, {few:.0f} µs",
        "≤ 1.5 x",
    )
    return table("PostgreSQL, a long queue", [row])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.queue.postgres", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chunks", default=",".join(map(str, CHUNKS)))
    parser.add_argument("--processes", default=",".join(map(str, PROCESSES)))
    args = parser.parse_args()
    print(f"{machine()}; fsync on, payloads and results of 100 bytes\n")
    with running_postgres(fsync=True) as server:
        print(claims(server, args.rounds), flush=True)
        text = report(
            "PostgreSQL",
            POSTGRES,
            rounds=args.rounds,
            chunks=[int(text) for text in args.chunks.split(",")],
            processes=[int(text) for text in args.processes.split(",")],
            place=_databases_of(server),
        )
        print(text)


def _claim_seconds(queue: Queue) -> float:
    """What a claim takes. Its items are given back, so that as many wait as before."""
    started = time.perf_counter()
    lease = queue.claim(10, TERMS)
    seconds = time.perf_counter() - started
    assert lease is not None
    queue.settle(lease, Settlement(released=tuple(item.key for item in lease.items)), TERMS)
    return seconds


def _databases_of(
    server: PostgresServer,
) -> Callable[[], contextlib.AbstractContextManager[str]]:
    return lambda: _database(server)


@contextlib.contextmanager
def _database(server: PostgresServer) -> Iterator[str]:
    url = server.new_database()
    try:
        yield url
    finally:
        with psycopg.connect(server.url(), autocommit=True) as connection:
            name = url.rpartition("/")[2]
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)".encode())


def _make(
    place: str,
    count: int,
    *tables: str,
    items: str,
    column: str = "payload",
    after: str | None = None,
) -> None:
    with psycopg.connect(place, autocommit=True) as connection:
        for statement in (_RESULTS, *tables):
            connection.execute(statement.encode())
        copy = f"COPY {items} (key, {column}) FROM STDIN"
        with connection.cursor().copy(copy.encode()) as rows:
            for row in numbered(count):
                rows.write_row(row)
        if after is not None:
            connection.execute(after.encode())
    _settle_down(place)


def _settle_down(place: str) -> None:
    """Let nothing that filling left to be done be done while it is measured."""
    with psycopg.connect(place, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _procrastinate(place: str) -> Any:
    package = import_module("procrastinate")
    return package.App(connector=package.PsycopgConnector(conninfo=place, min_size=1, max_size=1))


if __name__ == "__main__":
    main()
