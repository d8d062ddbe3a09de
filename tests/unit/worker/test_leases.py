"""How a worker holds on to its chunk, and what it does when it cannot."""

import threading
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import pytest

import outlast
from outlast.errors import Interrupted
from outlast.queue.errors import QueueUnavailable
from outlast.queue.items import Lease, LeaseTerms, Settlement
from outlast.queue.protocol import StoreInTransaction
from outlast.results.errors import SinkUnavailable
from outlast.results.protocol import Result
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker import Worker
from outlast.worker import loop as shift_module
from tests.faults.worker_around import ApartSink, AroundQueue, AroundSink
from tests.patience import PATIENCE_SECONDS, eventually
from tests.unit.worker.given import Clock, double, numbers, stored


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
def test_the_results_of_a_lost_lease_are_stored_and_its_items_skipped(
    sink: MemorySink, apart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    queue = MemoryQueue("place", clock=clock)
    queue.publish(numbers(4))
    calls: list[int] = []

    def oversleeping(number: int) -> int:
        calls.append(number)
        if len(calls) == 3:
            clock.now += 61
            take_over(queue)
        return number

    summary = Worker(queue, ApartSink(sink) if apart else sink).run(oversleeping)

    assert stored(sink) == numbers(4)
    assert (summary.done, summary.skipped, summary.lost) == (4, 4, 0)
    assert sorted(calls) == [0, 1, 2, 3]
    assert "Lost the lease on 4 items, with 4 results that were not stored yet." in caplog.text


def test_a_result_of_a_lost_lease_does_not_replace_that_of_a_later_one(sink: MemorySink) -> None:
    clock = Clock()
    queue = MemoryQueue("place", clock=clock)
    queue.publish(numbers(1))
    other = LeaseTerms(worker="other")

    def oversleeping(number: int) -> str:
        clock.now += 61
        lease = queue.claim(1, other)
        assert lease is not None
        [key] = [item.key for item in lease.items]
        storing = sink.storing(
            [Result(key, '"theirs"')], token=lease.token, version="", queue=lease.queue
        )
        queue.settle(lease, Settlement(done=(key,)), other, storing=storing)
        return "ours"

    summary = Worker(queue, sink).run(oversleeping)

    assert set(stored(sink).values()) == {"theirs"}
    assert (summary.done, summary.lost) == (0, 1)


def test_an_item_whose_calls_outlast_the_leases_of_several_workers_is_done(
    sink: MemorySink,
) -> None:
    """As when each call holds the interpreter lock, so that nothing can extend a lease."""
    clock = Clock()
    queue = MemoryQueue("place", clock=clock)
    queue.publish(numbers(1))
    calls: list[int] = []

    def oversleeping(number: int) -> int:
        calls.append(number)
        for worker in ("second", "third"):
            clock.now += 61
            assert queue.claim(1, LeaseTerms(worker=worker)) is not None
        clock.now += 61
        return number

    summary = Worker(queue, sink).run(oversleeping)

    assert stored(sink) == numbers(1)
    assert (summary.done, queue.stats().dead) == (1, 0)
    assert calls == [0]


def take_over(queue: MemoryQueue) -> None:
    """Let another worker take what has expired, and give it back."""
    other = LeaseTerms(worker="other")
    lease = queue.claim(10, other)
    assert lease is not None
    queue.settle(lease, Settlement(released=tuple(item.key for item in lease.items)), other)


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
def test_a_lease_that_expired_and_that_nobody_took_is_still_ours(
    sink: MemorySink, apart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    queue = MemoryQueue("place", clock=clock)
    queue.publish(numbers(4))
    calls: list[int] = []

    def oversleeping(number: int) -> int:
        calls.append(number)
        clock.now += 61
        return number

    summary = Worker(queue, ApartSink(sink) if apart else sink).run(oversleeping)

    assert calls == [0, 1, 2, 3]
    assert (summary.done, summary.lost, summary.failed) == (4, 0, 0)
    assert stored(sink) == numbers(4)
    assert "Lost the lease" not in caplog.text


def test_a_chunk_whose_last_item_takes_long_is_not_taken_for_lost(
    queue: MemoryQueue,
    sink: MemorySink,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(shift_module, "_FLUSH_SECONDS", 0.0)
    queue.publish(numbers(6))

    summary = Worker(queue, sink).run(double, chunk=2)

    assert (summary.done, summary.lost) == (6, 0)
    assert "Lost the lease" not in caplog.text


def test_a_heartbeat_that_comes_just_after_the_settlement_finds_nothing_lost(
    queue: MemoryQueue, sink: MemorySink, caplog: pytest.LogCaptureFixture
) -> None:
    queue.publish(numbers(2))
    extending, settled = threading.Event(), threading.Event()

    class Late(AroundQueue):
        """The heartbeat's extension arrives when the chunk has been settled."""

        def extend(self, lease: Lease, terms: LeaseTerms) -> Lease:
            extending.set()
            assert settled.wait(PATIENCE_SECONDS)
            return super().extend(lease, terms)

        def settle(
            self,
            lease: Lease,
            settlement: Settlement,
            terms: LeaseTerms,
            *,
            storing: StoreInTransaction | None = None,
            claim: int = 0,
        ) -> Lease | None:
            following = super().settle(lease, settlement, terms, storing=storing, claim=claim)
            settled.set()
            return following

    def slow(number: int) -> int:
        assert extending.wait(PATIENCE_SECONDS)
        return number

    summary = Worker(Late(queue), sink, lease_seconds=0.3).run(slow, chunk=1)

    assert (summary.done, summary.lost) == (2, 0)
    assert "Lost the lease" not in caplog.text


def test_a_heartbeat_while_a_settlement_is_in_doubt_loses_nothing(
    queue: MemoryQueue, sink: MemorySink, caplog: pytest.LogCaptureFixture
) -> None:
    """The settlement was done, but its answer was lost: only asking again can tell."""
    queue.publish(numbers(1))
    extended = threading.Event()
    answers: list[Lease | None] = []

    class Mute(AroundQueue):
        def extend(self, lease: Lease, terms: LeaseTerms) -> Lease:
            try:
                return super().extend(lease, terms)
            finally:
                if answers:
                    extended.set()

        def settle(
            self,
            lease: Lease,
            settlement: Settlement,
            terms: LeaseTerms,
            *,
            storing: StoreInTransaction | None = None,
            claim: int = 0,
        ) -> Lease | None:
            if answers:
                assert extended.wait(PATIENCE_SECONDS)
                return answers[0]
            answers.append(super().settle(lease, settlement, terms, storing=storing, claim=claim))
            raise QueueUnavailable("The answer was lost.")

    summary = Worker(Mute(queue), sink, lease_seconds=0.3).run(double)

    assert (summary.done, summary.lost) == (1, 0)
    assert "Lost the lease" not in caplog.text


class Beating(AroundQueue):
    """Counts the calls that extend a lease."""

    beats = 0

    def extend(self, lease: Lease, terms: LeaseTerms) -> Lease:
        try:
            return super().extend(lease, terms)
        finally:
            self.beats += 1

    def wait_for_beats(self, count: int) -> None:
        until = self.beats + count
        eventually(lambda: self.beats >= until, "the heartbeat")


def test_the_lease_is_held_while_an_item_takes_longer_than_it(sink: MemorySink) -> None:
    clock = Clock()
    queue = MemoryQueue("place", clock=clock)
    queue.publish(numbers(1))
    beating = Beating(queue)

    def slow(number: int) -> int:
        for _ in range(4):
            clock.now += 0.4
            # The first of two may have begun before the clock moved.
            beating.wait_for_beats(2)
        return number

    summary = Worker(beating, sink, lease_seconds=0.6).run(slow)

    assert (summary.done, summary.lost) == (1, 0)


def test_a_lease_found_lost_by_the_heartbeat_ends_the_chunk(
    sink: MemorySink, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    queue = MemoryQueue("place", clock=clock)
    queue.publish(numbers(4))
    calls: list[int] = []

    def paused(number: int) -> int:
        calls.append(number)
        if len(calls) == 2:
            clock.now += 10
            take_over(queue)
            others = [Result(key, str(n)) for key, n in numbers(4).items() if n > 1]
            sink.store(others, token=10, version="", queue="")
            eventually(lambda: "Lost the lease on 4 items" in caplog.text, "it is noticed")
        return number

    summary = Worker(queue, sink, lease_seconds=0.3).run(paused)

    assert calls == [0, 1], "The rest of the lost chunk was not computed."
    assert (summary.done, summary.lost) == (2, 0)
    assert stored(sink) == numbers(4)


class Recording(AroundQueue):
    def __init__(self, queue: MemoryQueue) -> None:
        super().__init__(queue)
        self.calls: list[str] = []
        self.leased_max = 0

    def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        self.calls.append("claim")
        return self._counted(super().claim(limit, terms))

    def settle(
        self,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        *,
        storing: StoreInTransaction | None = None,
        claim: int = 0,
    ) -> Lease | None:
        self.calls.append(f"settle {len(settlement.done)}")
        following = super().settle(lease, settlement, terms, storing=storing, claim=claim)
        return self._counted(following)

    def _counted(self, lease: Lease | None) -> Lease | None:
        self.leased_max = max(self.leased_max, self.inner.stats().leased or 0)
        return lease


def test_storing_acknowledging_and_the_next_claim_are_one_round_trip(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(30))
    recording = Recording(queue)

    Worker(recording, sink).run(double, chunk=10)

    assert recording.calls == ["claim", "settle 10", "settle 10", "settle 10", "claim"]
    assert recording.leased_max == 10, "Never more than one chunk is held."


def test_a_chunk_that_takes_long_is_stored_bit_by_bit(
    queue: MemoryQueue, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shift_module, "_FLUSH_SECONDS", 0.05)
    queue.publish(numbers(6))
    recording = Recording(queue)
    stored_before: list[int] = []

    def slow(number: int) -> int:
        stored_before.append(sink.count())
        time.sleep(0.03)
        return number

    summary = Worker(recording, sink).run(slow, chunk=6)

    assert stored(sink) == numbers(6)
    assert summary.done == 6
    assert stored_before[-1] >= 2, "Most of the chunk was stored before it ended."
    assert recording.calls[0] == "claim" and len(recording.calls) >= 4


def test_an_item_delivered_twice_in_one_chunk_is_computed_once(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(2))
    calls: list[int] = []

    class Repeating(AroundQueue):
        """As Pub/Sub may."""

        def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
            lease = super().claim(limit, terms)
            return lease and lease._replace(items=(*lease.items, lease.items[0]))

    def function(number: int) -> int:
        calls.append(number)
        return number

    Worker(Repeating(queue), sink).run(function)

    assert sorted(calls) == [0, 1]
    assert stored(sink) == numbers(2)


class Flaky(AroundQueue):
    """Does not answer while `fails` counts down."""

    fails = 0

    def _answer(self) -> None:
        if self.fails:
            self.fails -= 1
            raise QueueUnavailable("The server is restarting.")

    def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        self._answer()
        return super().claim(limit, terms)

    def settle(
        self,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        *,
        storing: StoreInTransaction | None = None,
        claim: int = 0,
    ) -> Lease | None:
        self._answer()
        return super().settle(lease, settlement, terms, storing=storing, claim=claim)


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
def test_a_server_that_restarts_is_waited_for_and_nothing_is_stored_twice(
    queue: MemoryQueue, sink: MemorySink, apart: bool
) -> None:
    queue.publish(numbers(10))
    flaky = Flaky(queue)
    flaky.fails = 1
    writes: list[str] = []

    class Counting(AroundSink):
        def store(
            self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
        ) -> AbstractSet[str]:
            writes.extend(result.key for result in results)
            return super().store(results, token=token, version=version, queue=queue)

        @property
        def database(self) -> str:
            return "elsewhere" if apart else super().database

    def function(number: int) -> int:
        flaky.fails = 2 if number == 5 else 0
        return number

    summary = Worker(flaky, Counting(sink)).run(function, chunk=3)

    assert stored(sink) == numbers(10)
    assert summary.done == 10
    assert not apart or sorted(writes) == sorted(numbers(10))


def test_a_sink_that_does_not_answer_is_waited_for(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(2))

    class Silent(AroundSink):
        fails = 2

        def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
            if self.fails:
                self.fails -= 1
                raise SinkUnavailable("The bucket does not answer.")
            return super().done(keys, version=version)

    Worker(queue, Silent(sink)).run(double)

    assert len(stored(sink)) == 2


def test_patience_ends_and_the_items_go_back(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(3))

    class Gone(AroundSink):
        def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
            raise SinkUnavailable("The bucket does not answer.")

    with pytest.raises(SinkUnavailable, match="The bucket does not answer"):
        Worker(queue, Gone(sink), patience_seconds=0.3).run(double)

    assert queue.stats().ready == 3


def test_a_notice_is_heard_while_a_server_is_waited_for(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(3))
    flaky = Flaky(queue)
    flaky.fails = 1_000_000
    with outlast.Guard() as guard:
        threading.Timer(0.3, lambda: guard.interrupt("evicted")).start()
        with pytest.raises(Interrupted):
            Worker(flaky, sink).run(double)
