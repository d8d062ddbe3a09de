"""When a worker ends: drained, told to stop, or made to by its function."""

import contextlib
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from types import SimpleNamespace

import pytest

import outlast
from outlast.errors import Interrupted
from outlast.queue.errors import QueueStalled
from outlast.queue.items import LeaseTerms, Settlement
from outlast.queue.protocol import QueueGuarantees
from outlast.results.protocol import Result
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker import FunctionExited, ItemFailed, Worker
from tests.faults.worker_around import ApartSink, AroundQueue
from tests.patience import eventually
from tests.unit.worker.given import Clock, double, numbers, stored


def test_a_worker_waits_for_what_others_hold(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(2))
    other = LeaseTerms(worker="other", lease_seconds=60)
    lease = queue.claim(1, other)
    assert lease is not None
    released = threading.Timer(
        0.7, lambda: queue.settle(lease, Settlement(released=("item-0000",)), other)
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
    """As Pub/Sub: it cannot tell what it holds, but may have a ledger of what was published."""

    ledger: Sequence[str] | None = None

    @property
    def guarantees(self) -> QueueGuarantees:
        return QueueGuarantees(exact_counts=False, dedupes_keys=False)

    def published(self) -> int | None:
        return None if self.ledger is None else len(self.ledger)

    def pages(self) -> Sequence[str]:
        return [str(start) for start in range(0, len(self.ledger or ()), 2)]

    def keys_on(self, page: str) -> Sequence[str]:
        assert self.ledger is not None
        return self.ledger[int(page) : int(page) + 2]

    def dead_among(self, keys: Sequence[str]) -> AbstractSet[str]:
        return {letter.item.key for letter in self.dead_letters()} & set(keys)


def test_a_queue_that_cannot_count_is_drained_when_the_sink_holds_what_was_published(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(5))
    uncounted = Uncounted(queue)
    uncounted.ledger = list(numbers(5))

    def fussy(number: int) -> int:
        if number == 2:
            raise ItemFailed("never", retry=False)
        return number

    Worker(uncounted, sink).run(fussy)

    assert len(stored(sink)) == 4


def test_results_of_other_items_do_not_count_as_those_of_the_published_ones(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(5))
    others = [Result(f"other-{number}", "1") for number in range(10)]
    sink.store(others, token=1, version="", queue="another")
    uncounted = Uncounted(queue)
    uncounted.ledger = list(numbers(5))

    summary = Worker(uncounted, sink).run(double)

    assert summary.done == 5
    assert stored(sink).keys() >= numbers(5).keys()


class CheckClock:
    """The time of the check whether a queue is drained, which counts how often it asks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.asked = 0
        monkeypatch.setattr("outlast.worker.drained.time", SimpleNamespace(monotonic=self))
        monkeypatch.setattr("outlast.worker.loop._DRAINED_CHECK_SECONDS", 0.01)

    def __call__(self) -> float:
        self.asked += 1
        return self.now


def test_items_that_never_come_end_the_worker_and_are_counted(
    queue: MemoryQueue, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = CheckClock(monkeypatch)
    queue.publish(numbers(3))
    uncounted = Uncounted(queue)
    uncounted.ledger = [*numbers(3), "lost-1", "lost-2"]

    def time_passes() -> None:
        eventually(lambda: sink.count() == 3, "what came is done")
        asked = clock.asked
        eventually(lambda: clock.asked >= asked + 3, "the last delivery is noted")
        clock.now += 101

    with pytest.raises(
        QueueStalled,
        match="2 published items, starting with 'lost-1', have neither a result nor a dead letter",
    ) as raised:
        with running(time_passes):
            Worker(uncounted, sink, stall_seconds=100).run(double)

    assert "'lost-1'" in str(raised.value)
    assert "Publish the same items again with a new ledger" in str(raised.value.hint)
    assert len(stored(sink)) == 3


def test_a_worker_waits_as_long_as_others_store_results(
    queue: MemoryQueue, sink: MemorySink, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = CheckClock(monkeypatch)
    queue.publish(numbers(1))
    uncounted = Uncounted(queue)
    uncounted.ledger = [*numbers(1), *(f"far-{number}" for number in range(6))]

    def elsewhere() -> None:
        for number in range(6):
            # The check may be amid a look at the sink: the one after that sees what is new.
            asked = clock.asked
            eventually(lambda asked=asked: clock.asked >= asked + 3, "it has looked again")  # type: ignore[misc]  # a default binds the loop's value
            clock.now += 90
            sink.store([Result(f"far-{number}", "1")], token=1, version="", queue="memory")

    with running(elsewhere):
        Worker(uncounted, sink, stall_seconds=100).run(double)

    assert sink.count() == 7


@contextlib.contextmanager
def running(act: Callable[[], object]) -> Iterator[None]:
    """Something that happens in another thread meanwhile."""
    thread = threading.Thread(target=act)
    thread.start()
    yield
    thread.join()


def test_a_queue_that_cannot_tell_is_worked_on_until_stopped_and_says_so(
    queue: MemoryQueue, sink: MemorySink, caplog: pytest.LogCaptureFixture
) -> None:
    queue.publish(numbers(1))
    with outlast.Guard() as guard:

        def stop() -> None:
            eventually(lambda: sink.count() == 1, "the item is done")
            guard.interrupt("enough")

        with running(stop), pytest.raises(Interrupted):
            Worker(Uncounted(queue), sink).run(double)

    assert "memory://place cannot report when it is drained" in caplog.text
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
                eventually(lambda: queue.stats().leased == 1, "the others are released")
                waiting_during_the_call.append(queue.stats().ready)
            return number

        with pytest.raises(Interrupted) as raised:
            Worker(queue, sink).run(function, chunk=10)

    assert raised.value.code == 75
    assert waiting_during_the_call == [16], "Others had the rest while this item was computed."
    assert len(stored(sink)) == 14
    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.dead, stats.done) == (16, 0, 0, 14)
    left = queue.claim(100, LeaseTerms(worker="other"))
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


class Unprintable(BaseException):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "failures"),
    [(SystemExit(3), 1), (Unprintable(), 1), (KeyboardInterrupt(), 0)],
    ids=["exit", "unprintable", "keyboard"],
)
def test_a_function_that_ends_the_worker_is_blamed_unless_a_person_did(
    queue: MemoryQueue, sink: MemorySink, error: BaseException, failures: int
) -> None:
    queue.publish(numbers(5))

    def leaving(number: int) -> int:
        if number == 2:
            if isinstance(error, KeyboardInterrupt):
                # As if the guard had been told to leave Ctrl-C alone.
                signal.signal(signal.SIGINT, signal.default_int_handler)
            raise error
        return number

    with pytest.raises(type(error)):
        Worker(queue, sink, retry_seconds=0).run(leaving)

    assert len(stored(sink)) == 2
    lease = queue.claim(5, LeaseTerms(worker="other"))
    assert lease is not None
    assert {item.key: item.failures for item in lease.items} == {
        "item-0002": failures,
        "item-0003": 0,
        "item-0004": 0,
    }


@pytest.mark.parametrize("code", [0, None, False, 256])
def test_a_function_that_exits_as_if_all_were_well_fails(
    queue: MemoryQueue, sink: MemorySink, code: int | None
) -> None:
    queue.publish(numbers(3))

    def leaving(number: int) -> int:
        raise SystemExit(code)

    with pytest.raises(FunctionExited, match="before the queue was drained") as caught:
        Worker(queue, sink, retry_seconds=0).run(leaving)

    assert caught.value.exit_code == 1
    lease = queue.claim(5, LeaseTerms(worker="other"))
    assert lease is not None
    assert [item.failures for item in lease.items] == [1, 0, 0]


def test_a_set_up_that_exits_as_if_all_were_well_fails(
    queue: MemoryQueue, sink: MemorySink
) -> None:
    queue.publish(numbers(3))

    class Model:
        def setup(self) -> None:
            raise SystemExit

        def __call__(self, number: int) -> int:
            return number

    with pytest.raises(FunctionExited, match=r"The setup\(\) method called sys.exit\(\)"):
        Worker(queue, sink).run(Model)

    assert queue.stats().ready == 3


def test_a_generator_exit_is_the_item_s_failure(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(3))

    def leaving(number: int) -> int:
        if number == 1:
            raise GeneratorExit
        return number

    summary = Worker(queue, sink, failures_max=1).run(leaving)

    assert (summary.done, summary.dead) == (2, 1)
    assert "GeneratorExit" in queue.dead_letters()[0].errors[-1]


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
    half = queue.claim(4, LeaseTerms(worker="other"))
    assert half is not None and len(half.items) == 2


def test_no_thread_is_left_behind(queue: MemoryQueue, sink: MemorySink) -> None:
    queue.publish(numbers(3))
    before = set(threading.enumerate())

    Worker(queue, sink, timeout_seconds=60).run(double)

    eventually(lambda: set(threading.enumerate()) <= before, "all new threads have ended")


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
