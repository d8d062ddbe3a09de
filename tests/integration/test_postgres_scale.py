"""How a queue in PostgreSQL stays quick: what it counts, where it looks, and its connections."""

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Any

import psycopg
import pytest

from outlast.queue import Failure, Lease, LeaseTerms, Settlement
from outlast.queue.postgres.queue import PostgresQueue
from outlast.results import Result
from outlast.results.errors import SinkUnavailable
from outlast.results.opening import open_sink_beside
from outlast.results.postgres import PostgresSink
from outlast.worker import Worker
from tests.patience import PATIENCE_SECONDS, eventually
from tests.servers.postgres import shared_postgres

pytestmark = pytest.mark.needs("postgres")

TERMS = LeaseTerms(worker="tester", lease_seconds=600.0)


@pytest.fixture
def url() -> str:
    return shared_postgres().new_schema()


@pytest.fixture
def queue(url: str) -> Iterator[PostgresQueue]:
    with closing(PostgresQueue(url)) as queue:
        yield queue


def query(url: str, statement: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else None


def keys_of(lease: Lease | None) -> list[str]:
    return [] if lease is None else [item.key for item in lease.items]


def claimed(queue: PostgresQueue, limit: int) -> Lease:
    lease = queue.claim(limit, TERMS)
    assert lease is not None
    return lease


def counts(queue: PostgresQueue) -> tuple[int | None, ...]:
    stats = queue.stats()
    return stats.ready, stats.delayed, stats.leased, stats.done, stats.dead


# Counting


def test_the_counts_are_exact_through_every_change(url: str, queue: PostgresQueue) -> None:
    queue.publish({f"{number}": number for number in range(9)})
    assert counts(queue) == (9, 0, 0, 0, 0)
    lease = claimed(queue, 6)
    assert counts(queue) == (3, 0, 6, 0, 0)
    failed = (
        Failure("1", "wrong", is_final=True),
        Failure("2", "later", delay_seconds=600.0),
        Failure("3", "again"),
    )
    queue.settle(lease, Settlement(done=("0",), failed=failed, released=("4",)), TERMS)
    assert counts(queue) == (5, 1, 1, 1, 1)
    queue.retry_dead()
    assert counts(queue) == (6, 1, 1, 1, 0)

    # Another worker, and one that was last seen before the days for which sessions are kept.
    with closing(PostgresQueue(url)) as other:
        other.settle(claimed(other, 2), Settlement(done=("1", "3")), TERMS)
        assert counts(queue) == counts(other) == (4, 1, 1, 3, 0)
    query(url, "UPDATE outlast_sessions SET used_at = used_at - interval '3 days'")
    with closing(PostgresQueue(url)) as later:
        assert query(url, "SELECT count(*) FROM outlast_sessions") == [(0,)]
        assert counts(later) == (4, 1, 1, 3, 0)


def test_a_settlement_that_is_rolled_back_counts_nothing(queue: PostgresQueue) -> None:
    queue.publish({"a": 1, "b": 2})
    lease = claimed(queue, 1)

    def fail(connection: Any) -> None:
        raise RuntimeError("the sink is broken")

    with pytest.raises(RuntimeError, match="broken"):
        queue.settle(lease, Settlement(done=("a",)), TERMS, storing=fail)

    assert counts(queue) == (1, 0, 1, 0, 0)


def test_tables_without_counts_are_upgraded_with_what_was_done(url: str) -> None:
    with closing(PostgresQueue(url)) as queue:
        queue.publish({f"{number}": number for number in range(10)})
        queue.settle(claimed(queue, 3), Settlement(done=("0", "1", "2")), TERMS)
        claimed(queue, 2)
    query(url, "DROP TABLE outlast_returned")
    query(url, "ALTER TABLE outlast_queue DROP COLUMN done")
    query(url, "ALTER TABLE outlast_sessions DROP COLUMN done_in_all, DROP COLUMN known_id")

    with closing(PostgresQueue(url)) as queue:
        assert counts(queue) == (5, 0, 2, 3, 0)
        assert keys_of(queue.claim(2, TERMS)) == ["5", "6"]
        assert counts(queue) == (3, 0, 4, 3, 0)


# Looking


def test_items_that_come_back_are_claimed_before_others(queue: PostgresQueue) -> None:
    queue.publish({f"{number}": number for number in range(6)})
    first = claimed(queue, 2)
    claimed(queue, 2)
    queue.settle(first, Settlement(released=("0", "1")), TERMS)

    assert keys_of(queue.claim(3, TERMS)) == ["0", "1", "4"]


def test_items_of_a_publisher_that_commits_late_are_found(url: str, queue: PostgresQueue) -> None:
    with psycopg.connect(url) as late:
        late.execute(
            "WITH added AS (INSERT INTO outlast_items (key, payload) VALUES ('late', '1') "
            "RETURNING id) INSERT INTO outlast_ready SELECT id FROM added"
        )
        queue.publish({"a": 1, "b": 2, "c": 3})
        assert keys_of(queue.claim(1, TERMS)) == ["a"]
        late.commit()

    # From where the last claim found items on, and then from before that.
    assert keys_of(queue.claim(3, TERMS)) == ["late", "b", "c"]


def test_the_oldest_item_is_reported_although_others_claim_newer_ones(
    url: str, queue: PostgresQueue
) -> None:
    queue.publish({f"{number}": number for number in range(6)})
    first = claimed(queue, 2)
    claimed(queue, 2)
    query(url, "UPDATE outlast_items SET published_at = published_at - interval '1 h' WHERE id < 5")
    query(url, "UPDATE outlast_items SET published_at = published_at - interval '1 h' WHERE id < 3")
    assert (queue.stats().oldest_seconds or 0.0) < 3600
    queue.settle(first, Settlement(released=("0", "1")), TERMS)

    assert (queue.stats().oldest_seconds or 0.0) >= 7200


# Connections


def test_a_worker_with_one_database_has_one_connection() -> None:
    url = shared_postgres().new_database()
    seen: list[int] = []
    others = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )

    def look(value: int) -> int:
        # Another is closed once the tables are made and the run has its number.
        eventually(lambda: query(url, others) == [(1,)], "one connection")
        seen.append(value)
        return value

    with closing(PostgresQueue(url)) as queue:
        queue.publish({"a": 1, "b": 2})
    Worker(url, url).run(look, chunk=1)

    assert seen == [1, 2]
    with closing(PostgresQueue(url)) as queue:
        assert counts(queue) == (0, 0, 0, 2, 0)


