"""How a worker holds on to its chunk, and what it does when it cannot."""

import threading
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import pytest

import outlast
from outlast.errors import Interrupted
from outlast.queue.errors import QueueUnavailable
from outlast.queue.items import Lease, Outcome, Terms
from outlast.queue.protocol import Storing
from outlast.results.errors import SinkUnavailable
from outlast.results.protocol import Result
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker import Worker
from outlast.worker import shift as shift_module
from tests.faults.worker_around import AroundQueue, AroundSink
from tests.unit.worker.given import Clock, double, numbers, stored


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
def test_a_lost_lease_drops_the_results_and_the_worker_goes_on(
    sink: MemorySink, apart: bool, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    queue = MemoryQueue("place", clock=clock)
    queue.publish(numbers(4))
    tokens: list[int] = []

    class Storing(AroundSink):
        def store(self, results: Sequence[Result], *, token: int, version: str) -> AbstractSet[str]:
            tokens.append(token)
            return super().store(results, token=token, version=version)

        @property
        def place(self) -> str:
            return "elsewhere" if apart else super().place

    calls: list[int] = []

    def oversleeping(number: int) -> int:
        calls.append(number)
        if len(calls) == 3:
            clock.now += 61
        return number

    summary = Worker(queue, Storing(sink)).run(oversleeping)

    assert stored(sink) == numbers(4)
    assert summary.lost == 4
    assert calls == [0, 1, 2, 3, 0, 1, 2, 3]
    assert "The lease on 4 items was lost, and with it the results of 4." in caplog.text
    assert len(tokens) == (2 if apart else 0), "The lost chunk was not stored, its halves were."


def test_the_lease_is_held_while_an_item_takes_longer_than_it(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(1))

    def slow(number: int) -> int:
        time.sleep(1.5)
        return number

    summary = Worker(queue, sink, lease_seconds=0.6).run(slow)

    assert (summary.done, summary.lost) == (1, 0)


def test_a_lease_found_lost_by_the_heartbeat_ends_the_chunk(sink: MemorySink) -> None:
    clock = Clock()
    queue = MemoryQueue("place", clock=clock)
    queue.publish(numbers(4))
    calls: list[int] = []

    def paused(number: int) -> int:
        calls.append(number)
        if len(calls) == 2:
            clock.now += 10
            time.sleep(0.6)
        return number

    summary = Worker(queue, sink, lease_seconds=0.3).run(paused)

    assert calls[:3] == [0, 1, 0], "The rest of the lost chunk was not computed."
    assert summary.lost == 2
    assert stored(sink) == numbers(4)


class Recording(AroundQueue):
    def __init__(self, queue: MemoryQueue) -> None:
        super().__init__(queue)
        self.calls: list[str] = []
        self.leased_max = 0

    def claim(self, limit: int, terms: Terms) -> Lease | None:
        self.calls.append("claim")
        return self._counted(super().claim(limit, terms))

    def settle(
        self,
        lease: Lease,
        outcome: Outcome,
        terms: Terms,
        *,
        storing: Storing | None = None,
        claim: int = 0,
    ) -> Lease | None:
        self.calls.append(f"settle {len(outcome.done)}")
        following = super().settle(lease, outcome, terms, storing=storing, claim=claim)
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

        def claim(self, limit: int, terms: Terms) -> Lease | None:
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

    def claim(self, limit: int, terms: Terms) -> Lease | None:
        self._answer()
        return super().claim(limit, terms)

    def settle(
        self,
        lease: Lease,
        outcome: Outcome,
        terms: Terms,
        *,
        storing: Storing | None = None,
        claim: int = 0,
    ) -> Lease | None:
        self._answer()
        return super().settle(lease, outcome, terms, storing=storing, claim=claim)


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
def test_a_server_that_restarts_is_waited_for_and_nothing_is_stored_twice(
    queue: MemoryQueue, sink: MemorySink, apart: bool
) -> None:
    queue.publish(numbers(10))
    flaky = Flaky(queue)
    flaky.fails = 1
    writes: list[str] = []

    class Counting(AroundSink):
        def store(self, results: Sequence[Result], *, token: int, version: str) -> AbstractSet[str]:
            writes.extend(result.key for result in results)
            return super().store(results, token=token, version=version)

        @property
        def place(self) -> str:
            return "elsewhere" if apart else super().place

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
        started = time.monotonic()
        with pytest.raises(Interrupted):
            Worker(flaky, sink).run(double)

    assert time.monotonic() - started < 5
