"""What a queue in Pub/Sub promises beyond the contract, against Google's own emulator."""

import itertools
import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from google.pubsub_v1.types import PubsubMessage

from outlast.queue import (
    Failure,
    Item,
    ItemRefused,
    Lease,
    LeaseLost,
    LeaseTerms,
    QueueUnavailable,
    Settlement,
    open_queue,
)
from outlast.queue.errors import QueueStalled
from outlast.queue.protocol import LedgerQueue, QueueGuarantees
from outlast.queue.pubsub.client import PubSubClient
from outlast.queue.pubsub.messages import MARK
from outlast.queue.pubsub.queue import PubSubQueue
from outlast.results import Result
from outlast.results.objects import ObjectSink
from outlast.worker import Worker
from tests.patience import PATIENCE_SECONDS, eventually
from tests.programs import python
from tests.servers.pubsub import PubSubEmulator, client_of, running_pubsub, shared_pubsub

pytestmark = pytest.mark.needs("pubsub-emulator")

PROJECT = "outlast-test"
TERMS = LeaseTerms(worker="tester", lease_seconds=60.0)


@pytest.fixture
def emulator() -> Iterator[PubSubEmulator]:
    emulator = shared_pubsub()
    with client_of(emulator):
        yield emulator


@pytest.fixture
def url(emulator: PubSubEmulator) -> str:
    return f"pubsub://{PROJECT}/topic-{uuid.uuid4().hex}?subscription=workers-{uuid.uuid4().hex}"


@pytest.fixture
def queue(url: str) -> Iterator[PubSubQueue]:
    with closing(opened(url)) as queue:
        yield queue


@pytest.fixture
def ledger_url(url: str, tmp_path: Path) -> str:
    return f"{url}&ledger={tmp_path}/ledger"


def opened(url: str, *, retry_seconds: float = 10.0, wait_seconds: float = 1.0) -> PubSubQueue:
    return PubSubQueue(url, retry_seconds=retry_seconds, wait_seconds=wait_seconds)


def keys_of(lease: Lease | None) -> list[str]:
    return [] if lease is None else [item.key for item in lease.items]


def all_done(lease: Lease) -> Settlement:
    return Settlement(done=tuple(keys_of(lease)))


def claimed(queue: PubSubQueue, limit: int = 100, terms: LeaseTerms = TERMS) -> Lease:
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while (lease := queue.claim(limit, terms)) is None:
        assert time.monotonic() < give_up_at, "nothing came"
    return lease


def drain(queue: PubSubQueue, count: int) -> Counter[str]:
    """Claim and acknowledge until so many items came."""
    seen: Counter[str] = Counter()
    while seen.total() < count:
        lease = claimed(queue)
        seen.update(keys_of(lease))
        queue.settle(lease, all_done(lease), TERMS)
    return seen


def expired(lease: Lease) -> None:
    time.sleep(max(0.0, lease.expires - time.monotonic()) + 0.1)


def publish_raw(url: str, *messages: bytes, attributes: dict[str, str] | None = None) -> None:
    """Publish as another program would."""
    topic = url.partition("?")[0].rpartition("/")[2]
    client = PubSubClient(PROJECT, retry_seconds=5)
    client._publisher.publish(
        topic=f"projects/{PROJECT}/topics/{topic}",
        messages=[PubsubMessage(data=data, attributes=attributes or {}) for data in messages],
    )
    client.close()


# Promises


def test_what_it_cannot_promise_is_declared(queue: PubSubQueue, ledger_url: str) -> None:
    assert queue.guarantees == QueueGuarantees(
        exact_counts=False, dedupes_keys=False, keeps_expired=False
    )
    assert queue.published() is None
    assert queue.stats() == (None,) * 7
    assert queue.database is None
    with closing(opened(ledger_url)) as with_ledger:
        assert with_ledger.guarantees.dedupes_keys
        assert isinstance(with_ledger, LedgerQueue)


def test_results_cannot_share_its_transaction(queue: PubSubQueue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue)

    with pytest.raises(ValueError, match="has no transactions"):
        queue.settle(lease, all_done(lease), TERMS, storing=lambda _: None)


def test_a_lease_longer_than_pubsub_holds_is_refused(queue: PubSubQueue) -> None:
    queue.publish({"a": 1})

    with pytest.raises(ValueError, match="at most 600 with Pub/Sub, got 601"):
        claimed(queue, terms=TERMS._replace(lease_seconds=601))


