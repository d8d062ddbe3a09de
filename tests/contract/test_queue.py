"""What every queue promises, as far as its backend can."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from outlast.databases.errors import StaleResults
from outlast.queue import (
    Failure,
    Item,
    ItemRefused,
    Lease,
    LeaseLost,
    LeaseTerms,
    Queue,
    Settlement,
)
from outlast.results import Result
from tests.contract.queues import Backend, backend_of, on_queues
from tests.patience import PATIENCE_SECONDS
from tests.programs import python

TERMS = LeaseTerms(worker="tester", lease_seconds=60.0)
STRANGE_KEYS = ("ä/ö ü", "日本", "a\nb", "'; DROP TABLE items; --", "..", "%2F", "🎈", "x" * 512)


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with backend_of(request, tmp_path) as backend:
        yield backend


@pytest.fixture
def queue(backend: Backend) -> Iterator[Queue]:
    queue = backend.open()
    yield queue
    queue.close()


def numbered(count: int, start: int = 0) -> dict[str, int]:
    return {f"{number:06}": number for number in range(start, start + count)}


def keys_of(lease: Lease | None) -> list[str]:
    return [] if lease is None else [item.key for item in lease.items]


def claimed(queue: Queue, limit: int, terms: LeaseTerms = TERMS) -> Lease:
    """A lease, waited for where messages take their time."""
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while (lease := queue.claim(limit, terms)) is None:
        assert time.monotonic() < give_up_at, "nothing became ready"
        time.sleep(0.01)
    return lease


def all_done(lease: Lease) -> Settlement:
    return Settlement(done=tuple(item.key for item in lease.items))


def drain(queue: Queue, limit: int = 100) -> list[str]:
    """Claim and acknowledge until nothing is ready; the keys in their order."""
    seen: list[str] = []
    lease = queue.claim(limit, TERMS)
    while lease is not None:
        seen += keys_of(lease)
        lease = queue.settle(lease, all_done(lease), TERMS, claim=limit)
    return seen


def brief(backend: Backend) -> LeaseTerms:
    """Terms with the shortest lease that the backend gives."""
    return TERMS._replace(lease_seconds=backend.lease_seconds_least)


def short(backend: Backend) -> LeaseTerms:
    """Terms with a lease that expires within a test, but not while a busy machine looks away."""
    return TERMS._replace(lease_seconds=max(2.0, backend.lease_seconds_least))


def let_expire(lease: Lease) -> None:
    time.sleep(max(0.0, lease.expires - time.monotonic()) + 0.05)


# Publishing


@on_queues()
def test_a_published_item_can_be_claimed(queue: Queue) -> None:
    published = queue.publish({"a": {"text": "hello"}})

    lease = claimed(queue, 10)

    assert published.added == 1
    [item] = lease.items
    assert (item.key, item.value, item.failures) == ("a", {"text": "hello"}, 0)


@on_queues()
def test_pairs_and_items_can_be_published_too(queue: Queue) -> None:
    queue.publish([("a", 1)])
    queue.publish(Item.of(key, 2) for key in "b")

    found = {item.key: item.value for item in (*claimed(queue, 1).items, *claimed(queue, 1).items)}

    assert found == {"a": 1, "b": 2}


@on_queues("counts")
def test_nothing_published_is_nothing_to_claim(queue: Queue) -> None:
    assert queue.publish({}) == (0, 0)
    assert queue.claim(10, TERMS) is None


@on_queues("dedupe", "counts")
def test_a_known_key_is_not_added_again(queue: Queue) -> None:
    queue.publish({"a": 1, "b": 2})

    published = queue.publish([("b", 20), ("c", 3), ("c", 30)])

    assert published == (1, 2)
    assert [item.value for item in claimed(queue, 10).items] == [1, 2, 3]


@on_queues("dedupe", "counts")
def test_a_key_stays_known_when_it_is_leased_done_or_dead(queue: Queue) -> None:
    queue.publish({"done": 1, "dead": 2, "leased": 3})
    lease = claimed(queue, 3)
    failed = (Failure("dead", "no", is_final=True),)
    queue.settle(lease, Settlement(done=("done",), failed=failed), TERMS)

    published = queue.publish({"done": 1, "dead": 2, "leased": 3})

    assert published == (0, 3)
    assert queue.claim(10, TERMS) is None


@on_queues("counts")
def test_one_bad_item_keeps_the_whole_batch_out(queue: Queue) -> None:
    def items() -> Iterator[tuple[str, Any]]:
        yield "a", 1
        yield "b", float("nan")

    with pytest.raises(ItemRefused, match="'b' is not valid JSON"):
        queue.publish(items())

    assert queue.claim(10, TERMS) is None
    assert queue.publish({"a": 1}).added == 1


@on_queues("counts")
def test_a_source_that_breaks_off_publishes_nothing(queue: Queue) -> None:
    def items() -> Iterator[tuple[str, int]]:
        yield "a", 1
        raise RuntimeError("the file ended too early")

    with pytest.raises(RuntimeError, match="ended too early"):
        queue.publish(items())

    assert queue.claim(10, TERMS) is None


@on_queues()
def test_others_go_on_while_a_source_is_slow(backend: Backend, queue: Queue) -> None:
    queue.publish({"a": 1})
    slow, go_on = threading.Event(), threading.Event()

    def items() -> Iterator[tuple[str, int]]:
        slow.set()
        assert go_on.wait(PATIENCE_SECONDS)
        yield "b", 2

    with ThreadPoolExecutor(1) as pool:
        publishing = pool.submit(queue.publish, items())
        slow.wait()
        lease = claimed(queue, 1)
        queue.settle(lease, all_done(lease), TERMS)
        go_on.set()

        assert publishing.result().added == 1


@on_queues()
def test_keys_and_payloads_may_be_any_text(queue: Queue) -> None:
    published = {key: f"value of {key} 日本 🎈\0" for key in STRANGE_KEYS}
    queue.publish(published)

    found: dict[str, Any] = {}
    while len(found) < len(published):
        lease = claimed(queue, 100)
        found |= {item.key: item.value for item in lease.items}
        queue.settle(lease, all_done(lease), TERMS)

    assert found == published


@on_queues()
def test_a_payload_that_is_no_json_travels_untouched(queue: Queue) -> None:
    queue.publish([Item(key="bad", payload='{"torn": ')])

    [item] = claimed(queue, 1).items

    assert item.payload == '{"torn": '
    with pytest.raises(ValueError, match="Expecting value"):
        _ = item.value


@on_queues("dedupe", "counts")
def test_a_hundred_thousand_items_published_twice_are_there_once(queue: Queue) -> None:
    first = queue.publish(numbered(100_000))
    second = queue.publish(numbered(100_000))

    assert first == (100_000, 0)
    assert second == (0, 100_000)
    assert queue.stats().ready == 100_000


@on_queues("dedupe", "counts")
def test_publishers_of_the_same_keys_add_each_once(backend: Backend, queue: Queue) -> None:
    with ThreadPoolExecutor(4) as pool:
        added = pool.map(lambda _: in_new_handle(backend, publish_thousand), range(4))

    assert sum(added) == 1000
    assert queue.stats().ready == 1000


def publish_thousand(queue: Queue) -> int:
    return queue.publish(numbered(1000)).added


def in_new_handle(backend: Backend, act: Callable[[Queue], Any]) -> Any:
    with contextlib.closing(backend.open()) as queue:
        return act(queue)


@on_queues("dedupe", "counts", "processes")
def test_a_publish_killed_halfway_and_repeated_gives_every_item_once(
    backend: Backend, queue: Queue
) -> None:
    assert backend.url is not None
    source = """
        import sys
        from outlast.queue import open_queue

        def items():
            for number in range(20_000):
                if number == 10_000:
                    print("halfway")
                yield f"{number:06}", number

        open_queue(sys.argv[1]).publish(items())
    """
    with python(source, backend.url) as program:
        program.wait_for("halfway")
        program.signal(9)
        program.wait()
    after_kill = queue.stats().ready

    published = queue.publish(numbered(20_000))

    assert after_kill in (0, 20_000)
    assert published.added + published.known == 20_000
    assert queue.stats().ready == 20_000


# Claiming


@on_queues("order", "counts")
def test_the_oldest_items_come_first_and_no_more_than_asked_for(queue: Queue) -> None:
    queue.publish(numbered(3))
    queue.publish(numbered(3, start=3))

    leases = [claimed(queue, 4), claimed(queue, 4)]

    assert [keys_of(lease) for lease in leases] == [
        ["000000", "000001", "000002", "000003"],
        ["000004", "000005"],
    ]
    assert queue.claim(4, TERMS) is None


@on_queues()
def test_a_leased_item_is_not_given_to_another(backend: Backend, queue: Queue) -> None:
    queue.publish({"a": 1})
    claimed(queue, 1)

    assert in_new_handle(backend, lambda other: other.claim(1, TERMS)) is None


@on_queues("counts")
def test_a_token_grows_with_every_claim_and_is_never_given_twice(
    backend: Backend, queue: Queue
) -> None:
    queue.publish(numbered(20))

    tokens = []
    for _ in range(10):
        lease = claimed(queue, 1)
        queue.settle(lease, all_done(lease), TERMS)
        tokens.append(lease.token)
        tokens.append(in_new_handle(backend, lambda other: claimed(other, 1)).token)

    assert tokens == sorted(set(tokens))


@on_queues("counts")
@pytest.mark.parametrize("moved_seconds", [-3600.0, 3600.0], ids=["back", "ahead"])
def test_no_token_follows_a_clock(
    queue: Queue, monkeypatch: pytest.MonkeyPatch, moved_seconds: float
) -> None:
    queue.publish(numbered(3))
    real = time.time
    tokens = [claimed(queue, 1).token]

    monkeypatch.setattr(time, "time", lambda: real() + moved_seconds)
    tokens += [claimed(queue, 1).token, claimed(queue, 1).token]

    assert tokens == [1, 2, 3]


@on_queues()
def test_a_queue_has_one_identity_whoever_opens_it(backend: Backend, queue: Queue) -> None:
    queue.publish(numbered(2))

    leases = [claimed(queue, 1), in_new_handle(backend, lambda other: claimed(other, 1))]

    assert leases[0].queue == leases[1].queue != ""


@on_queues()
def test_a_lease_says_when_it_expires_on_the_monotonic_clock(queue: Queue) -> None:
    queue.publish({"a": 1})
    before = time.monotonic()

    lease = claimed(queue, 1)

    assert before + 59 < lease.expires <= time.monotonic() + 60


@on_queues("counts")
def test_claimers_in_threads_share_a_queue_without_overlap(queue: Queue) -> None:
    queue.publish(numbered(1000))

    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(lambda _: drain(queue, limit=7), range(4)))

    assert sorted(key for share in shares for key in share) == list(numbered(1000))
    assert queue.stats().done == 1000


@on_queues("counts")
def test_claimers_with_handles_of_their_own_do_not_overlap(backend: Backend, queue: Queue) -> None:
    queue.publish(numbered(1000))

    with ThreadPoolExecutor(4) as pool:
        shares = list(pool.map(lambda _: in_new_handle(backend, drain), range(4)))

    assert sorted(key for share in shares for key in share) == list(numbered(1000))


# Settling


@on_queues("counts")
def test_acknowledged_items_are_done_and_never_come_back(backend: Backend, queue: Queue) -> None:
    queue.publish(numbered(3))
    lease = claimed(queue, 3, short(backend))

    assert queue.settle(lease, all_done(lease), TERMS) is None

    let_expire(lease)
    assert queue.claim(3, TERMS) is None
    assert queue.stats().done == 3


@on_queues("counts", "order")
def test_a_part_can_be_acknowledged_and_the_rest_stays_leased(queue: Queue) -> None:
    queue.publish(numbered(5))
    lease = claimed(queue, 5)

    queue.settle(lease, Settlement(done=("000001", "000003")), TERMS)

    stats = queue.stats()
    assert (stats.leased, stats.done, stats.ready) == (3, 2, 0)
    assert queue.claim(5, TERMS) is None
    queue.settle(lease, Settlement(done=("000000", "000002", "000004")), TERMS)
    assert queue.stats().done == 5


@on_queues("order")
def test_released_items_are_ready_at_once_and_without_blame(backend: Backend, queue: Queue) -> None:
    queue.publish(numbered(4))
    lease = claimed(queue, 3)

    queue.settle(lease, Settlement(done=("000000",), released=("000001", "000002")), TERMS)

    again = in_new_handle(backend, lambda other: claimed(other, 10))
    assert [(item.key, item.failures) for item in again.items] == [
        ("000001", 0),
        ("000002", 0),
        ("000003", 0),
    ]


@on_queues()
def test_a_release_never_counts_however_often(queue: Queue) -> None:
    queue.publish({"a": 1})

    for _ in range(10):
        lease = claimed(queue, 1)
        assert lease.items[0].failures == 0
        queue.settle(lease, Settlement(released=("a",)), TERMS._replace(failures_max=2))

    assert queue.dead_letters() == []
    assert keys_of(claimed(queue, 1)) == ["a"]


@on_queues()
def test_a_failed_item_comes_back_with_its_failures_counted(queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1)

    queue.settle(lease, Settlement(failed=(Failure("a", "no luck"),)), TERMS)

    assert [(item.key, item.failures) for item in claimed(queue, 1).items] == [("a", 1)]


@on_queues("counts")
def test_a_failed_item_waits_for_its_delay(queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1)
    started = time.monotonic()

    queue.settle(lease, Settlement(failed=(Failure("a", "later", delay_seconds=0.5),)), TERMS)

    assert keys_of(claimed(queue, 2)) == ["a"]
    assert time.monotonic() - started >= 0.5


@on_queues("counts")
def test_an_item_delayed_for_long_is_neither_ready_nor_lost(queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1)

    queue.settle(lease, Settlement(failed=(Failure("a", "later", delay_seconds=3600),)), TERMS)

    assert queue.claim(1, TERMS) is None
    stats = queue.stats()
    assert (stats.ready, stats.delayed, stats.leased, stats.done, stats.dead) == (0, 1, 0, 0, 0)


@on_queues()
def test_settling_can_claim_the_next_chunk(queue: Queue) -> None:
    queue.publish(numbered(4))
    lease = claimed(queue, 2)

    following = queue.settle(lease, all_done(lease), TERMS, claim=2)

    seen = set(keys_of(lease)) | set(keys_of(following))
    if following is not None:
        assert not set(keys_of(lease)) & set(keys_of(following))
    while len(seen) < 4:
        seen |= set(keys_of(claimed(queue, 2)))
    assert seen == set(numbered(4))


@on_queues("counts", "order")
def test_settling_claims_what_it_has_just_released(queue: Queue) -> None:
    queue.publish(numbered(2))
    lease = claimed(queue, 2)

    following = queue.settle(lease, Settlement(released=("000000", "000001")), TERMS, claim=10)

    assert keys_of(following) == ["000000", "000001"]


@on_queues("counts")
def test_settling_claims_nothing_when_nothing_is_ready(queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1)

    assert queue.settle(lease, all_done(lease), TERMS, claim=10) is None


@on_queues("counts")
def test_an_empty_outcome_changes_nothing(queue: Queue) -> None:
    queue.publish(numbered(2))
    lease = claimed(queue, 2)

    queue.settle(lease, Settlement(), TERMS)

    assert queue.stats().leased == 2
    queue.settle(lease, all_done(lease), TERMS)
    assert queue.stats().done == 2


# Results in the same transaction


@on_queues("transaction")
def test_results_are_stored_with_the_acknowledgement(backend: Backend, queue: Queue) -> None:
    assert backend.open_sink is not None
    sink = backend.open_sink()
    assert queue.database is not None
    assert queue.database == sink.database
    queue.publish(numbered(3))
    lease = claimed(queue, 3)
    results = [Result(key=item.key, payload="1") for item in lease.items]

    storing = sink.storing(results, token=lease.token, version="v1")
    queue.settle(lease, all_done(lease), TERMS, storing=storing)

    assert list(sink.results()) == results
    assert queue.stats().done == 3
    sink.close()


@on_queues("transaction", "counts")
def test_if_storing_fails_nothing_is_acknowledged(queue: Queue) -> None:
    queue.publish(numbered(2))
    lease = claimed(queue, 2)
    failed = (Failure("000001", "no"),)

    def storing(_connection: object) -> None:
        raise RuntimeError("no room")

    with pytest.raises(RuntimeError, match="no room"):
        settlement = Settlement(done=("000000",), failed=failed)
        queue.settle(lease, settlement, TERMS, storing=storing, claim=1)

    assert queue.stats().leased == 2
    queue.settle(lease, all_done(lease), TERMS)
    assert queue.stats().done == 2


@on_queues("transaction")
def test_if_the_lease_is_lost_nothing_is_stored(backend: Backend, queue: Queue) -> None:
    assert backend.open_sink is not None
    sink = backend.open_sink()
    queue.publish({"a": 1})
    lease = claimed(queue, 1, brief(backend))
    let_expire(lease)
    newer = claimed(queue, 1)

    storing = sink.storing([Result("a", "late")], token=lease.token, version="v1")
    with pytest.raises(LeaseLost, match=f"[Ll]ease {lease.token} no longer"):
        queue.settle(lease, all_done(lease), TERMS, storing=storing)

    assert sink.count() == 0
    queue.settle(newer, all_done(newer), TERMS)
    sink.close()


@on_queues("transaction")
def test_a_refused_result_undoes_the_whole_settlement(backend: Backend, queue: Queue) -> None:
    assert backend.open_sink is not None
    sink = backend.open_sink()
    queue.publish({"a": 1, "b": 2})
    lease = claimed(queue, 2)
    fence: dict[str, Any] = {"version": "v1", "queue": lease.queue}
    sink.store([Result("a", "newer")], token=lease.token + 1, **fence)

    results = [Result("a", "older"), Result("b", "older")]
    storing = sink.storing(results, token=lease.token, **fence)
    with pytest.raises(StaleResults, match="newer results for some of these keys"):
        queue.settle(lease, all_done(lease), TERMS, storing=storing, claim=1)

    assert list(sink.results()) == [Result("a", "newer")]
    assert queue.stats()[:4] == (0, 0, 2, 0)
    queue.settle(lease, all_done(lease), TERMS)
    sink.close()


@on_queues("transaction")
def test_what_was_stored_before_is_stored_again_with_the_acknowledgement(
    backend: Backend, queue: Queue
) -> None:
    assert backend.open_sink is not None
    sink = backend.open_sink()
    queue.publish({"a": 1})
    lease = claimed(queue, 1)
    fence: dict[str, Any] = {"token": lease.token, "version": "v1", "queue": lease.queue}
    sink.store([Result("a", "1")], **fence)

    storing = sink.storing([Result("a", "1")], **fence)
    queue.settle(lease, all_done(lease), TERMS, storing=storing)

    assert list(sink.results()) == [Result("a", "1")]
    assert queue.stats().done == 1
    sink.close()


@on_queues("transaction")
def test_a_sink_that_is_used_by_an_earlier_queue_takes_the_results_of_a_new_one(
    backend: Backend, queue: Queue
) -> None:
    assert backend.open_sink is not None
    sink = backend.open_sink()
    sink.store([Result("a", "old")], token=4_000_000_000_000_000, version="v1", queue="earlier")
    queue.publish({"a": 1})
    lease = claimed(queue, 1)

    storing = sink.storing([Result("a", "new")], token=lease.token, version="v2", queue=lease.queue)
    queue.settle(lease, all_done(lease), TERMS, storing=storing)

    assert list(sink.results()) == [Result("a", "new")]
    sink.close()


# Leases


@on_queues()
def test_a_lease_that_expires_is_offered_to_another(backend: Backend, queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1, brief(backend))

    again = in_new_handle(backend, lambda other: claimed(other, 1))

    assert keys_of(again) == ["a"]
    if queue.guarantees.keeps_expired:
        assert again.token > lease.token


@on_queues()
def test_an_extended_lease_does_not_expire(backend: Backend, queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1, short(backend))

    extended = queue.extend(lease, TERMS)

    let_expire(lease)
    assert queue.claim(1, TERMS) is None
    assert extended.token == lease.token
    assert extended.items == lease.items
    assert extended.expires > time.monotonic() + 30
    queue.settle(extended, all_done(extended), TERMS)


@on_queues("counts")
def test_an_expired_lease_that_nobody_took_can_be_extended(backend: Backend, queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1, brief(backend))
    let_expire(lease)

    extended = queue.extend(lease, TERMS)

    assert queue.claim(1, TERMS) is None
    queue.settle(extended, all_done(extended), TERMS)
    assert queue.stats()[:5] == (0, 0, 0, 1, 0)


@on_queues("counts")
@pytest.mark.parametrize("act", ["done", "failed", "released", "part"])
def test_an_expired_lease_that_nobody_took_can_be_settled(
    backend: Backend, queue: Queue, act: str
) -> None:
    settlement = {
        "done": Settlement(done=("a", "b")),
        "failed": Settlement(failed=(Failure("a", "no"),), done=("b",)),
        "released": Settlement(released=("a",), done=("b",)),
        "part": Settlement(done=("b",)),
    }[act]
    queue.publish({"a": 1, "b": 2})
    lease = claimed(queue, 2, brief(backend))
    let_expire(lease)

    queue.settle(lease, settlement, TERMS)

    stats = queue.stats()
    assert stats.done == len(settlement.done)
    assert ((stats.ready or 0), stats.leased) == {
        "done": (0, 0),
        "failed": (1, 0),
        "released": (1, 0),
        "part": (0, 1),
    }[act]


@on_queues("counts")
def test_settling_an_expired_lease_can_claim_the_next_chunk(backend: Backend, queue: Queue) -> None:
    queue.publish({"a": 1, "b": 2})
    lease = claimed(queue, 1, brief(backend))
    let_expire(lease)

    following = queue.settle(lease, all_done(lease), TERMS, claim=1)

    assert keys_of(following) == ["b"]
    assert queue.stats().done == 1


@on_queues("counts")
def test_an_expired_lease_cannot_be_extended_once_another_took_its_items(
    backend: Backend, queue: Queue
) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1, brief(backend))
    let_expire(lease)
    newer = claimed(queue, 1)

    with pytest.raises(LeaseLost, match=f"[Ll]ease {lease.token} no longer"):
        queue.extend(lease, TERMS)

    queue.settle(newer, all_done(newer), TERMS)


@on_queues("counts", "halves")
def test_a_claim_that_finds_a_lease_expired_takes_all_of_it_away(
    backend: Backend, queue: Queue
) -> None:
    queue.publish({"a": 1, "b": 2})
    lease = claimed(queue, 2, brief(backend))
    let_expire(lease)
    half = claimed(queue, 1)

    with pytest.raises(LeaseLost):
        queue.settle(lease, Settlement(done=("b",)), TERMS)

    assert keys_of(half) == ["a"]
    assert queue.stats()[:4] == (1, 0, 1, 0)


@on_queues("counts")
@pytest.mark.parametrize("act", ["done", "failed", "released"])
def test_a_lease_that_another_took_over_cannot_be_settled(
    backend: Backend, queue: Queue, act: str
) -> None:
    settlement = {
        "done": Settlement(done=("a",)),
        "failed": Settlement(failed=(Failure("a", "no", is_final=True),)),
        "released": Settlement(released=("a",)),
    }[act]
    queue.publish({"a": 1})
    lease = claimed(queue, 1, brief(backend))
    let_expire(lease)
    newer = claimed(queue, 1)

    with pytest.raises(LeaseLost):
        queue.settle(lease, settlement, TERMS)

    assert queue.stats().leased == 1
    assert queue.dead_letters() == []
    queue.settle(newer, all_done(newer), TERMS)


@on_queues("counts")
@pytest.mark.parametrize("act", ["done", "failed", "released"])
def test_an_item_is_settled_once(queue: Queue, act: str) -> None:
    settlement = {
        "done": Settlement(done=("000000",)),
        "failed": Settlement(failed=(Failure("000000", "no"),)),
        "released": Settlement(released=("000000",)),
    }[act]
    queue.publish(numbered(3))
    lease = claimed(queue, 2)
    queue.settle(lease, settlement, TERMS)
    before = queue.stats()

    with pytest.raises(LeaseLost):
        queue.settle(lease, Settlement(done=("000000", "000001")), TERMS, claim=1)

    assert queue.stats()[:5] == before[:5]


@on_queues("counts")
def test_a_lease_without_items_left_is_over(queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1)
    queue.settle(lease, all_done(lease), TERMS)

    with pytest.raises(LeaseLost):
        queue.extend(lease, TERMS)


@on_queues("counts")
def test_a_key_that_the_lease_does_not_hold_is_refused(queue: Queue) -> None:
    queue.publish(numbered(3))
    lease = claimed(queue, 2)

    with pytest.raises(LeaseLost):
        queue.settle(lease, Settlement(done=("000000", "000002")), TERMS)

    assert queue.stats().done == 0


# Blame


@on_queues("halves", "order")
def test_an_expired_chunk_comes_back_in_halves_that_are_claimed_alone(
    backend: Backend, queue: Queue
) -> None:
    queue.publish(numbered(6))
    lease = claimed(queue, 4, brief(backend))
    let_expire(lease)

    chunks = [keys_of(claimed(queue, 10)) for _ in range(3)]

    assert chunks == [["000000", "000001"], ["000002", "000003"], ["000004", "000005"]]


@on_queues("halves", "order")
def test_what_was_acknowledged_before_the_expiry_does_not_come_back(
    backend: Backend, queue: Queue
) -> None:
    queue.publish(numbered(5))
    lease = claimed(queue, 5)
    queue.settle(lease, Settlement(done=("000000", "000003")), TERMS)
    let_expire(queue.extend(lease, brief(backend)))

    chunks = [keys_of(claimed(queue, 10)) for _ in range(2)]

    assert chunks == [["000001", "000002"], ["000004"]]


@on_queues("halves")
def test_an_expired_chunk_blames_nobody(backend: Backend, queue: Queue) -> None:
    queue.publish(numbered(4))
    let_expire(claimed(queue, 4, brief(backend)))

    halves = [claimed(queue, 10), claimed(queue, 10)]

    assert [item.failures for lease in halves for item in lease.items] == [0, 0, 0, 0]


@on_queues("halves")
def test_a_half_that_is_released_stays_apart(backend: Backend, queue: Queue) -> None:
    queue.publish(numbered(6))
    let_expire(claimed(queue, 4, brief(backend)))
    half = claimed(queue, 10)
    queue.settle(half, Settlement(released=tuple(keys_of(half))), TERMS)

    again = claimed(queue, 10)

    assert set(keys_of(again)) in ({"000000", "000001"}, {"000002", "000003"})


@on_queues("halves")
def test_an_item_that_kills_its_worker_is_found_and_the_others_get_done(
    backend: Backend, queue: Queue
) -> None:
    terms = TERMS._replace(failures_max=2)
    queue.publish(numbered(9))
    done: set[str] = set()

    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while not queue.dead_letters():
        assert time.monotonic() < give_up_at
        lease = queue.claim(9, terms)
        if lease is None:
            time.sleep(0.05)
        elif "000004" in keys_of(lease):
            let_expire(queue.extend(lease, brief(backend)))
        else:
            queue.settle(lease, all_done(lease), terms)
            done |= set(keys_of(lease))
    while (lease := queue.claim(9, terms)) is not None:
        queue.settle(lease, all_done(lease), terms)
        done |= set(keys_of(lease))

    [letter] = queue.dead_letters()
    assert letter.item.key == "000004"
    assert letter.item.failures == 2
    assert len(letter.errors) == 2
    assert all("died or lost its lease" in error for error in letter.errors)
    assert done == set(numbered(9)) - {"000004"}


@on_queues("halves")
def test_a_lone_item_whose_lease_expired_has_failed_once(backend: Backend, queue: Queue) -> None:
    queue.publish({"a": 1})
    let_expire(claimed(queue, 1, brief(backend)))

    [item] = claimed(queue, 1).items

    assert item.failures == 1


@on_queues("halves", "order")
def test_a_lone_item_whose_lease_expired_stays_apart(backend: Backend, queue: Queue) -> None:
    queue.publish(numbered(3))
    let_expire(claimed(queue, 1, brief(backend)))

    chunks = [keys_of(claimed(queue, 10)) for _ in range(2)]

    assert chunks == [["000000"], ["000001", "000002"]]


# Dead letters


@on_queues()
def test_an_item_that_failed_too_often_is_a_dead_letter_with_its_history(queue: Queue) -> None:
    queue.publish({"a": {"n": 1}})
    terms = TERMS._replace(failures_max=3)

    for number in range(3):
        lease = claimed(queue, 1)
        failed = (Failure("a", f"error {number}: 日本"),)
        queue.settle(lease, Settlement(failed=failed), terms._replace(worker=f"worker-{number}"))

    [letter] = queue.dead_letters()
    assert (letter.item.key, letter.item.value, letter.item.failures) == ("a", {"n": 1}, 3)
    assert len(letter.errors) == 3
    for number, error in enumerate(letter.errors):
        assert f"error {number}: 日本" in error
        assert f"worker-{number}" in error
    assert queue.claim(1, TERMS) is None


@on_queues()
def test_a_final_failure_is_a_dead_letter_at_once(queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1)

    queue.settle(lease, Settlement(failed=(Failure("a", "hopeless", is_final=True),)), TERMS)

    [letter] = queue.dead_letters()
    assert letter.item.key == "a"
    assert "hopeless" in letter.errors[-1]


@on_queues()
def test_a_huge_error_is_kept_by_its_end(queue: Queue) -> None:
    queue.publish({"a": 1})
    lease = claimed(queue, 1)
    error = "x" * 1_000_000 + "ValueError: the end"

    queue.settle(lease, Settlement(failed=(Failure("a", error, is_final=True),)), TERMS)

    [letter] = queue.dead_letters()
    assert letter.errors[0].endswith("ValueError: the end")
    assert len(letter.errors[0]) < 10_000


@on_queues()
def test_an_item_that_never_ends_failing_keeps_a_bounded_history(queue: Queue) -> None:
    queue.publish({"a": 1})
    terms = TERMS._replace(failures_max=1000)

    for number in range(25):
        lease = claimed(queue, 1)
        is_final = number == 24
        failed = (Failure("a", f"error {number}.", is_final=is_final),)
        queue.settle(lease, Settlement(failed=failed), terms)

    [letter] = queue.dead_letters()
    assert letter.item.failures == 25
    assert len(letter.errors) == 20
    assert letter.errors[-1].endswith("error 24.")


@on_queues()
def test_dead_letters_are_listed_up_to_a_limit(queue: Queue) -> None:
    queue.publish(numbered(5))
    settled = 0
    while settled < 5:
        lease = claimed(queue, 5)
        failed = tuple(Failure(key, "no", is_final=True) for key in keys_of(lease))
        queue.settle(lease, Settlement(failed=failed), TERMS)
        settled += len(failed)

    assert len(queue.dead_letters(limit=3)) == 3
    assert {letter.item.key for letter in queue.dead_letters()} == set(numbered(5))


@on_queues()
def test_dead_letters_can_be_made_ready_again_with_no_failures(queue: Queue) -> None:
    kill_items(queue, 3)

    retried = queue.retry_dead()

    assert retried == 3
    assert queue.dead_letters() == []
    seen: dict[str, int] = {}
    while len(seen) < 3:
        seen |= {item.key: item.failures for item in claimed(queue, 3).items}
    assert seen == dict.fromkeys(numbered(3), 0)


@on_queues()
def test_dead_letters_can_be_retried_by_name(queue: Queue) -> None:
    kill_items(queue, 3)

    retried = queue.retry_dead(["000001", "unknown"])

    assert retried == 1
    assert keys_of(claimed(queue, 3)) == ["000001"]
    assert {letter.item.key for letter in queue.dead_letters()} == {"000000", "000002"}


@on_queues()
def test_a_retried_item_can_be_given_up_again(queue: Queue) -> None:
    kill_items(queue, 1)
    queue.retry_dead()
    lease = claimed(queue, 1)

    queue.settle(lease, Settlement(failed=(Failure("000000", "again"),)), TERMS)
    lease = claimed(queue, 1)
    assert lease.items[0].failures == 1
    failed = (Failure("000000", "the end", is_final=True),)
    queue.settle(lease, Settlement(failed=failed), TERMS)

    [letter] = queue.dead_letters()
    assert letter.item.failures == 2
    assert "again" in letter.errors[-2]
    assert "the end" in letter.errors[-1]


@on_queues()
def test_every_dead_letter_can_be_read_one_after_the_other(queue: Queue) -> None:
    kill_items(queue, 5)

    with contextlib.closing(queue.iter_dead_letters()) as letters:
        first = next(letters)
    every = list(queue.iter_dead_letters())

    assert {letter.item.key for letter in every} == set(numbered(5))
    assert len(every) == 5
    assert first.item.key in numbered(5)
    assert all("no" in letter.errors[-1] for letter in every)


@on_queues()
def test_a_retry_reports_its_progress(queue: Queue) -> None:
    kill_items(queue, 5)
    reported: list[int] = []

    retried = queue.retry_dead(on_progress=reported.append)

    assert retried == sum(reported) == 5


@on_queues()
def test_an_item_that_dies_again_during_a_retry_stays_dead(queue: Queue) -> None:
    kill_items(queue, 3)

    def kill_again(count: int) -> None:
        killed = 0
        while killed < count:
            lease = claimed(queue, count)
            failed = tuple(Failure(key, "again", is_final=True) for key in keys_of(lease))
            queue.settle(lease, Settlement(failed=failed), TERMS)
            killed += len(failed)

    retried = queue.retry_dead(on_progress=kill_again)

    assert retried == 3
    assert {letter.item.key for letter in queue.dead_letters()} == set(numbered(3))


@on_queues("counts", "processes")
def test_a_retry_killed_halfway_and_repeated_does_the_rest(backend: Backend, queue: Queue) -> None:
    assert backend.url is not None
    kill_items(queue, 25_000)
    source = """
        import sys, time
        from outlast.queue import open_queue

        def stop(count):
            print("retried", count)
            time.sleep(60)

        open_queue(sys.argv[1]).retry_dead(on_progress=stop)
    """
    with python(source, backend.url) as program:
        count = int(program.wait_for("retried").split()[1])
        program.signal(9)
        program.wait()
    after_kill = queue.stats()

    retried = queue.retry_dead()

    assert 0 < count < 25_000
    assert (after_kill.ready, after_kill.dead) == (count, 25_000 - count)
    assert retried == 25_000 - count
    assert (queue.stats().ready, queue.stats().dead) == (25_000, 0)


@on_queues("dedupe", "counts")
def test_large_items_are_published_whatever_they_add_up_to(queue: Queue) -> None:
    large = {f"{number:02}": f"{number}" + "日" * 1_000_000 for number in range(12)}

    published = queue.publish(iter(large.items()))

    assert published == (12, 0)
    found = {item.key: item.value for item in claimed(queue, 12).items}
    assert found == large


def kill_items(queue: Queue, count: int) -> None:
    queue.publish(numbered(count))
    killed = 0
    while killed < count:
        lease = claimed(queue, count)
        failed = tuple(Failure(key, "no", is_final=True) for key in keys_of(lease))
        queue.settle(lease, Settlement(failed=failed), TERMS)
        killed += len(failed)


# Statistics


@on_queues("counts")
def test_statistics_count_every_item_in_its_place(queue: Queue) -> None:
    queue.publish(numbered(10))
    lease = claimed(queue, 6)
    failed = (
        Failure("000002", "later", delay_seconds=3600),
        Failure("000003", "never", is_final=True),
    )
    queue.settle(lease, Settlement(done=("000000", "000001"), failed=failed), TERMS)

    stats = queue.stats()

    assert stats[:5] == (4, 1, 2, 2, 1)
    assert stats.oldest_seconds is not None
    assert 0 <= stats.oldest_seconds < 60
    assert stats.done_per_second is not None
    assert stats.done_per_second > 0
    assert stats.eta_seconds is not None
    assert stats.eta_seconds > 0


@on_queues("counts")
def test_an_empty_queue_has_empty_statistics(queue: Queue) -> None:
    stats = queue.stats()

    assert stats[:5] == (0, 0, 0, 0, 0)
    assert stats.oldest_seconds is None
    assert stats.eta_seconds is None


@on_queues("counts")
def test_no_item_is_missing_from_the_statistics_when_a_lease_has_expired(
    backend: Backend, queue: Queue
) -> None:
    queue.publish(numbered(4))
    let_expire(claimed(queue, 3, brief(backend)))

    stats = queue.stats()

    assert (stats.ready or 0) + (stats.leased or 0) == 4
    assert stats.done == 0


@on_queues()
def test_a_queue_says_where_it_is_and_what_it_promises(backend: Backend, queue: Queue) -> None:
    assert "://" in queue.url
    assert queue.guarantees.exact_counts in (True, False)
    if queue.guarantees.exact_counts:
        assert None not in queue.stats()[:5]
