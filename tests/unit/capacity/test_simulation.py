"""The simulation: exact without interruptions, equal to the plain loop, honest books, no growth."""

import math
import random
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from outlast.capacity.simulation.lifetimes import ExponentialLifetimes, Floats, WeibullLifetimes
from outlast.capacity.simulation.model import MachineSupply, RestartBackoff, SimulatedJob
from outlast.capacity.simulation.simulate import BATCH_RUNS, SimulationOutcomes, simulate
from tests.unit.capacity.event_loop import endless, exponential_lifetimes, run_events

HOUR = 3600.0
JOB = SimulatedJob(
    work_seconds=38 * HOUR, interval_seconds=1200, save_seconds=20, restart_seconds=120
)
SPOT = MachineSupply(
    lifetimes=ExponentialLifetimes(3 * HOUR),
    announced_share=0.75,
    kept_share=0.5,
    leave_seconds=15,
    first_wait_seconds=300,
    wait_seconds=300,
    backoff=RestartBackoff(),
)


class Script:
    """Lifetimes in a given order; after the last, machines live for ever."""

    mean_seconds = math.nan

    def __init__(self, lifetimes: list[float]) -> None:
        self._lifetimes = iter(lifetimes)

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        return np.full(count, next(self._lifetimes, math.inf))


def one(job: SimulatedJob, supply: MachineSupply) -> SimulationOutcomes:
    [outcomes] = simulate(job, supply, runs=1, seed=0)
    return outcomes


def test_zero_interruptions_give_exactly_work_and_saves() -> None:
    for interval, save in ((1200.0, 20.0), (777.7, 3.3), (1e9, 5.0), (0.1, 0.003)):
        job = SimulatedJob(work_seconds=38 * HOUR, interval_seconds=interval, save_seconds=save)

        outcomes = one(job, MachineSupply())

        assert float(outcomes.elapsed_seconds[0]) == 38 * HOUR + job.saves * save


@given(
    work=st.floats(100, 50_000),
    interval=st.floats(20, 60_000),
    save=st.floats(0, 300),
    lag=st.floats(0, 400),
    restart=st.floats(0, 300),
    leave=st.floats(0, 30),
    is_announced=st.booleans(),
    lifetimes=st.lists(st.floats(1, 20_000), max_size=12),
)
@hypothesis_settings(max_examples=300, derandomize=True)
def test_on_the_same_lifetimes_it_equals_the_plain_loop(
    work: float,
    interval: float,
    save: float,
    lag: float,
    restart: float,
    leave: float,
    is_announced: bool,
    lifetimes: list[float],
) -> None:
    job = SimulatedJob(
        work_seconds=work,
        interval_seconds=interval,
        save_seconds=save,
        durable_seconds=save + lag,
        restart_seconds=restart,
    )
    # A loss at the very moment of a save may fall on either side of it.
    lifetimes = [seconds + math.pi / 31 for seconds in lifetimes]
    share = float(is_announced)
    supply = MachineSupply(
        lifetimes=Script(lifetimes),
        announced_share=share,
        kept_share=share,
        leave_seconds=leave,
        backoff=RestartBackoff(),
    )

    outcomes = one(job, supply)

    script = iter([*lifetimes, math.inf])
    plain = run_events(job, supply, script, random.Random(0))
    assert float(outcomes.redone_seconds[0]) == pytest.approx(plain.redone, abs=1e-4)
    assert float(outcomes.elapsed_seconds[0]) == pytest.approx(plain.elapsed, abs=1e-4)
    assert float(outcomes.paid_seconds[0]) == pytest.approx(plain.paid, abs=1e-4)
    assert float(outcomes.save_seconds[0]) == pytest.approx(plain.save, abs=1e-4)
    assert int(outcomes.interruptions[0]) == plain.interruptions


def test_drawn_anew_it_agrees_with_the_plain_loop_in_the_mean() -> None:
    chance = random.Random(5)
    runs = 1500
    lifetimes = exponential_lifetimes(3 * HOUR, chance)
    plain = [run_events(JOB, SPOT, lifetimes, chance).elapsed for _ in range(runs)]

    [outcomes] = simulate(JOB, SPOT, runs=10_000, seed=1)

    error = float(np.std(plain)) * math.sqrt(1 / runs + 1 / 10_000)
    assert abs(float(outcomes.elapsed_seconds.mean()) - float(np.mean(plain))) < 4 * error


@pytest.mark.parametrize(
    "supply",
    [
        SPOT,
        MachineSupply(lifetimes=WeibullLifetimes(0.6, 2 * HOUR), wait_seconds=60),
        MachineSupply(lease_seconds=7 * HOUR, wait_seconds=900, first_wait_seconds=900),
        MachineSupply(
            lifetimes=ExponentialLifetimes(2 * HOUR),
            first_wait_seconds=300,
            wait_seconds=300,
            patience_seconds=600,
        ),
        MachineSupply(
            lifetimes=ExponentialLifetimes(2 * HOUR),
            first_wait_seconds=300,
            wait_seconds=300,
            patience_seconds=600,
            fallback_wait_seconds=HOUR,
            fallback_lease_seconds=9 * HOUR,
        ),
    ],
    ids=["spot", "early losses", "leased", "hybrid", "hybrid with leases"],
)
def test_the_books_balance(supply: MachineSupply) -> None:
    [outcomes] = simulate(JOB, supply, runs=2000, seed=3)

    spent = (
        JOB.work_seconds
        + outcomes.redone_seconds
        + outcomes.save_seconds
        + outcomes.restart_seconds
        + outcomes.leave_seconds
    )
    assert outcomes.finished.all()
    np.testing.assert_allclose(outcomes.paid_seconds, spent, rtol=1e-9)
    assert (outcomes.fallback_seconds <= outcomes.paid_seconds + 1e-6).all()
    assert (outcomes.redone_seconds >= -1e-6).all()


