"""Workers in real processes, killed anywhere: nothing is lost and nothing is stored twice."""

import contextlib
import dataclasses
import itertools
import json
import random
import re
import signal
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from outlast.queue import Queue, open_queue
from outlast.queue.items import LeaseTerms
from outlast.results import open_sink
from tests.contract.queues import Backend, backend_of, on_queues
from tests.faults.lives import Life, life
from tests.faults.worker_program import BOUNDARIES, Plan, work
from tests.faults.worker_writes import count_writes, writes
from tests.patience import PATIENCE_SECONDS, eventually

# The server that forks lives is not started yet: it should have what they need.

ITEMS = 2_000
WORKERS = 4

# Little time for work after a notice, but enough for the last acts on a machine that stalls.
SHORT_BUDGET: dict[str, Any] = {
    "grace_seconds": 61.5,
    "environ": {"OUTLAST_RESERVE_SECONDS": "60"},
}


@pytest.fixture
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    with backend_of(request, tmp_path) as opened:
        yield opened


@pytest.fixture
def queue(backend: Backend) -> Iterator[Queue]:
    with contextlib.closing(backend.open()) as opened:
        yield opened


def numbers(count: int) -> dict[str, dict[str, Any]]:
    return {f"item-{n:05}": {"key": f"item-{n:05}", "number": n} for n in range(count)}


def plan_for(backend: Backend, tmp_path: Path, *, apart: bool = False, **changes: Any) -> Plan:
    assert backend.url is not None
    sink = f"sqlite:///{tmp_path}/results.db" if apart else backend.url
    plan = Plan(queue=backend.url, sink=sink, computed=tmp_path / "computed")
    return dataclasses.replace(plan, **changes)


def publish(plan: Plan, queue: Queue, count: int) -> None:
    """Fill the queue; from now on, writes of results are counted."""
    open_sink(plan.sink).close()
    count_writes(plan.sink)
    plan.computed.touch()
    queue.publish(numbers(count))


def results_of(plan: Plan) -> dict[str, dict[str, int]]:
    with contextlib.closing(open_sink(plan.sink)) as sink:
        return {result.key: json.loads(result.payload) for result in sink.results()}


def begun(plan: Plan) -> list[tuple[str, float]]:
    """Each item that was begun, and when."""
    rows = [line.split() for line in plan.computed.read_text().splitlines()]
    return [(key, float(moment)) for key, moment in rows]


def assert_each_once(plan: Plan, count: int) -> None:
    found = results_of(plan)
    assert {key: value["square"] for key, value in found.items()} == {
        key: value["number"] ** 2 for key, value in numbers(count).items()
    }
    assert writes(plan.sink) == Counter(dict.fromkeys(found, 1))


class Crew:
    """Workers of one plan. Whoever ends is replaced, often by one that dies at a boundary."""

    def __init__(self, plan: Plan, tmp_path: Path, stack: ExitStack, seed: int) -> None:
        self._plan = plan
        self._log = tmp_path / "log"
        self._stack = stack
        self._chance = random.Random(seed)
        self._boundaries = itertools.cycle((*BOUNDARIES, None, None))
        self.codes: Counter[int] = Counter()
        self.lives = [self._start() for _ in range(WORKERS)]

    def disturb_until_one_ends_well(self, count: int, patience_seconds: float) -> None:
        """Until all results are there; then whoever is left may find out.

        A kill waits until there is a new result, or a slow machine would never get anywhere.
        """
        give_up_at = time.monotonic() + patience_seconds
        stored = 0
        with contextlib.closing(open_sink(self._plan.sink)) as sink:
            while 0 not in self.codes:
                assert time.monotonic() < give_up_at, f"It goes on and on: {self.codes}."
                time.sleep(self._chance.uniform(0.1, 0.4))
                if stored < (now := sink.count()) < count:
                    stored = now
                    self._kill(self._chance.randrange(WORKERS))
                self._replace_the_ended()

    def _kill(self, victim: int) -> None:
        self.lives[victim].signal(self._chance.choice((signal.SIGTERM, signal.SIGKILL)))
        self.lives[victim].wait()

    def _replace_the_ended(self) -> None:
        for index, one in enumerate(self.lives):
            if one.ended_within(0):
                self.codes[one.wait()] += 1
                self.lives[index] = self._start()

    @property
    def deaths(self) -> Counter[str]:
        return Counter(re.findall(r"died after (\w+)", self._log.read_text()))

    def _start(self) -> Life:
        boundary = next(self._boundaries)
        plan = dataclasses.replace(
            self._plan, dies_after=boundary, dies_at=self._chance.randint(1, 4)
        )
        return self._stack.enter_context(life(work, plan, log=self._log))


