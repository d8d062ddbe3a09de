"""What a queue and a sink in PostgreSQL promise beyond the contract, against a real server."""

import multiprocessing
import threading
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import psycopg
import pytest

from outlast.queue import Failure, Item, ItemRefused, Lease, LeaseLost, LeaseTerms, Settlement
from outlast.queue.errors import QueueUnavailable, QueueUrlError
from outlast.queue.opening import open_queue
from outlast.queue.postgres.queue import PostgresQueue
from outlast.results import Result, open_sink
from outlast.results.errors import SinkUnavailable, SinkUrlError
from outlast.results.postgres import PostgresSink
from tests.patience import PATIENCE_SECONDS, eventually
from tests.servers.cutting import Wire, wire_to
from tests.servers.faults import hanging
from tests.servers.postgres import PASSWORD, PASSWORD_IN_URL, PostgresServer, running_postgres

pytestmark = pytest.mark.needs("postgres")

# Long, so that nothing that is lost comes back by itself while a test runs.
TERMS = LeaseTerms(worker="tester", lease_seconds=600.0)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """Not the shared one: it is stopped, started and frozen here."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.new_schema()


@pytest.fixture
def wire(server: PostgresServer) -> Iterator[Wire]:
    with wire_to(server.port) as wire:
        yield wire


def through(wire: Wire, url: str, server: PostgresServer) -> str:
    return url.replace(f":{server.port}/", f":{wire.port}/")


def keys_of(lease: Lease | None) -> list[str]:
    return [] if lease is None else [item.key for item in lease.items]


def all_done(lease: Lease) -> Settlement:
    return Settlement(done=tuple(keys_of(lease)))


def words_of(error: BaseException) -> str:
    """Everything that a person would see of an error, its causes included."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(vars(error))


def assert_no_password_in(text: str) -> None:
    assert PASSWORD not in text
    assert PASSWORD_IN_URL not in text


def query(url: str, statement: str) -> Any:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else None


# When the server goes away


def test_a_restart_under_load_loses_nothing_and_does_nothing_twice(
    server: PostgresServer, url: str
) -> None:
    survive_restarts(server, url, items=3000, restarts_min=1)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_many_restarts_under_load_lose_nothing_either(server: PostgresServer, url: str) -> None:
    survive_restarts(server, url, items=12_000, restarts_min=8)


def survive_restarts(server: PostgresServer, url: str, *, items: int, restarts_min: int) -> None:
    with closing(PostgresQueue(url)) as queue:
        queue.publish({f"{number:05}": number for number in range(items)})
    shares: list[list[str]] = [[] for _ in range(4)]
    finished = threading.Event()

    def disturb() -> int:
        restarts = 0
        while not finished.wait(0.3):
            # On a slow machine as well, everybody gets on between two restarts.
            before = list(map(len, shares))
            server.stop()
            server.start()
            restarts += 1
            eventually(
                lambda: finished.is_set() or has_grown(shares, before),  # noqa: B023
                "all have claimed something",
            )
        return restarts

    with ThreadPoolExecutor(5) as pool:
        disturbing = pool.submit(disturb)
        try:
            list(pool.map(work_all_off, [url] * 4, shares))
        finally:
            finished.set()

    assert disturbing.result() >= restarts_min
    seen = Counter(key for share in shares for key in share)
    assert set(seen.values()) == {1}
    with closing(PostgresQueue(url)) as queue, closing(PostgresSink(url)) as sink:
        stats = queue.stats()
        assert (stats.ready, stats.leased, stats.done) == (0, 0, items)
        assert sink.count(version="v1") == items


def has_grown(shares: list[list[str]], before: list[int]) -> bool:
    return all(len(share) > count for share, count in zip(shares, before, strict=True))


