"""What a queue in Pub/Sub promises beyond the contract, against Google's own emulator."""

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from outlast.queue import (
    Failure,
    Item,
    ItemRefused,
    Lease,
    LeaseLost,
    Outcome,
    QueueUnavailable,
    Terms,
    open_queue,
)
from outlast.queue.protocol import LedgerQueue
from outlast.queue.pubsub import PubSubQueue
from outlast.queue.pubsub_client import PubSubClient
from outlast.results import Result
from outlast.results.objects import ObjectSink
from outlast.worker import Worker
from tests.programs import python
from tests.servers.pubsub import PubSubEmulator, client_of, running_pubsub, shared_pubsub

pytestmark = pytest.mark.needs("pubsub-emulator")

PROJECT = "outlast-test"
TERMS = Terms(worker="tester", lease_seconds=60.0)
PATIENCE_SECONDS = 15.0


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


def all_done(lease: Lease) -> Outcome:
    return Outcome(done=tuple(keys_of(lease)))


def claimed(queue: PubSubQueue, limit: int = 100, terms: Terms = TERMS) -> Lease:
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


def publish_raw(url: str, *messages: bytes) -> None:
    """Publish as another program would."""
    topic = url.partition("?")[0].rpartition("/")[2]
    client = PubSubClient(PROJECT, retry_seconds=5)
    client.publish(topic, messages)
    client.close()


# Promises


def test_what_it_cannot_promise_is_declared(queue: PubSubQueue, ledger_url: str) -> None:
    assert queue.promises == (False, False)
    assert queue.published() is None
    assert queue.stats() == (None,) * 7
    assert queue.place is None
    with closing(opened(ledger_url)) as with_ledger:
        assert with_ledger.promises == (False, True)
        assert isinstance(with_ledger, LedgerQueue)


def test_results_cannot_share_its_transaction(queue: PubSubQueue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue)

    with pytest.raises(ValueError, match="has no transactions"):
        queue.settle(lease, all_done(lease), TERMS, storing=lambda _: None)


def test_a_lease_longer_than_pubsub_holds_is_refused(queue: PubSubQueue) -> None:
    queue.publish({"a": 1})

    with pytest.raises(ValueError, match="at most 600 seconds"):
        claimed(queue, terms=TERMS._replace(lease_seconds=601))


# Leases


def test_released_items_are_with_another_at_once(url: str, queue: PubSubQueue) -> None:
    queue.publish({f"{number:03}": number for number in range(60)})
    held: list[Lease] = []
    while sum(len(lease.items) for lease in held) < 60:
        held.append(claimed(queue))
    with closing(opened(url)) as other:
        started = time.monotonic()
        for lease in held:
            queue.settle(lease, Outcome(released=tuple(keys_of(lease))), TERMS)

        seen = drain(other, 60)

    assert set(seen.values()) == {1}
    assert time.monotonic() - started < 5


def test_a_lost_lease_is_told_by_the_server(url: str, queue: PubSubQueue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, terms=TERMS._replace(lease_seconds=1))
    # As for a worker that was stopped: its own clock stood still.
    lease.handle.expires += 60
    expired(lease)
    with closing(opened(url)) as other:
        newer = claimed(other)

        with pytest.raises(LeaseLost, match=f"lease {lease.token} no longer"):
            queue.settle(lease, all_done(lease), TERMS)
        with pytest.raises(LeaseLost):
            queue.extend(lease, TERMS)
        other.settle(newer, all_done(newer), TERMS)


@pytest.mark.parametrize("act", ["done", "failed", "released"])
def test_a_lost_lease_changes_nothing(url: str, queue: PubSubQueue, act: str) -> None:
    outcome = {
        "done": Outcome(done=("a",)),
        "failed": Outcome(failed=(Failure("a", "no", is_final=True),)),
        "released": Outcome(released=("a",)),
    }[act]
    queue.publish({"a": 1})
    lease = claimed(queue, terms=TERMS._replace(lease_seconds=1))
    lease.handle.expires += 60
    expired(lease)
    with closing(opened(url)) as other:
        newer = claimed(other)

        with pytest.raises(LeaseLost):
            queue.settle(lease, outcome, TERMS)

        assert queue.dead_letters() == []
        assert other.claim(1, TERMS) is None
        other.settle(newer, all_done(newer), TERMS)