def survive(
    plan: Plan, tmp_path: Path, count: int, seed: int, *, boundaries_min: int = len(BOUNDARIES)
) -> None:
    with ExitStack() as stack:
        crew = Crew(plan, tmp_path, stack, seed)
        crew.disturb_until_one_ends_well(count, max(PATIENCE_SECONDS, count / 40))

    computed = len(begun(plan))
    print(
        f"seed {seed}: codes {dict(crew.codes)}, deaths {dict(crew.deaths)}, "
        f"recomputed {(computed - count) / count:.1%}"
    )
    assert_each_once(plan, count)
    assert len(crew.deaths) >= boundaries_min
    # Before the guard is open, a SIGTERM ends the process as it would any other.
    assert set(crew.codes) <= {0, 75, 137, 143}


@on_queues("processes", "transaction")
def test_workers_killed_at_random_and_at_each_boundary_store_every_result_once(
    backend: Backend, queue: Queue, tmp_path: Path
) -> None:
    plan = plan_for(backend, tmp_path)
    publish(plan, queue, ITEMS)

    survive(plan, tmp_path, ITEMS, seed=4)

    assert queue.stats()[:5] == (0, 0, 0, ITEMS, 0)


@on_queues("processes")
def test_the_same_holds_with_the_results_in_another_place(
    backend: Backend, queue: Queue, tmp_path: Path
) -> None:
    plan = plan_for(backend, tmp_path, apart=True, batch=True)
    publish(plan, queue, ITEMS)

    survive(plan, tmp_path, ITEMS, seed=5)


@pytest.mark.needs("pubsub-emulator")
def test_the_same_holds_on_pubsub_where_a_ledger_tells_when_it_is_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.servers.pubsub import client_of, shared_pubsub

    # What a killed client had asked for and never got comes back only after this time.
    monkeypatch.setattr("outlast.queue.pubsub.client._ACK_SECONDS", 10)
    emulator = shared_pubsub()
    name = uuid.uuid4().hex
    plan = Plan(
        queue=f"pubsub://outlast-test/t-{name}?subscription=s-{name}&ledger={tmp_path}/ledger",
        sink=f"sqlite:///{tmp_path}/results.db",
        computed=tmp_path / "computed",
        environ={"PUBSUB_EMULATOR_HOST": emulator.host},
        lease_seconds=2.0,
    )
    with client_of(emulator), contextlib.closing(open_queue(plan.queue)) as queue:
        publish(plan, queue, 1_000)

    survive(plan, tmp_path, 1_000, seed=6, boundaries_min=2)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
@on_queues("processes")
def test_ten_thousand_items_survive_as_well(
    backend: Backend, queue: Queue, tmp_path: Path, seed: int
) -> None:
    plan = plan_for(backend, tmp_path, apart=backend.open_sink is None, chunk=20)
    publish(plan, queue, 10_000)

    survive(plan, tmp_path, 10_000, seed)