def work_all_off(url: str, seen: list[str]) -> None:
    """Store and acknowledge until nothing is ready; notes the keys that were claimed."""
    with (
        closing(PostgresQueue(url, retry_seconds=PATIENCE_SECONDS)) as queue,
        closing(PostgresSink(url, retry_seconds=PATIENCE_SECONDS)) as sink,
    ):
        lease = queue.claim(2, TERMS)
        while lease is not None:
            seen += keys_of(lease)
            time.sleep(0.002)
            results = [Result(item.key, item.payload) for item in lease.items]
            storing = sink.storing(results, token=lease.token, version="v1")
            lease = queue.settle(lease, all_done(lease), TERMS, storing=storing, claim=2)


def test_an_answer_lost_after_the_commit_is_found_again(
    server: PostgresServer, url: str, wire: Wire
) -> None:
    with (
        closing(PostgresQueue(through(wire, url, server))) as queue,
        closing(PostgresSink(url)) as sink,
    ):
        queue.publish({"a": 1, "b": 2})
        lease = queue.claim(1, TERMS)
        assert lease is not None
        storing = sink.storing([Result("a", "1")], token=lease.token, version="v1")
        connections = wire.connections

        wire.cut_next_answer()
        following = queue.settle(lease, all_done(lease), TERMS, storing=storing, claim=1)

        assert wire.connections == connections + 1
        assert following is not None
        assert keys_of(following) == ["b"]
        assert following.expires > time.monotonic() + TERMS.lease_seconds / 2
        assert queue.stats().leased == 1
        assert sink.count() == 1
        queue.settle(following, all_done(following), TERMS)
        assert queue.stats().done == 2


def test_a_claim_whose_answer_was_lost_is_not_made_twice(
    server: PostgresServer, url: str, wire: Wire
) -> None:
    with closing(PostgresQueue(through(wire, url, server))) as queue:
        queue.publish({"a": 1, "b": 2})

        wire.cut_next_answer()
        lease = queue.claim(1, TERMS)

        assert keys_of(lease) == ["a"]
        assert queue.stats().leased == 1


def test_an_answer_lost_for_longer_than_we_retry_is_found_by_the_next_try(
    server: PostgresServer, url: str, wire: Wire
) -> None:
    with closing(PostgresQueue(through(wire, url, server), retry_seconds=0.0)) as queue:
        queue.publish({"a": 1, "b": 2, "c": 3})
        lease = queue.claim(1, TERMS)
        assert lease is not None
        wire.cut_next_answer()
        with pytest.raises(QueueUnavailable, match="failed"):
            queue.settle(lease, all_done(lease), TERMS, claim=1)

        following = queue.settle(lease, all_done(lease), TERMS, claim=1)

        assert keys_of(following) == ["b"]
        stats = queue.stats()
        assert (stats.done, stats.leased, stats.ready) == (1, 1, 1)


def test_a_question_that_never_arrived_is_asked_again(
    server: PostgresServer, url: str, wire: Wire
) -> None:
    with closing(PostgresQueue(through(wire, url, server))) as queue:
        queue.publish({"a": 1})
        lease = queue.claim(1, TERMS)
        assert lease is not None

        wire.cut_next_question()
        queue.settle(lease, all_done(lease), TERMS)

        assert queue.stats().done == 1


def test_a_large_publish_is_repeated_if_it_can_be_read_again(
    server: PostgresServer, url: str, wire: Wire
) -> None:
    items = {f"{number:06}": number for number in range(12_000)}
    with closing(PostgresQueue(through(wire, url, server))) as queue:
        wire.cut_next_question()

        queue.publish(items)

        assert queue.stats().ready == 12_000


def test_a_large_publish_that_cannot_be_read_again_says_so(
    server: PostgresServer, url: str, wire: Wire
) -> None:
    def items() -> Iterator[tuple[str, int]]:
        for number in range(12_000):
            if number == 11_000:
                wire.cut_next_question()
            yield f"{number:06}", number

    with closing(PostgresQueue(through(wire, url, server))) as queue:
        with pytest.raises(QueueUnavailable, match="cannot be read again"):
            queue.publish(items())

        assert queue.stats().ready == 0