# Leases


def test_released_items_are_with_another_at_once(url: str, queue: PubSubQueue) -> None:
    # Nobody has to wait for leases to expire: these last longer than a test may.
    terms = TERMS._replace(lease_seconds=600)
    queue.publish({f"{number:03}": number for number in range(60)})
    held: list[Lease] = []
    while sum(len(lease.items) for lease in held) < 60:
        held.append(claimed(queue, terms=terms))
    with closing(opened(url)) as other:
        for lease in held:
            queue.settle(lease, Settlement(released=tuple(keys_of(lease))), TERMS)

        seen = drain(other, 60)

    assert set(seen.values()) == {1}


def test_a_lost_lease_is_told_by_the_server(url: str, queue: PubSubQueue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, terms=TERMS._replace(lease_seconds=1))
    expired(lease)
    with closing(opened(url)) as other:
        newer = claimed(other)

        with pytest.raises(LeaseLost, match="lease on 1 messages no longer"):
            queue.settle(lease, all_done(lease), TERMS)
        with pytest.raises(LeaseLost):
            queue.extend(lease, TERMS)
        other.settle(newer, all_done(newer), TERMS)


@pytest.mark.parametrize("act", ["done", "failed", "released"])
def test_a_lost_lease_changes_nothing(url: str, queue: PubSubQueue, act: str) -> None:
    settlement = {
        "done": Settlement(done=("a",)),
        "failed": Settlement(failed=(Failure("a", "no", is_final=True),)),
        "released": Settlement(released=("a",)),
    }[act]
    queue.publish({"a": 1})
    lease = claimed(queue, terms=TERMS._replace(lease_seconds=1))
    expired(lease)
    with closing(opened(url)) as other:
        newer = claimed(other)

        with pytest.raises(LeaseLost):
            queue.settle(lease, settlement, TERMS)

        assert queue.dead_letters() == []
        assert other.claim(1, TERMS) is None
        other.settle(newer, all_done(newer), TERMS)


def test_an_item_is_settled_once(queue: PubSubQueue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue)
    queue.settle(lease, all_done(lease), TERMS)

    for settlement in (all_done(lease), Settlement(done=("other",)), Settlement(released=("a",))):
        with pytest.raises(LeaseLost):
            queue.settle(lease, settlement, TERMS)
    with pytest.raises(LeaseLost):
        queue.extend(lease, TERMS)