@pytest.mark.parametrize("apart", [False, True], ids=["one place", "two places"])
@pytest.mark.parametrize("paused", ["amid an item", "before storing it"])
@on_queues("processes", "transaction")
def test_a_worker_paused_past_its_lease_cannot_store_its_late_result(
    backend: Backend, queue: Queue, tmp_path: Path, apart: bool, paused: str
) -> None:
    plan = plan_for(backend, tmp_path, apart=apart, seconds=0.0, chunk=1)
    slow = dataclasses.replace(plan, function="stop")
    if paused == "before storing it":
        slow = dataclasses.replace(
            plan, dies_after="compute", dies_at=1, dies_of=signal.SIGSTOP, lease_seconds=2.0
        )
    publish(plan, queue, 1)
    with life(work, slow, log=tmp_path / "stale") as stale:
        eventually(lambda: begun(plan), "it has begun")
        with life(work, plan, log=tmp_path / "fresh") as fresh:
            assert fresh.wait() == 0
        before = results_of(plan)
        stale.signal(signal.SIGCONT)

        assert stale.wait() == 0

    assert results_of(plan) == before
    assert_each_once(plan, 1)
    assert "Lost the lease on 1 items" in stale.output
    assert "1 lost" in stale.output


@on_queues("processes", "halves", "counts")
def test_an_item_that_kills_its_worker_every_time_is_given_up_and_all_others_are_done(
    backend: Backend, queue: Queue, tmp_path: Path
) -> None:
    plan = plan_for(
        backend, tmp_path, function="die_of_7", chunk=8, lease_seconds=0.5, failures_max=2
    )
    publish(plan, queue, 20)

    codes = []
    while 0 not in codes:
        with life(work, plan, log=tmp_path / "log") as one:
            codes.append(one.wait())
        assert len(codes) < 20, "The item is never found."

    [letter] = queue.dead_letters()
    assert letter.item.key == "item-00007"
    assert len(letter.errors) == 2
    assert "the worker died or lost its lease" in letter.errors[-1].lower()
    assert set(results_of(plan)) == set(numbers(20)) - {"item-00007"}
    assert max(writes(plan.sink).values()) == 1
    assert codes.count(137) == len(codes) - 1


@on_queues("processes", "counts")
def test_a_function_that_never_returns_fails_its_item_and_ends_its_worker(
    backend: Backend, queue: Queue, tmp_path: Path
) -> None:
    # The others take no time at all, so that a stall does not make one of them overdue.
    plan = plan_for(
        backend, tmp_path, function="hang_on_7", seconds=0.0, timeout_seconds=2.0, failures_max=1
    )
    publish(plan, queue, 20)

    with life(work, plan, log=tmp_path / "log") as first:
        assert first.wait() == 75
    stats = queue.stats()
    assert (stats.leased, stats.dead, stats.done) == (0, 1, 7), "The rest went back at once."
    with life(work, plan, log=tmp_path / "log") as second:
        assert second.wait() == 0

    [letter] = queue.dead_letters()
    assert letter.item.key == "item-00007"
    assert "The function did not return within 2 s." in letter.errors[-1]
    assert "The function did not return within 2 s: exiting." in first.output
    assert set(results_of(plan)) == set(numbers(20)) - {"item-00007"}


@on_queues("processes", "halves", "counts")
def test_a_batch_that_never_returns_is_halved_until_its_item_is_found(
    backend: Backend, queue: Queue, tmp_path: Path
) -> None:
    plan = plan_for(
        backend,
        tmp_path,
        function="hang_on_7",
        batch=True,
        seconds=0.0,
        chunk=8,
        lease_seconds=0.6,
        timeout_seconds=2.0,
        failures_max=1,
    )
    publish(plan, queue, 10)

    codes = []
    while 0 not in codes:
        with life(work, plan, log=tmp_path / "log") as one:
            codes.append(one.wait())
        assert len(codes) < 12, "The item is never found."

    assert [letter.item.key for letter in queue.dead_letters()] == ["item-00007"]
    assert set(results_of(plan)) == set(numbers(10)) - {"item-00007"}