def test_a_server_that_is_gone_is_reported_within_bounds(server: PostgresServer, url: str) -> None:
    with (
        closing(PostgresQueue(url, retry_seconds=0.5)) as queue,
        closing(PostgresSink(url, retry_seconds=0.5)) as sink,
    ):
        server.stop()
        try:
            with pytest.raises(QueueUnavailable) as caught:
                queue.claim(1, TERMS)
            with pytest.raises(SinkUnavailable) as caught_too:
                sink.done(["a"], version="v1")
        finally:
            server.start()

        for error in (caught.value, caught_too.value):
            assert error.hint is not None
            assert "Check that the server is running" in error.hint
            assert_no_password_in(words_of(error))
        assert queue.claim(1, TERMS) is None


def test_a_server_that_hangs_is_not_waited_for_without_end(
    server: PostgresServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(PostgresQueue(url, retry_seconds=1.0)) as queue:
        queue.publish({"a": 1})
        server.freeze()
        try:
            with monkeypatch.context() as impatient, pytest.raises(QueueUnavailable):
                impatient.setattr("outlast.databases.postgres._ANSWER_SECONDS_MAX", 0.5)
                impatient.setattr("outlast.databases.postgres._CONNECT_SECONDS_MAX", 2)
                queue.claim(1, TERMS)
        finally:
            server.thaw()

        assert keys_of(queue.claim(1, TERMS)) == ["a"]


def test_an_address_that_never_answers_cannot_be_opened() -> None:
    with hanging() as address:
        host = address.removeprefix("http://")

        with pytest.raises(QueueUnavailable, match="timeout"):
            PostgresQueue(f"postgresql://{host}/x?connect_timeout=2", retry_seconds=0.1)


# URLs and secrets


def test_a_password_is_never_shown(server: PostgresServer, url: str) -> None:
    with closing(PostgresQueue(url)) as queue, closing(PostgresSink(f"{url}#other")) as sink:
        shown = [queue.url, queue.database, sink.url, sink.database, repr(queue), repr(sink)]

    for text in shown:
        assert_no_password_in(text)
    assert queue.url.startswith(f"postgresql://tester@127.0.0.1:{server.port}/postgres?options=")
    assert sink.url.endswith("#other")


@pytest.mark.parametrize("open_it", [open_queue, open_sink], ids=["queue", "sink"])
def test_a_wrong_password_is_refused_at_once_and_not_shown(
    server: PostgresServer, wire: Wire, open_it: Any
) -> None:
    url = through(wire, server.url(password="gu3ss-w%40rk"), server)

    with pytest.raises(
        (QueueUnavailable, SinkUnavailable), match="authentication failed"
    ) as caught:
        open_it(url)

    assert wire.connections == 1
    assert "gu3ss" not in words_of(caught.value)
    assert caught.value.hint == "Check the user, password and database name in the URL."


def test_a_password_in_the_query_is_not_shown_either(server: PostgresServer) -> None:
    url = f"postgresql://127.0.0.1:{server.port}/postgres?user=tester&password=gu3ss"

    with pytest.raises(QueueUnavailable) as caught:
        PostgresQueue(url)

    assert "gu3ss" not in words_of(caught.value)
    assert "user=tester" in str(caught.value)


@pytest.mark.parametrize("open_it", [open_queue, open_sink], ids=["queue", "sink"])
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://tester:s3cret%zz@127.0.0.1/x",
        "postgresql://tester:s3cret@127.0.0.1:port/x",
        "postgresql://tester:s3cret@127.0.0.1/x?no_such_option=1",
        "postgresql://tester:s3cret@[::1/x",
        "postgresql://tester:s3cret#more@127.0.0.1/x",
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_showing_it(open_it: Any, url: str) -> None:
    with pytest.raises((QueueUrlError, SinkUrlError)) as caught:
        open_it(url)

    assert "s3cret" not in words_of(caught.value)
    assert "more@" not in words_of(caught.value)
    assert caught.value.hint is not None


def test_a_queue_in_a_table_of_ones_own_is_refused() -> None:
    with pytest.raises(QueueUrlError, match="cannot name a table after '#'"):
        PostgresQueue("postgresql://127.0.0.1/x#jobs")


@pytest.mark.parametrize("table", ["a b", 'x"; DROP TABLE y; --', "1a", "x" * 64, "ä", "a.b"])
def test_a_table_is_named_by_a_plain_word(table: str) -> None:
    with pytest.raises(SinkUrlError, match="not a valid table name"):
        PostgresSink(f"postgresql://127.0.0.1/x#{table}")


def test_a_database_that_does_not_exist_is_refused_at_once(server: PostgresServer) -> None:
    with pytest.raises(QueueUnavailable, match='"nowhere" does not exist'):
        PostgresQueue(server.url("nowhere"))


def test_a_database_that_cannot_hold_any_text_is_refused(server: PostgresServer) -> None:
    with pytest.raises(QueueUrlError, match="uses the encoding LATIN1"):
        PostgresQueue(server.new_database(encoding="LATIN1"))


def test_a_table_that_is_not_for_results_is_refused(url: str) -> None:
    query(url, "CREATE TABLE results (id int)")

    with pytest.raises(SinkUrlError, match="exists, but it is not a table of results"):
        PostgresSink(url)


def test_tables_of_another_version_are_refused(url: str) -> None:
    PostgresQueue(url).close()
    query(url, "UPDATE outlast_queue SET version = 99")

    with pytest.raises(QueueUnavailable, match="version 99"):
        PostgresQueue(url)


# Tables and rights


def test_workers_that_start_at_once_make_the_tables_once(url: str) -> None:
    start = threading.Barrier(8)

    def open_both(_: int) -> None:
        start.wait()
        PostgresQueue(url).close()
        PostgresSink(url).close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(open_both, range(8)))

    assert query(url, "SELECT version, published FROM outlast_queue") == [(2, 0)]


