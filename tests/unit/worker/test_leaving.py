"""When a worker ends: drained, told to stop, or made to by its function."""

import contextlib
import random
import threading
import time

import pytest

import outlast
from outlast.errors import Interrupted
from outlast.queue.items import Outcome, Terms
from outlast.queue.protocol import Promises
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker import ItemFailed, Worker
from tests.faults.worker_around import ApartSink, AroundQueue
from tests.unit.worker.given import Clock, double, numbers, stored


def test_a_worker_waits_for_what_others_hold(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(2))
    other = Terms(worker="other", lease_seconds=60)
    lease = queue.claim(1, other)
    assert lease is not None
    released = threading.Timer(
        0.7, lambda: queue.settle(lease, Outcome(released=("item-0000",)), other)
    )
    released.start()

    Worker(queue, sink).run(double)

    assert stored(sink) == {"item-0000": 0, "item-0001": 2}


def test_forever_goes_on_after_the_queue_is_drained(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish({"first": 1})
    with outlast.Guard() as guard:

        def later() -> None:
            time.sleep(0.5)
            queue.publish({"second": 2})
            while sink.count() < 2:
                time.sleep(0.01)
            guard.interrupt("enough")

        thread = threading.Thread(target=later)
        thread.start()
        with pytest.raises(Interrupted):
            Worker(queue, sink).run(double, until="forever")
        thread.join()

    assert stored(sink) == {"first": 2, "second": 4}


class Uncounted(AroundQueue):
    """As Pub/Sub: it cannot tell what it holds."""

    ledger: int | None = None

    @property
    def promises(self) -> Promises:
        return Promises(exact_counts=False, dedupes_keys=False)

    def published(self) -> int | None:
        return self.ledger


def test_a_queue_that_cannot_count_is_drained_when_the_sink_holds_what_was_published(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(5))
    uncounted = Uncounted(queue)
    uncounted.ledger = 5

    def fussy(number: int) -> int:
        if number == 2:
            raise ItemFailed("never", retry=False)
        return number

    Worker(uncounted, sink).run(fussy)

    assert len(stored(sink)) == 4


def test_a_queue_that_cannot_tell_is_worked_on_until_stopped_and_says_so(
    queue: MemoryQueue, sink: MemorySink, caplog: pytest.LogCaptureFixture
) -> None:
    queue.publish(numbers(1))
    with outlast.Guard() as guard:
        stop = threading.Timer(0.5, lambda: guard.interrupt("enough"))
        stop.start()
        with pytest.raises(Interrupted):
            Worker(Uncounted(queue), sink).run(double)

    assert "memory://place cannot say when it is drained" in caplog.text
    assert len(stored(sink)) == 1


def test_a_notice_stores_what_is_done_and_releases_the_rest_without_blame(
    queue: MemoryQueue, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OUTLAST_EXIT_CODE", "75")
    queue.publish(numbers(30))
    waiting_during_the_call: list[int | None] = []
    with outlast.Guard() as guard:

        def function(number: int) -> int:
            if number == 13:
                guard.interrupt("evicted")
                give_up_at = time.monotonic() + 5
                while queue.stats().leased != 1 and time.monotonic() < give_up_at:
                    time.sleep(0.01)
                waiting_during_the_call.append(queue.stats().ready)
            return number

        with pytest.raises(Interrupted) as raised:
            Worker(queue, sink).run(function, chunk=10)

    assert raised.value.code == 75
    assert waiting_during_the_call == [16], "Others had the rest while this item was computed."
    assert len(stored(sink)) == 14
    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.dead, stats.done) == (16, 0, 0, 14)
    left = queue.claim(100, Terms(worker="other"))
    assert left is not None and all(item.failures == 0 for item in left.items)


def test_a_batch_that_fails_after_the_notice_is_released_and_not_halved(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(8))
    sizes: list[int] = []
    with outlast.Guard() as guard:

        def function(batch: list[int]) -> list[int]:
            sizes.append(len(batch))
            guard.interrupt("evicted")
            raise OSError("the data went with the machine")

        with pytest.raises(Interrupted):
            Worker(queue, sink).run(function, chunk=8, batch=True)

    assert sizes == [8]
    assert queue.stats().ready == 8


@pytest.mark.parametrize(
    ("error", "failures"), [(SystemExit(3), 1), (KeyboardInterrupt(), 0)], ids=["exit", "keyboard"]
)
def test_a_function_that_ends_the_worker_is_blamed_unless_a_person_did(
    queue: MemoryQueue, sink: MemorySink, error: BaseException, failures: int
) -> None:
    queue.publish(numbers(5))

    def leaving(number: int) -> int:
        if number == 2:
            raise error
        return number

    with pytest.raises(type(error)):
        Worker(queue, sink, retry_seconds=0).run(leaving)

    assert len(stored(sink)) == 2
    lease = queue.claim(5, Terms(worker="other"))
    assert lease is not None
    assert {item.key: item.failures for item in lease.items} == {
        "item-0002": failures,
        "item-0003": 0,
        "item-0004": 0,
    }


def test_a_batch_that_ends_the_worker_comes_back_in_halves(sink: MemorySink) -> None:
    clock = Clock()
    queue = MemoryQueue("place", clock=clock)
    queue.publish(numbers(4))

    def leaving(_: list[int]) -> list[int]:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        Worker(queue, sink).run(leaving, batch=True)

    assert queue.stats().leased == 4
    clock.now += 61
    half = queue.claim(4, Terms(worker="other"))
    assert half is not None and len(half.items) == 2


def test_no_thread_is_left_behind(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(3))
    before = set(threading.enumerate())

    Worker(queue, sink, timeout_seconds=60).run(double)

    give_up_at = time.monotonic() + 5
    while time.monotonic() < give_up_at:
        left = [thread.name for thread in threading.enumerate() if thread not in before]
        if not left:
            break
        time.sleep(0.01)
    assert left == []


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
def test_a_notice_at_any_moment_leaves_nothing_leased_and_nothing_half_done(apart: bool) -> None:
    chance = random.Random(3)
    for round_ in range(60):
        queue, sink = MemoryQueue("place"), MemorySink("place")
        queue.publish(numbers(60))
        batch = round_ % 2 == 0
        with outlast.Guard() as guard:
            timer = threading.Timer(chance.uniform(0, 0.02), guard.interrupt, ("evicted",))
            timer.start()

            def one(number: int) -> int:
                time.sleep(0.0002)
                return number

            def many(batch: list[int]) -> list[int]:
                return [one(number) for number in batch]

            with contextlib.suppress(Interrupted):
                Worker(queue, ApartSink(sink) if apart else sink).run(
                    many if batch else one, chunk=7, batch=batch
                )
            timer.join()

        stats = queue.stats()
        assert (stats.leased, stats.dead, stats.delayed) == (0, 0, 0)
        assert stats.done == sink.count()
        assert stats.ready == 60 - sink.count()