@on_queues("processes", "counts")
def test_what_a_hanging_worker_has_not_begun_is_released_long_before_the_deadline(
    backend: Backend, queue: Queue, tmp_path: Path
) -> None:
    plan = plan_for(backend, tmp_path, function="hang_on_7", lease_seconds=3600, grace_seconds=3600)
    publish(plan, queue, 20)
    with life(work, plan, log=tmp_path / "log") as one:
        eventually(lambda: len(begun(plan)) == 8, "it hangs")
        one.signal(signal.SIGTERM)

        eventually(lambda: queue.stats().leased == 1, "the others are released")


@on_queues("processes", "counts")
def test_a_function_that_never_returns_does_not_keep_its_worker_past_the_deadline(
    backend: Backend, queue: Queue, tmp_path: Path
) -> None:
    plan = plan_for(backend, tmp_path, function="hang_on_7", **SHORT_BUDGET)
    publish(plan, queue, 20)
    with life(work, plan, log=tmp_path / "log") as one:
        eventually(lambda: len(begun(plan)) == 8, "it hangs")
        one.signal(signal.SIGTERM)

        assert one.wait() == 75

    stats = queue.stats()
    assert (stats.ready, stats.leased, stats.dead, stats.done) == (13, 0, 0, 7)
    lease = queue.claim(20, LeaseTerms(worker="other"))
    assert lease is not None
    assert {item.failures for item in lease.items} == {0}, "A deadline is nobody's fault."


@pytest.mark.parametrize(
    ("seconds", "grace", "finishes"),
    [
        pytest.param(0.1, {"grace_seconds": 3600.0}, True, id="fits"),
        pytest.param(3.0, SHORT_BUDGET, False, id="does not fit"),
    ],
)
@on_queues("processes", "counts")
def test_sigterm_amid_slow_items_gives_the_rest_to_another_worker(
    backend: Backend,
    queue: Queue,
    tmp_path: Path,
    seconds: float,
    grace: dict[str, Any],
    finishes: bool,
) -> None:
    # No lease expires here: what the other worker gets was released.
    plan = plan_for(backend, tmp_path, lease_seconds=3600, chunk=10)
    slow = dataclasses.replace(plan, function="hold_2", seconds=seconds, **grace)
    publish(plan, queue, 10)
    with life(work, slow, log=tmp_path / "slow") as evicted:
        eventually(lambda: len(begun(plan)) == 3, "two items are done and the third has begun")
        with life(work, plan, log=tmp_path / "quick") as other:
            evicted.signal(signal.SIGTERM)
            if finishes:
                eventually(lambda: len(begun(plan)) == 10, "the other worker did the rest")
                (tmp_path / "go-on").touch()

            assert evicted.wait() == 75
            assert other.wait() == 0

    by = {key: value["by"] for key, value in results_of(plan).items()}
    assert len({by["item-00000"], by["item-00001"]}) == 1
    assert (by["item-00002"] == by["item-00001"]) is finishes
    assert_each_once(plan, 10)


@pytest.mark.needs("postgres")
def test_a_database_that_crashes_under_load_costs_no_item_and_no_worker(tmp_path: Path) -> None:
    from tests.servers.postgres import running_postgres

    with running_postgres() as server, ExitStack() as stack:
        url = server.new_database()
        plan = Plan(queue=url, sink=url, computed=tmp_path / "computed", lease_seconds=5.0)
        with contextlib.closing(open_queue(url)) as queue:
            publish(plan, queue, 1_000)
        crew = [stack.enter_context(life(work, plan, log=tmp_path / "log")) for _ in range(3)]

        def crash_after(count: int) -> None:
            eventually(lambda: len(begun(plan)) > count, f"{count} items have begun")
            server.stop()
            time.sleep(1.0)
            server.start()

        crash_after(100)
        crash_after(400)
        assert [one.wait() for one in crew] == [0, 0, 0]

        assert_each_once(plan, 1_000)
        print(f"recomputed {(len(begun(plan)) - 1_000) / 1_000:.1%}")