def test_a_lease_loses_nothing() -> None:
    supply = MachineSupply(lease_seconds=7 * HOUR, leave_seconds=30)

    outcomes = one(JOB, supply)

    assert float(outcomes.redone_seconds[0]) == 0
    assert int(outcomes.interruptions[0]) == 5


def test_a_fallback_machine_stays_until_the_work_is_done() -> None:
    supply = MachineSupply(
        lifetimes=ExponentialLifetimes(HOUR),
        first_wait_seconds=1e6,
        wait_seconds=1e6,
        patience_seconds=600,
    )

    [outcomes] = simulate(JOB, supply, runs=500, seed=1)
    at_once = outcomes.interruptions == 0

    assert at_once.mean() > 0.99
    undisturbed = JOB.uninterrupted_seconds + JOB.restart_seconds
    np.testing.assert_allclose(outcomes.fallback_seconds[at_once], undisturbed)
    np.testing.assert_allclose(outcomes.wait_seconds[at_once], 600.0)


def test_a_fallback_machine_is_waited_for_and_ends_with_its_lease() -> None:
    supply = MachineSupply(
        lifetimes=ExponentialLifetimes(HOUR),
        first_wait_seconds=1e9,
        wait_seconds=1e9,
        patience_seconds=600,
        fallback_wait_seconds=2 * HOUR,
        fallback_lease_seconds=10 * HOUR,
    )

    [outcomes] = simulate(JOB, supply, runs=2000, seed=1)

    # 38 h of work, their saves and a start on each machine need four leases of ten hours.
    np.testing.assert_array_equal(outcomes.interruptions, 3)
    np.testing.assert_array_equal(outcomes.redone_seconds, 0)
    np.testing.assert_allclose(outcomes.fallback_seconds, outcomes.paid_seconds)
    waits = outcomes.wait_seconds - 4 * 600
    assert float(waits.min()) > 0
    assert float(waits.mean()) == pytest.approx(4 * 2 * HOUR, rel=0.05)


def test_the_back_off_doubles_to_ten_minutes() -> None:
    waits = [RestartBackoff().seconds(lost) for lost in range(1, 10)]

    assert waits == [10, 20, 40, 80, 160, 320, 600, 600, 600]
    assert RestartBackoff().seconds(5000) == 600


def test_from_the_seventh_eviction_on_a_job_waits_ten_minutes_each_time() -> None:
    supply = MachineSupply(lifetimes=Script([HOUR] * 9), backoff=RestartBackoff())

    outcomes = one(JOB, supply)

    assert float(outcomes.wait_seconds[0]) == 10 + 20 + 40 + 80 + 160 + 320 + 3 * 600


def test_the_same_seed_gives_the_same_numbers() -> None:
    runs = BATCH_RUNS + 100

    first = [batch.elapsed_seconds for batch in simulate(JOB, SPOT, runs=runs, seed=9)]
    again = [batch.elapsed_seconds for batch in simulate(JOB, SPOT, runs=runs, seed=9)]
    other = [batch.elapsed_seconds for batch in simulate(JOB, SPOT, runs=runs, seed=10)]

    assert [part.size for part in first] == [BATCH_RUNS, 100]
    np.testing.assert_array_equal(np.concatenate(first), np.concatenate(again))
    assert not np.array_equal(np.concatenate(first), np.concatenate(other))


def test_what_never_gets_done_is_given_up_at_the_horizon() -> None:
    job = SimulatedJob(work_seconds=10 * HOUR)
    supply = MachineSupply(lifetimes=ExponentialLifetimes(0.5 * HOUR))

    [outcomes] = simulate(job, supply, runs=200, seed=1, horizon_seconds=100 * HOUR)

    assert not outcomes.finished.any()
    assert (outcomes.elapsed_seconds > 100 * HOUR).all()


def test_memory_does_not_grow_with_the_runs() -> None:
    def peak(runs: int) -> int:
        tracemalloc.start()
        for batch in simulate(JOB, SPOT, runs=runs, seed=1):
            float(batch.elapsed_seconds.sum())
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(BATCH_RUNS)
    assert peak(8 * BATCH_RUNS) < 1.3 * peak(2 * BATCH_RUNS)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda: SimulatedJob(work_seconds=-1), "work_seconds is -1"),
        (
            lambda: SimulatedJob(work_seconds=1, interval_seconds=0),
            "interval_seconds: expected a number above 0, got 0",
        ),
        (lambda: SimulatedJob(work_seconds=1, save_seconds=math.nan), "save_seconds is nan"),
        (lambda: MachineSupply(kept_share=2.0), "expected a share from 0 to 1"),
        (lambda: MachineSupply(kept_share=0.5), "only announced interruptions can keep"),
        (lambda: MachineSupply(wait_seconds=-1), "wait_seconds is -1"),
        (lambda: MachineSupply(lease_seconds=0), "lease_seconds: expected a number above 0, got 0"),
        (
            lambda: MachineSupply(fallback_lease_seconds=0),
            "fallback_lease_seconds: expected a number above 0, got 0",
        ),
        (lambda: MachineSupply(fallback_wait_seconds=-1), "fallback_wait_seconds is -1"),
        (
            lambda: list(simulate(JOB, SPOT, runs=0, seed=0)),
            "runs: expected a whole number of at least 1, got 0",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_numbers_that_cannot_be_are_refused(wrong: object, words: str) -> None:
    assert callable(wrong)
    with pytest.raises(ValueError, match=words):
        wrong()


def test_an_endless_draw_goes_on() -> None:
    numbers = endless(lambda: 1.0)

    assert [next(numbers) for _ in range(3)] == [1.0, 1.0, 1.0]