def test_an_item_is_settled_once(queue: PubSubQueue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue)
    queue.settle(lease, all_done(lease), TERMS)

    for outcome in (all_done(lease), Outcome(done=("other",)), Outcome(released=("a",))):
        with pytest.raises(LeaseLost):
            queue.settle(lease, outcome, TERMS)
    with pytest.raises(LeaseLost):
        queue.extend(lease, TERMS)


def test_a_settlement_cut_short_goes_on_where_it_stopped(
    queue: PubSubQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue.publish({"a": 1, "b": 2, "c": 3})
    lease = claimed(queue)
    outcome = Outcome(done=("a",), failed=(Failure("b", "no"),), released=("c",))

    def gone(*_: object) -> None:
        raise QueueUnavailable("gone")

    with monkeypatch.context() as broken:
        broken.setattr("outlast.queue.pubsub_topics.Topics.send", gone)
        with pytest.raises(QueueUnavailable):
            queue.settle(lease, outcome, TERMS)
    queue.settle(lease, outcome, TERMS)

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
        broken.setattr("outlast.queue.pubsub_topics.Topics.pull", gone)
        assert queue.settle(lease, all_done(lease), TERMS, claim=1) is None

    assert keys_of(claimed(queue)) == ["b"]


def test_a_heartbeat_beside_a_settlement_never_takes_the_lease_for_lost(queue: PubSubQueue) -> None:
    queue.publish({f"{number:03}": number for number in range(40)})
    lease = claimed(queue)
    settled = threading.Event()

    def beat() -> int:
        beats = 0
        while not settled.is_set():
            queue.extend(lease, TERMS)
            beats += 1
        return beats

    with ThreadPoolExecutor(1) as pool:
        beating = pool.submit(beat)
        for key in keys_of(lease)[:-1]:
            queue.settle(lease, Outcome(done=(key,)), TERMS)
        settled.set()

    assert beating.result() > 0
    queue.settle(lease, Outcome(done=(keys_of(lease)[-1],)), TERMS)


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
        queue.settle(lease, Outcome(released=("a",)), TERMS)
        lease = claimed(queue)
        queue.settle(lease, all_done(lease), TERMS)

    assert "does not deliver exactly once" in caplog.text
    assert "has no dead-letter topic" in caplog.text


def test_a_part_can_be_settled_and_the_rest_stays_leased(url: str, queue: PubSubQueue) -> None:
    queue.publish({"a": 1, "b": 2, "c": 3})
    lease = claimed(queue)
    assert len(lease.items) == 3

    queue.settle(lease, Outcome(done=("a",), failed=(Failure("b", "no"),)), TERMS)

    assert keys_of(claimed(queue)) == ["b"]
    queue.settle(lease, Outcome(done=("c",)), TERMS)


def test_a_failed_item_waits_for_its_delay(queue: PubSubQueue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue)
    started = time.monotonic()

    queue.settle(lease, Outcome(failed=(Failure("a", "later", delay_seconds=2.0),)), TERMS)

    assert queue.claim(1, TERMS) is None
    assert [(item.key, item.failures) for item in claimed(queue).items] == [("a", 1)]
    assert time.monotonic() - started >= 2.0


# Poison


@pytest.mark.timeout(120)
def test_an_item_that_kills_its_workers_ends_alone_in_the_dead_letters(queue: PubSubQueue) -> None:
    terms = TERMS._replace(lease_seconds=1, failures_max=2)
    queue.publish({f"{number}": number for number in range(6)})
    done: Counter[str] = Counter()
    deaths = 0

    give_up_at = time.monotonic() + 60
    while not queue.dead_letters():
        assert time.monotonic() < give_up_at
        lease = queue.claim(6, terms)
        if "3" in keys_of(lease):
            assert lease is not None
            deaths += 1
            expired(lease)
        elif lease is not None:
            done.update(keys_of(lease))
            queue.settle(lease, all_done(lease), terms)
    while lease := queue.claim(6, terms):
        done.update(keys_of(lease))
        queue.settle(lease, all_done(lease), terms)

    [letter] = queue.dead_letters()
    assert letter.item.key == "3"
    assert letter.item.failures == 2
    assert all("died or its lease expired" in error for error in letter.errors)
    assert done == Counter("01245")
    assert deaths <= 8


def test_an_item_released_often_is_worked_on_alone_and_never_blamed(queue: PubSubQueue) -> None:
    queue.publish({"a": 1, "b": 2})
    chunks: list[list[str]] = []

    for _ in range(24):
        lease = claimed(queue, terms=TERMS._replace(failures_max=1))
        chunks.append(sorted(keys_of(lease)))
        assert [item.failures for item in lease.items] == [0] * len(lease.items)
        queue.settle(lease, Outcome(released=tuple(keys_of(lease))), TERMS)

    assert queue.dead_letters() == []
    assert {len(chunk) for chunk in chunks[-6:]} == {1}


@pytest.mark.timeout(90)
def test_what_pubsub_itself_gives_up_is_found_in_the_ledger(ledger_url: str) -> None:
    with closing(opened(ledger_url)) as queue:
        queue.publish({"a": 1})
        name = ledger_url.partition("subscription=")[2].partition("&")[0]
        client = PubSubClient(PROJECT, retry_seconds=5)
        give_up_at = time.monotonic() + 60
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

    # The client marks them as ours, but they are not made like ours.
    assert {item.payload for item in items} == {'{"n": 1}', "��"}
    assert all(item.key.isdecimal() for item in items)


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


@pytest.mark.timeout(60)
def test_of_publishers_at_the_same_time_each_key_is_counted_once(ledger_url: str) -> None:
    start = threading.Barrier(4)

    def publish(_: int) -> int:
        with closing(opened(ledger_url)) as queue:
            start.wait(15)
            return queue.publish({f"{number:04}": number for number in range(1000)}).added

    with ThreadPoolExecutor(4) as pool:
        added = sum(pool.map(publish, range(4)))

    with closing(opened(ledger_url)) as queue:
        assert added == 1000
        assert queue.published() == 1000


@pytest.mark.timeout(60)
def test_a_publish_killed_halfway_and_repeated_publishes_the_rest(
    emulator: PubSubEmulator, ledger_url: str
) -> None:
    source = """
        import sys, time
        from outlast.queue import ledger
        from outlast.queue.pubsub import PubSubQueue

        record = ledger.Ledger.record
        def slow(self, keys):
            if self._read:
                print("halfway")
                time.sleep(60)
            return record(self, keys)

        ledger.Ledger.record = slow
        PubSubQueue(sys.argv[1]).publish({f"{n:05}": n for n in range(15_000)})
    """
    with python(source, ledger_url, patience_seconds=40) as program:
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
        queue.settle(lease, Outcome(failed=failed), TERMS)
        if len(failed) == 1:
            lease = claimed(queue)
            queue.settle(
                lease, Outcome(failed=(Failure(keys_of(lease)[0], "no", is_final=True),)), TERMS
            )

        assert queue.stats().dead == 2
        assert {letter.item.key for letter in queue.dead_letters()} == {"a", "b"}
        assert queue.retry_dead(["b"]) == 1
        assert queue.stats().dead == 1
        assert [(item.key, item.failures) for item in claimed(queue).items] == [("b", 0)]


@pytest.mark.timeout(60)
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
        with pytest.raises(QueueUnavailable, match="The ledger fails: Could not"):
            queue.publish({"a": 1})


def test_a_ledger_page_is_a_file_that_a_person_can_read(ledger_url: str, tmp_path: Path) -> None:
    with closing(opened(ledger_url)) as queue:
        queue.publish({"ä b": 1, "c": 2})

    head, *keys = (tmp_path / "ledger" / "keys" / "00000001.jsonl").read_text().splitlines()
    assert json.loads(head)["count"] == 2
    assert keys == ['"ä b"', '"c"']


# When the service goes away


@pytest.mark.timeout(120)
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
                sink.store(results, token=lease.token, version="v1")
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
            wait_until(lambda: computed.total() > 100)
            emulator.stop()
            emulator.start()
            publisher.publish(items)
            wait_until(lambda: sink.count(version="v1") == 600)
            finished.set()
            for future in working:
                future.result()
            found = list(sink.results())

    assert found == [Result(key, str(value)) for key, value in sorted(items.items())]


def wait_until(is_so: Callable[[], bool]) -> None:
    give_up_at = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def test_a_service_that_is_gone_is_reported_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", "127.0.0.1:1")
    started = time.monotonic()

    with pytest.raises(QueueUnavailable, match="did not do what was asked in project") as caught:
        opened(f"pubsub://{PROJECT}/topic", retry_seconds=0.5)

    assert time.monotonic() - started < 15
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