def test_a_slow_statement_of_the_sink_does_not_keep_a_lease_from_being_extended(
    url: str, queue: PostgresQueue
) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1)
    sink = open_sink_beside(url, queue)
    assert isinstance(sink, PostgresSink)
    with closing(sink), psycopg.connect(url) as blocking:
        blocking.execute("LOCK TABLE results IN ACCESS EXCLUSIVE MODE")

        def count() -> None:
            # It waits for the lock, or gives up if that takes too long.
            with suppress(SinkUnavailable):
                sink.count()

        counting = threading.Thread(target=count)
        counting.start()
        waiting = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'results'::regclass"
        eventually(lambda: bool(query(url, waiting)), "a statement that waits for the table")

        assert queue.extend(lease, TERMS).token == lease.token

        blocking.rollback()
        counting.join(PATIENCE_SECONDS)
        assert not counting.is_alive()


def test_a_sink_beside_a_queue_survives_the_loss_of_their_connection(
    url: str, queue: PostgresQueue
) -> None:
    queue.publish({"a": 1, "b": 2})
    lease = claimed(queue, 1)
    sink = open_sink_beside(url, queue)
    with closing(sink):
        pid = queue._client.call(lambda connection: connection.info.backend_pid)
        assert query(url, f"SELECT pg_terminate_backend({pid}, 60000)") == [(True,)]
        sink.store([Result("a", "1")], token=lease.token, version="v1", queue=lease.queue)
        assert sink.done(["a", "b"], version="v1") == {"a"}
    # The connection belongs to the queue, which still uses it.
    assert keys_of(queue.claim(1, TERMS)) == ["b"]


def test_a_sink_at_another_address_has_its_own_connection(queue: PostgresQueue) -> None:
    with closing(open_sink_beside(shared_postgres().new_schema(), queue)) as sink:
        assert isinstance(sink, PostgresSink)
        assert sink.database != queue.database