def test_a_settlement_cut_short_goes_on_where_it_stopped(
    queue: PubSubQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish({"a": 1, "b": 2, "c": 3})
    lease = claimed(queue)
    settlement = Settlement(done=("a",), failed=(Failure("b", "no"),), released=("c",))

    def gone(*_: object) -> None:
        raise QueueUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr("outlast.queue.pubsub.topics.Topics.send", gone)
        with pytest.raises(QueueUnavailable):
            queue.settle(lease, settlement, TERMS)
    queue.settle(lease, settlement, TERMS)

    seen: dict[str, int] = {}
    while len(seen) < 2:
        seen |= {item.key: item.failures for item in claimed(queue).items}
    assert seen == {"b": 1, "c": 0}


def test_a_claim_that_fails_does_not_hide_that_the_lease_was_settled(
    queue: PubSubQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish({"a": 1, "b": 2})
    lease = claimed(queue, 1)

    def gone(*_: object, **__: object) -> None:
        raise QueueUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr("outlast.queue.pubsub.topics.Topics.pull", gone)
        assert queue.settle(lease, all_done(lease), TERMS, claim=1) is None

    assert keys_of(claimed(queue)) == ["b"]


def test_a_heartbeat_beside_a_settlement_never_takes_the_lease_for_lost(queue: PubSubQueue) -> None:
    queue.publish({f"{number:03}": number for number in range(40)})
    lease = claimed(queue)
    beaten, settled = threading.Event(), threading.Event()

    def beat() -> None:
        while not settled.is_set():
            queue.extend(lease, TERMS)
            beaten.set()

    with ThreadPoolExecutor(1) as pool:
        beating = pool.submit(beat)
        assert beaten.wait(PATIENCE_SECONDS)
        for key in keys_of(lease)[:-1]:
            queue.settle(lease, Settlement(done=(key,)), TERMS)
        settled.set()

    beating.result()
    queue.settle(lease, Settlement(done=(keys_of(lease)[-1],)), TERMS)


def test_a_subscription_made_otherwise_works_and_is_warned_about(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = url.partition("?")[0].rpartition("/")[2]
    subscription = url.partition("subscription=")[2]
    client = PubSubClient(PROJECT, retry_seconds=5)
    parent = f"projects/{PROJECT}"
    client._publisher.create_topic(name=f"{parent}/topics/{topic}")
    client._subscriber.create_subscription(
        name=f"{parent}/subscriptions/{subscription}", topic=f"{parent}/topics/{topic}"
    )
    client.close()

    with closing(opened(url)) as queue:
        queue.publish({"a": 1})
        lease = claimed(queue)
        queue.settle(lease, Settlement(released=("a",)), TERMS)
        lease = claimed(queue)
        queue.settle(lease, all_done(lease), TERMS)

    assert "does not use exactly-once delivery" in caplog.text
    assert "has no dead-letter topic" in caplog.text


def test_a_part_can_be_settled_and_the_rest_stays_leased(url: str, queue: PubSubQueue) -> None:
    queue.publish({"a": 1, "b": 2, "c": 3})
    lease = claimed(queue)
    assert len(lease.items) == 3

    queue.settle(lease, Settlement(done=("a",), failed=(Failure("b", "no"),)), TERMS)

    assert keys_of(claimed(queue)) == ["b"]
    queue.settle(lease, Settlement(done=("c",)), TERMS)


def test_a_failed_item_waits_for_its_delay(queue: PubSubQueue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue)
    started = time.monotonic()

    queue.settle(lease, Settlement(failed=(Failure("a", "later", delay_seconds=2.0),)), TERMS)

    assert [(item.key, item.failures) for item in claimed(queue).items] == [("a", 1)]
    assert time.monotonic() - started >= 2.0


# Poison


def test_an_item_that_kills_its_workers_ends_alone_in_the_dead_letters(queue: PubSubQueue) -> None:
    terms = TERMS._replace(failures_max=2)
    queue.publish({f"{number}": number for number in range(6)})
    done: Counter[str] = Counter()
    deaths = 0

    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not queue.dead_letters():
        assert time.monotonic() < give_up_at
        lease = queue.claim(6, terms)
        if "3" in keys_of(lease):
            assert lease is not None
            deaths += 1
            expired(queue.extend(lease, terms._replace(lease_seconds=1)))
        elif lease is not None:
            done.update(keys_of(lease))
            queue.settle(lease, all_done(lease), terms)
    while lease := queue.claim(6, terms):
        done.update(keys_of(lease))
        queue.settle(lease, all_done(lease), terms)

    [letter] = queue.dead_letters()
    assert letter.item.key == "3"
    assert letter.item.failures == 2
    assert all("died or lost its lease" in error for error in letter.errors)
    assert done == Counter("01245")
    assert deaths <= 8


def test_an_item_released_often_is_worked_on_alone_and_never_blamed(queue: PubSubQueue) -> None:
    queue.publish({"a": 1, "b": 2})
    chunks: list[list[str]] = []

    for _ in range(24):
        lease = claimed(queue, terms=TERMS._replace(failures_max=1))
        chunks.append(sorted(keys_of(lease)))
        assert [item.failures for item in lease.items] == [0] * len(lease.items)
        queue.settle(lease, Settlement(released=tuple(keys_of(lease))), TERMS)

    assert queue.dead_letters() == []
    assert {len(chunk) for chunk in chunks[-6:]} == {1}


def test_what_pubsub_itself_gives_up_is_found_in_the_ledger(ledger_url: str) -> None:
    with closing(opened(ledger_url)) as queue:
        queue.publish({"a": 1})
        name = ledger_url.partition("subscription=")[2].partition("&")[0]
        client = PubSubClient(PROJECT, retry_seconds=5)
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while not queue.stats().dead:
            assert time.monotonic() < give_up_at
            for message in client.pull(name, 1, wait_seconds=1.0):
                client.hold(name, [message.ack_id], 0)
        client.close()

        [letter] = queue.dead_letters()

    assert letter.item == Item("a", "1")
    assert "delivered it 100 times" in letter.errors[-1]


# Messages


def test_messages_of_other_programs_are_worked_on_too(url: str, queue: PubSubQueue) -> None:
    publish_raw(url, b'{"n": 1}', b"\xff\xfe")

    items = [*claimed(queue, 1).items, *claimed(queue, 1).items]

    assert {item.payload for item in items} == {'{"n": 1}', "��"}
    assert all(item.key.isdecimal() for item in items)


@pytest.mark.parametrize("with_ledger", [False, True], ids=["no ledger", "ledger"])
def test_a_poisoned_message_is_given_up_with_its_reason_and_stops_nobody(
    url: str, ledger_url: str, with_ledger: bool
) -> None:
    ours: dict[str, object] = {"key": "a", "payload": "1"}
    poison = [
        ours | {"not_before": 10**400},
        ours | {"not_before": time.time() + 1e9},
        ours | {"failures": 10**400},
        ours | {"key": "x" * 1000},
        ours | {"key": "\ud800"},
        ours | {"errors": 7},
    ]
    with closing(opened(ledger_url if with_ledger else url)) as queue:
        messages = [json.dumps(fields).encode() for fields in poison]
        publish_raw(url, *messages, b"[" * 100_000, attributes=MARK)
        queue.publish({"good": 1})

        assert drain(queue, 1) == Counter({"good": 1})
        give_up_at = time.monotonic() + PATIENCE_SECONDS
        while len(queue.dead_letters()) < len(poison) + 1:
            assert time.monotonic() < give_up_at
            assert queue.claim(10, TERMS) is None

        letters = queue.dead_letters()

    assert all("The message cannot be processed: " in letter.errors[-1] for letter in letters)
    assert any("many digits" in letter.errors[-1] for letter in letters)


def test_a_large_message_of_another_program_that_fails_is_given_up(url: str) -> None:
    """Published again, it would be larger than Pub/Sub allows at most."""
    with closing(opened(url, wait_seconds=10)) as queue:
        publish_raw(url, b'"' + b"\\n" * 4_900_000 + b'"', attributes={"key": "large"})
        lease = claimed(queue)

        queue.settle(lease, Settlement(failed=(Failure("large", "no room"),)), TERMS)

        [letter] = queue.dead_letters()
    assert letter.item.key == "large"
    assert "no room" in letter.errors[-2]
    assert "Pub/Sub allows at most" in letter.errors[-1]


def test_copies_of_a_message_in_one_chunk_are_worked_on_once(queue: PubSubQueue) -> None:
    queue.publish([("a", 1), ("a", 1), ("b", 2)])

    lease = claimed(queue)
    queue.settle(lease, all_done(lease), TERMS)

    assert sorted(keys_of(lease)) == ["a", "b"]
    assert queue.claim(10, TERMS) is None


def test_one_bad_item_keeps_all_others_out(queue: PubSubQueue) -> None:
    def items() -> Iterator[tuple[str, Any]]:
        yield "a", 1
        yield "b", float("nan")

    for source in (
        items(),
        [("a", 1), ("b", "x" * 10_000_000)],
        [Item("a", "1"), Item("b", "\ud800")],
    ):
        with pytest.raises(ItemRefused, match="'b'"):
            queue.publish(source)

    assert queue.claim(10, TERMS) is None


def test_items_too_large_for_one_request_together_are_all_published(url: str) -> None:
    large = "x" * 4_000_000

    with closing(opened(url, wait_seconds=10)) as queue:
        queue.publish({str(number): large for number in range(5)})

        assert drain(queue, 5) == Counter("01234")


# The ledger


def test_with_a_ledger_known_keys_are_not_published_again(ledger_url: str) -> None:
    with closing(opened(ledger_url)) as queue:
        first = queue.publish({f"{number:05}": number for number in range(12_000)})
        again = queue.publish([("00000", 0), ("new", 1), ("new", 2)])

        assert first == (12_000, 0)
        assert again == (1, 2)
        assert queue.published() == 12_001
    with closing(opened(ledger_url)) as other:
        assert other.publish({"new": 1}) == (0, 1)
        assert other.published() == 12_001


def test_of_publishers_at_the_same_time_each_key_is_counted_once(ledger_url: str) -> None:
    start = threading.Barrier(4)

    def publish(_: int) -> int:
        with closing(opened(ledger_url)) as queue:
            start.wait(PATIENCE_SECONDS)
            return queue.publish({f"{number:04}": number for number in range(1000)}).added

    with ThreadPoolExecutor(4) as pool:
        added = sum(pool.map(publish, range(4)))

    with closing(opened(ledger_url)) as queue:
        assert added == 1000
        assert queue.published() == 1000


def test_a_publish_killed_halfway_and_repeated_publishes_the_rest(
    emulator: PubSubEmulator, ledger_url: str
) -> None:
    source = """
        import sys, time
        from outlast.queue.pubsub import ledger
        from outlast.queue.pubsub.queue import PubSubQueue

        record = ledger.Ledger.record
        def slow(self, keys):
            if self._read:
                print("halfway")
                time.sleep(3600)
            return record(self, keys)

        ledger.Ledger.record = slow
        PubSubQueue(sys.argv[1]).publish({f"{n:05}": n for n in range(15_000)})
    """
    with python(source, ledger_url) as program:
        program.wait_for("halfway")
        program.signal(9)
        program.wait()

    with closing(opened(ledger_url)) as queue:
        published = queue.publish({f"{number:05}": number for number in range(15_000)})

        assert published == (5_000, 10_000)
        assert queue.published() == 15_000


def test_dead_letters_are_counted_by_the_ledger(ledger_url: str) -> None:
    with closing(opened(ledger_url)) as queue:
        queue.publish({"a": 1, "b": 2})
        lease = claimed(queue)
        failed = tuple(Failure(key, "no", is_final=True) for key in keys_of(lease))
        queue.settle(lease, Settlement(failed=failed), TERMS)
        if len(failed) == 1:
            lease = claimed(queue)
            queue.settle(
                lease, Settlement(failed=(Failure(keys_of(lease)[0], "no", is_final=True),)), TERMS
            )

        assert queue.stats().dead == 2
        assert {letter.item.key for letter in queue.dead_letters()} == {"a", "b"}
        assert queue.retry_dead(["b"]) == 1
        assert queue.stats().dead == 1
        assert [(item.key, item.failures) for item in claimed(queue).items] == [("b", 0)]


def test_a_worker_ends_when_the_sink_holds_all_that_was_published(
    ledger_url: str, tmp_path: Path
) -> None:
    def work(number: int) -> int:
        if number == 7:
            raise ValueError("seven")
        return number * 2

    with (
        closing(opened(ledger_url)) as queue,
        closing(ObjectSink(f"{tmp_path}/results")) as sink,
    ):
        queue.publish({f"{number:03}": number for number in range(50)})

        summary = Worker(queue, sink, failures_max=2, retry_seconds=0.1).run(work, chunk=10)

        assert summary.done == 49
        assert sink.count(version="") == 49
        assert queue.stats().dead == 1
        assert Result("002", "4") in list(sink.results())


def test_results_that_were_there_before_do_not_count_as_those_of_the_ledger(
    ledger_url: str, tmp_path: Path
) -> None:
    with (
        closing(opened(ledger_url)) as queue,
        closing(ObjectSink(f"{tmp_path}/results")) as sink,
    ):
        earlier = [Result(f"earlier-{number}", "1") for number in range(20)]
        sink.store(earlier, token=1, version="", queue="earlier")
        queue.publish({f"{number:03}": number for number in range(10)})

        summary = Worker(queue, sink).run(lambda number: number, chunk=5)

        assert summary.done == 10
        assert sink.count(version="") == 30


def test_messages_that_expired_end_the_worker_and_are_counted(
    ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        closing(opened(ledger_url)) as queue,
        closing(ObjectSink(f"{tmp_path}/results")) as sink,
    ):
        queue.publish({f"{number}": number for number in range(5)})
        # As if they had been there for longer than Pub/Sub keeps them.
        lost = claimed(queue, 2)
        queue.settle(lost, all_done(lost), TERMS)
        ticks = itertools.count()

        def rest_is_done() -> bool:
            return sink.count() == 5 - len(lost.items)

        # Time passes only once all others are done.
        clock = SimpleNamespace(monotonic=lambda: 1000.0 * next(ticks) if rest_is_done() else 0.0)
        monkeypatch.setattr("outlast.worker.drained.time", clock)

        with pytest.raises(QueueStalled, match=f"{len(lost.items)} published items, starting with"):
            Worker(queue, sink, stall_seconds=100.0).run(lambda number: number)

        assert sink.count() == 5 - len(lost.items)


@pytest.mark.parametrize("chunk", [1, 3])
def test_a_call_that_outlasts_its_lease_is_stored_and_then_skipped(
    ledger_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    """As when a call holds the interpreter lock, so that nothing can extend the lease."""
    monkeypatch.setattr("outlast.worker.leased_chunk.LeasedChunk.beat", lambda _: 1.0)
    calls: Counter[int] = Counter()

    def oversleeping(number: int) -> int:
        calls[number] += 1
        time.sleep(2.5)
        return number

    with (
        closing(opened(ledger_url)) as queue,
        closing(ObjectSink(f"{tmp_path}/results")) as sink,
    ):
        queue.publish({"a": 1, "b": 2, "c": 3})

        summary = Worker(queue, sink, lease_seconds=1).run(oversleeping, chunk=chunk)

        assert sorted(sink.results()) == [Result("a", "1"), Result("b", "2"), Result("c", "3")]
        assert summary.done == 3
        assert calls == Counter({1: 1, 2: 1, 3: 1})
        assert queue.dead_letters() == []


@pytest.mark.parametrize("damage", [b"", b"[]\n", b"garbage\n"], ids=["empty", "list", "garbage"])
def test_a_damaged_ledger_is_reported(ledger_url: str, tmp_path: Path, damage: bytes) -> None:
    with closing(opened(ledger_url)) as queue:
        queue.publish({"a": 1})
    [page] = (tmp_path / "ledger" / "keys").iterdir()
    page.write_bytes(damage)

    with closing(opened(ledger_url)) as queue:
        with pytest.raises(QueueUnavailable, match=r"in the ledger .* is damaged"):
            queue.published()


def test_a_ledger_that_cannot_be_written_is_reported(url: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with closing(opened(f"{url}&ledger={tmp_path}/file")) as queue:
        with pytest.raises(QueueUnavailable, match="The ledger is unavailable: Could not"):
            queue.publish({"a": 1})


def test_a_ledger_page_is_a_file_that_a_person_can_read(ledger_url: str, tmp_path: Path) -> None:
    with closing(opened(ledger_url)) as queue:
        queue.publish({"ä b": 1, "c": 2})

    head, *keys = (tmp_path / "ledger" / "keys" / "00000001.jsonl").read_text().splitlines()
    assert json.loads(head)["count"] == 2
    assert keys == ['"ä b"', '"c"']


# When the service goes away


def test_an_emulator_killed_under_load_costs_nothing_but_time(tmp_path: Path) -> None:
    """It forgets everything, so all is published again: the sink knows what is done."""
    url = f"pubsub://{PROJECT}/lost-{uuid.uuid4().hex}"
    items = {f"{number:04}": number for number in range(600)}
    computed: Counter[str] = Counter()
    finished = threading.Event()

    def work(_: int) -> None:
        with closing(opened(url, retry_seconds=60)) as queue:
            sink = ObjectSink(f"{tmp_path}/results")
            while not finished.is_set():
                lease = queue.claim(5, TERMS)
                if lease is None:
                    continue
                done = sink.done(keys_of(lease), version="v1")
                todo = [item for item in lease.items if item.key not in done]
                computed.update(item.key for item in todo)
                results = [Result(item.key, item.payload) for item in todo]
                sink.store(results, token=lease.token, version="v1", queue=lease.queue)
                try:
                    queue.settle(lease, all_done(lease), TERMS)
                except LeaseLost:
                    pass
            sink.close()

    with running_pubsub() as emulator, client_of(emulator), ThreadPoolExecutor(3) as pool:
        with (
            closing(opened(url)) as publisher,
            closing(ObjectSink(f"{tmp_path}/results")) as sink,
        ):
            publisher.publish(items)
            working = [pool.submit(work, number) for number in range(3)]
            eventually(lambda: computed.total() > 100, "the first items are computed")
            emulator.stop()
            emulator.start()
            publisher.publish(items)
            eventually(lambda: sink.count(version="v1") == 600, "all results")
            finished.set()
            for future in working:
                future.result()
            found = list(sink.results())

    assert found == [Result(key, str(value)) for key, value in sorted(items.items())]


def test_a_service_that_is_gone_is_reported_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")

    with pytest.raises(QueueUnavailable, match="request failed in project") as caught:
        opened(f"pubsub://{PROJECT}/topic", retry_seconds=0.5)

    assert caught.value.hint is not None
    assert "Check the network" in caught.value.hint


def test_without_credentials_it_says_how_to_get_some(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PUBSUB_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)

    with pytest.raises(QueueUnavailable) as caught:
        open_queue(f"pubsub://{PROJECT}/topic")

    assert caught.value.hint is not None
    assert "gcloud auth application-default login" in caught.value.hint