def test_a_worker_needs_no_right_to_make_tables_that_are_there(
    server: PostgresServer, url: str
) -> None:
    PostgresQueue(url).close()
    PostgresSink(url).close()
    schema = url.rpartition("%3D")[2]
    query(url, f"CREATE ROLE {schema} LOGIN PASSWORD 'pw'")
    query(url, f"GRANT USAGE ON SCHEMA {schema} TO {schema}")
    query(url, f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {schema}")
    query(url, f"GRANT SELECT, USAGE, UPDATE ON ALL SEQUENCES IN SCHEMA {schema} TO {schema}")
    worker_url = server.url(user=schema, password="pw") + "?" + url.partition("?")[2]

    with closing(PostgresQueue(worker_url)) as queue, closing(PostgresSink(worker_url)) as sink:
        queue.publish({"a": 1})
        lease = queue.claim(1, TERMS)
        assert lease is not None
        storing = sink.storing([Result("a", "1")], token=lease.token, version="v1")
        queue.settle(lease, all_done(lease), TERMS, storing=storing)

        assert queue.stats().done == 1


def test_a_user_without_rights_is_told(server: PostgresServer, url: str) -> None:
    schema = url.rpartition("%3D")[2]
    query(url, f"CREATE ROLE {schema} LOGIN PASSWORD 'pw'")
    worker_url = server.url(user=schema, password="pw") + "?" + url.partition("?")[2]

    with pytest.raises(QueueUnavailable, match=r"no schema has been selected") as caught:
        PostgresQueue(worker_url)

    assert caught.value.hint is not None
    assert "permission to create and change tables" in caught.value.hint


def test_a_server_elsewhere_is_not_asked_without_tls_unless_the_url_says_so(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.databases.postgres.is_local", lambda *_: False)

    # It would take ten minutes if it were tried again.
    with pytest.raises(QueueUnavailable, match="does not support SSL") as caught:
        PostgresQueue(url, retry_seconds=600.0)

    assert caught.value.hint is not None
    assert "sslmode=disable" in caught.value.hint
    assert_no_password_in(words_of(caught.value))
    # Its password is proved, not sent.
    PostgresQueue(f"{url}&sslmode=disable").close()


def test_a_server_elsewhere_that_wants_the_password_itself_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.databases.postgres.is_local", lambda *_: False)

    with pytest.raises(QueueUnavailable, match="authentication method requirement") as caught:
        PostgresQueue(f"{url}&sslmode=disable&require_auth=md5", retry_seconds=600.0)

    assert caught.value.hint is not None
    assert "scram-sha-256" in caught.value.hint


def test_a_server_can_be_reached_through_a_unix_socket(server: PostgresServer, url: str) -> None:
    options = f"{url.partition('?')[2]}&host={server.folder}&port={server.port}"
    socket_url = f"postgresql://tester:{PASSWORD_IN_URL}@/postgres?{options}"

    with closing(PostgresQueue(socket_url)) as queue, closing(PostgresQueue(url)) as other:
        queue.publish({"a": 1})

        assert keys_of(other.claim(1, TERMS)) == ["a"]


def test_two_schemas_are_two_queues_in_two_places(server: PostgresServer) -> None:
    with (
        closing(PostgresQueue(server.new_schema())) as one,
        closing(PostgresQueue(server.new_schema())) as other,
    ):
        one.publish({"a": 1})

        assert other.claim(1, TERMS) is None
        assert one.database != other.database


# Clocks and tokens


def test_the_clocks_of_workers_do_not_matter(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(PostgresQueue(url)) as queue:
        queue.publish({"a": 1, "b": 2, "c": 3})
        tokens = []
        real = time.time
        for hours in (0, -1, 1):
            monkeypatch.setattr(time, "time", lambda hours=hours: real() + hours * 3600)
            lease = queue.claim(1, TERMS)
            assert lease is not None
            tokens.append(lease.token)

        assert tokens == [1, 2, 3]
        assert queue.stats().leased == 3


def test_claims_in_parallel_never_share_a_token(url: str) -> None:
    with closing(PostgresQueue(url)) as queue:
        queue.publish({f"{number:04}": number for number in range(400)})
    start = threading.Barrier(4)

    def claim(_: int) -> list[int]:
        with closing(PostgresQueue(url)) as queue:
            start.wait(PATIENCE_SECONDS)
            return [lease.token for _ in range(100) if (lease := queue.claim(1, TERMS))]

    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(claim, range(4)))

    assert len({token for share in shares for token in share}) == 400
    assert all(share == sorted(share) for share in shares)


# Tables of older versions

QUEUE_1 = """
CREATE TABLE outlast_items (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    key text COLLATE "C" NOT NULL UNIQUE,
    payload text NOT NULL,
    failures integer NOT NULL DEFAULT 0,
    errors text[] NOT NULL DEFAULT '{}',
    published_at timestamptz NOT NULL DEFAULT statement_timestamp()
);
CREATE TABLE outlast_ready (id bigint PRIMARY KEY);
CREATE TABLE outlast_delayed (id bigint PRIMARY KEY, until timestamptz NOT NULL);
CREATE INDEX outlast_delayed_until ON outlast_delayed (until);
CREATE TABLE outlast_groups (first_id bigint PRIMARY KEY, ids bigint[] NOT NULL);
CREATE TABLE outlast_leases (
    token bigint PRIMARY KEY,
    ids bigint[] NOT NULL,
    is_alone boolean NOT NULL,
    worker text NOT NULL,
    expires timestamptz NOT NULL,
    session uuid NOT NULL,
    request bigint NOT NULL
);
CREATE INDEX outlast_leases_expires ON outlast_leases (expires);
CREATE TABLE outlast_dead (id bigint PRIMARY KEY, died_at timestamptz NOT NULL);
CREATE TABLE outlast_sessions (
    session uuid PRIMARY KEY,
    request bigint NOT NULL,
    used_at timestamptz NOT NULL,
    since timestamptz NOT NULL,
    done bigint NOT NULL,
    before_seconds float8 NOT NULL,
    before_done bigint NOT NULL
);
CREATE TABLE outlast_queue (version integer PRIMARY KEY, published bigint NOT NULL);
CREATE SEQUENCE outlast_tokens;
SELECT setval('outlast_tokens', 1760000000000000);
INSERT INTO outlast_queue VALUES (1, 2);
INSERT INTO outlast_items (key, payload) VALUES ('a', '1'), ('b', '2');
INSERT INTO outlast_ready VALUES (1), (2)
"""
RESULTS_1 = """
CREATE TABLE results (
    key text COLLATE "C" PRIMARY KEY,
    result text NOT NULL,
    version text NOT NULL,
    token bigint NOT NULL,
    stored_at timestamptz NOT NULL
);
INSERT INTO results VALUES
    ('a', '"old"', 'v1', 4000000000000000, now()), ('b', '"old"', 'v1', 4000000000000000, now())
"""


def test_tables_of_an_older_version_are_brought_up_to_date_once(url: str) -> None:
    run_script(url, QUEUE_1)
    run_script(url, RESULTS_1)
    start = threading.Barrier(4)

    def open_both(_: int) -> None:
        start.wait(PATIENCE_SECONDS)
        PostgresQueue(url).close()
        PostgresSink(url).close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(open_both, range(4)))

    assert query(url, "SELECT version, published, length(id) FROM outlast_queue") == [(2, 2, 32)]
    with closing(PostgresQueue(url)) as queue, closing(PostgresSink(url)) as sink:
        assert sink.done(["a", "b"], version="v1") == {"a", "b"}
        lease = queue.claim(1, TERMS)
        assert lease is not None
        assert lease.token == 1760000000000001
        fence: Any = {"token": lease.token, "version": "v2", "queue": lease.queue}
        storing = sink.storing([Result("a", "1")], **fence)
        queue.settle(lease, all_done(lease), TERMS, storing=storing)

        assert list(sink.results()) == [Result("a", "1"), Result("b", '"old"')]
        assert queue.stats()[:4] == (1, 0, 0, 1)


def run_script(url: str, script: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in script.split(";\n"):
            connection.execute(statement.encode())


# Odd values


@pytest.mark.parametrize(
    "item",
    [
        Item("a", '"\0"'),
        Item("a\0", "1"),
        Item("a", '"\ud800"'),
        Item("", "1"),
        Item("x" * 513, "1"),
    ],
    ids=["nul", "nul-in-key", "surrogate", "no-key", "long-key"],
)
def test_an_item_that_the_database_would_not_take_is_refused(url: str, item: Item) -> None:
    with closing(PostgresQueue(url)) as queue:
        with pytest.raises(ItemRefused, match="cannot be stored"):
            queue.publish([Item("b", "1"), item])

        assert queue.stats().ready == 0


def test_an_error_may_be_any_text(url: str) -> None:
    error = 'NUL \0, half \ud800, {braces}, "quotes", \\backslash, 100 %s'
    with closing(PostgresQueue(url)) as queue:
        queue.publish({"a": 1})
        lease = queue.claim(1, TERMS._replace(worker="wörker\0"))
        assert lease is not None

        queue.settle(lease, Settlement(failed=(Failure("a", error, is_final=True),)), TERMS)

        [letter] = queue.dead_letters()
    expected = 'NUL \\0, half \\ud800, {braces}, "quotes", \\backslash, 100 %s'
    assert letter.errors[0].endswith(expected)


@pytest.mark.parametrize("delay_seconds", [1e300, float("inf")])
def test_an_endless_delay_is_a_long_one(url: str, delay_seconds: float) -> None:
    with closing(PostgresQueue(url)) as queue:
        queue.publish({"a": 1})
        lease = queue.claim(1, TERMS)
        assert lease is not None

        queue.settle(lease, Settlement(failed=(Failure("a", "no", delay_seconds),)), TERMS)

        assert queue.stats().delayed == 1


def test_a_lost_lease_claims_nothing_though_suspects_wait(url: str) -> None:
    brief = TERMS._replace(lease_seconds=0.1)
    with closing(PostgresQueue(url)) as queue:
        queue.publish(dict.fromkeys("abcd", 1))
        pair, lease = queue.claim(2, TERMS), queue.claim(1, TERMS)
        assert pair is not None and lease is not None
        queue.extend(pair, brief)
        lease = queue.extend(lease, brief)
        time.sleep(0.2)
        assert keys_of(queue.claim(1, TERMS)) == ["a"]
        before = query(url, "SELECT ids FROM outlast_groups")

        with pytest.raises(LeaseLost):
            queue.settle(lease, all_done(lease), TERMS, claim=1)

        assert query(url, "SELECT ids FROM outlast_groups") == before != []
        assert queue.stats().leased == 1


def test_a_group_larger_than_asked_for_stays_a_group(url: str) -> None:
    with closing(PostgresQueue(url)) as queue:
        queue.publish(dict.fromkeys("abcdefgh", 1))
        queue.claim(6, TERMS._replace(lease_seconds=0.1))
        time.sleep(0.2)

        chunks = ["".join(keys_of(queue.claim(limit, TERMS))) for limit in (2, 9, 2, 9, 9)]

        assert chunks == ["ab", "c", "de", "f", "gh"]


def test_publishing_the_same_keys_in_another_order_at_once_ends_well(url: str) -> None:
    keys = [f"{number:05}" for number in range(2000)]

    def publish(number: int) -> int:
        with closing(PostgresQueue(url)) as queue:
            return queue.publish((key, 1) for key in (keys if number % 2 else keys[::-1])).added

    with ThreadPoolExecutor(4) as pool:
        added = sum(pool.map(publish, range(4)))

    with closing(PostgresQueue(url)) as queue:
        assert added == queue.stats().ready == 2000


def test_a_storing_that_fails_in_the_database_undoes_all(url: str) -> None:
    with closing(PostgresQueue(url)) as queue:
        queue.publish({"a": 1})
        lease = queue.claim(1, TERMS)
        assert lease is not None

        with pytest.raises(QueueUnavailable, match="division by zero"):
            queue.settle(
                lease,
                all_done(lease),
                TERMS,
                storing=lambda connection: connection.execute("SELECT 1/0"),
            )

        assert queue.stats().leased == 1
        queue.settle(lease, all_done(lease), TERMS)


def test_a_storing_that_reads_is_still_part_of_the_transaction(url: str) -> None:
    def storing(connection: Any) -> None:
        connection.execute("CREATE TABLE IF NOT EXISTS own (n int)")
        assert connection.execute("INSERT INTO own VALUES (1) RETURNING n").fetchone() == (1,)

    with closing(PostgresQueue(url)) as queue:
        queue.publish({"a": 1})
        lease = queue.claim(1, TERMS)
        assert lease is not None
        queue.settle(lease, all_done(lease), TERMS, storing=storing)

        with pytest.raises(LeaseLost):
            queue.settle(lease, all_done(lease), TERMS, storing=storing)

    assert query(url, "SELECT count(*) FROM own") == [(1,)]


def test_a_forked_child_uses_a_connection_and_a_name_of_its_own(url: str) -> None:
    with closing(PostgresQueue(url)) as queue:
        queue.publish({"a": 1, "b": 2, "c": 3})
        first = queue.claim(1, TERMS)

        child = multiprocessing.get_context("fork").Process(target=queue.claim, args=(1, TERMS))
        child.start()
        child.join(PATIENCE_SECONDS)
        third = queue.claim(1, TERMS)

        assert child.exitcode == 0
        assert (keys_of(first), keys_of(third)) == (["a"], ["c"])
        assert queue.stats().leased == 3


def test_results_are_stored_by_two_who_share_keys_without_a_deadlock(url: str) -> None:
    keys = [f"{number:03}" for number in range(300)]

    def store(token: int) -> None:
        ordered = keys if token % 2 else keys[::-1]
        with closing(PostgresSink(url)) as sink:
            for _ in range(10):
                results = [Result(key, str(token)) for key in ordered]
                sink.store(results, token=token, version="v1")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(store, range(4)))

    with closing(PostgresSink(url)) as sink:
        assert {result.payload for result in sink.results()} == {"3"}


def test_a_key_given_twice_in_one_store_keeps_the_last(url: str) -> None:
    with closing(PostgresSink(url)) as sink:
        sink.store([Result("a", "2"), Result("a", "1")], token=1, version="v1")

        assert list(sink.results()) == [Result("a", "1")]


@pytest.mark.parametrize("text", ["x" * 1000, '"' * 600], ids=["long", "long when sent"])
def test_an_item_beyond_the_limit_of_the_server_is_refused_by_name(
    url: str, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr("outlast.queue.postgres.queue._ITEM_BYTES_MAX", 1000)
    large = Item("large", text)

    with closing(PostgresQueue(url)) as queue:
        with pytest.raises(ItemRefused, match=r"Item 'large' has .* bytes; PostgreSQL allows"):
            queue.publish([Item("small", "1"), large])
        with pytest.raises(ItemRefused, match="Item 'large' has"):
            queue.check(large)

        assert queue.stats().ready == 0


def test_a_large_item_on_which_the_server_fails_is_named_with_its_size(url: str) -> None:
    with closing(PostgresQueue(url)) as queue:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(REFUSE_LARGE)
        items = [Item("small", "1"), Item("large", '"' + "x" * 9_000_000 + '"')]

        with pytest.raises(QueueUnavailable) as caught:
            queue.publish(items)

        words = "Could not publish item 'large' with 9,000,007 bytes."
        assert str(caught.value).startswith(words)
        assert "too large for me" in str(caught.value)
        assert caught.value.hint is not None
        assert caught.value.hint.startswith("Store large payloads in a bucket")
        assert queue.stats().ready == 0


REFUSE_LARGE = """
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(NEW.payload) > 1000 THEN RAISE 'too large for me'; END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER refuse BEFORE INSERT ON outlast_items FOR EACH ROW EXECUTE FUNCTION refuse()
"""


def test_dead_letters_come_page_by_page_whatever_their_size(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.queue.postgres.queue._PAGE_ITEMS", 3)
    monkeypatch.setattr("outlast.queue.postgres.queue.BYTES_MAX", 500)
    payloads = {f"{number}": "x" * size for number, size in enumerate((1, 1, 1, 900, 1, 300, 300))}
    with closing(PostgresQueue(url)) as queue:
        queue.publish(payloads)
        lease = queue.claim(10, TERMS)
        assert lease is not None
        failed = tuple(Failure(key, "no", is_final=True) for key in payloads)
        queue.settle(lease, Settlement(failed=failed), TERMS)

        listed = [(letter.item.key, letter.item.value) for letter in queue.iter_dead_letters()]
        retried: list[int] = []
        queue.retry_dead(on_progress=retried.append)

        assert listed == list(payloads.items())
        assert retried == [3, 3, 1]
        assert queue.stats().ready == 7


def test_results_come_page_by_page_whatever_their_size(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("outlast.results.postgres._PAGE_ROWS", 3)
    monkeypatch.setattr("outlast.results.postgres.BYTES_MAX", 500)
    sizes = (1, 1, 1, 900, 1, 300, 300, 900)
    results = [Result(f"{number}", "1" * size) for number, size in enumerate(sizes)]
    with closing(PostgresSink(url)) as sink:
        sink.store(results, token=1, version="")

        assert list(sink.results()) == results
