"""The exact formulas: against the simulation, against published figures, and at the edges."""

import math
import random

import numpy as np
import pytest

from outlast._base.interval import daly
from outlast.capacity.simulation.lifetimes import (
    EmpiricalLifetimes,
    ExponentialLifetimes,
    LifetimeDistribution,
    WeibullLifetimes,
)
from outlast.capacity.simulation.model import (
    MachineSupply,
    RestartBackoff,
    SimulatedJob,
    long_run_useful_share,
)
from outlast.capacity.simulation.simulate import simulate
from tests.unit.capacity.renewal import NoFormula, expected_seconds

SEED = 20260821
MINUTE, HOUR = 60.0, 3600.0
RUNS = 30_000


def settings(count: int = 60) -> list[tuple[SimulatedJob, MachineSupply]]:
    """Jobs of an hour to a week, means of minutes to days, cheap and dear saves."""
    chance = random.Random(SEED)
    found = []
    for index in range(count):
        work = 10 ** chance.uniform(3.5, 5.6)
        mean = work * 10 ** chance.uniform(-1.4, 1.0)
        save = mean * 10 ** chance.uniform(-4, -0.8)
        restart = mean * chance.choice([0.0, 0.01, 0.1])
        kept = chance.choice([0.0, 0.0, 0.3, 0.75, 1.0])
        law: LifetimeDistribution = ExponentialLifetimes(mean)
        if kept == 0.0 and index % 3:
            law = WeibullLifetimes(shape=chance.uniform(0.5, 2.0), mean_seconds=mean)
        if kept == 0.0 and index % 5 == 0:
            lived = [chance.expovariate(1 / mean) for _ in range(25)]
            law = EmpiricalLifetimes(seconds=lived, ended=[chance.random() < 0.8 for _ in lived])
        job = SimulatedJob(
            work_seconds=work,
            interval_seconds=math.sqrt(2 * save * mean) * chance.uniform(0.5, 2.0),
            save_seconds=save,
            durable_seconds=save * (chance.uniform(1.0, 3.0) if kept == 0.0 else 1.0),
            restart_seconds=restart,
        )
        supply = MachineSupply(
            lifetimes=law,
            announced_share=kept,
            kept_share=kept,
            leave_seconds=min(30.0, mean / 10),
            first_wait_seconds=chance.choice([0.0, 300.0]),
            wait_seconds=chance.choice([0.0, 0.1 * mean]),
        )
        found.append((job, supply))
    return found


@pytest.mark.parametrize(("job", "supply"), settings(), ids=range(60))
def test_simulation_and_formula_agree_within_one_percent(
    job: SimulatedJob, supply: MachineSupply
) -> None:
    exact = expected_seconds(job, supply)

    batches = simulate(job, supply, runs=RUNS, seed=SEED)
    simulated = np.concatenate([batch.elapsed_seconds for batch in batches])

    error = float(simulated.std()) / math.sqrt(RUNS)
    assert float(simulated.mean()) == pytest.approx(exact, rel=0.01)
    # Most of the one percent is chance; what is left beyond chance is far smaller.
    assert abs(float(simulated.mean()) - exact) <= 4.5 * error


@pytest.mark.parametrize(
    ("mean_minutes", "interval_minutes"), [(24 * 60, 116.7), (6 * 60, 56.7), (15, 9.14)]
)
def test_dalys_interval_is_the_published_one(mean_minutes: float, interval_minutes: float) -> None:
    assert daly(5 * MINUTE, mean_minutes * MINUTE) / MINUTE == pytest.approx(
        interval_minutes, abs=0.05
    )


def test_with_random_losses_and_whole_segments_it_is_the_closed_form() -> None:
    mean, restart, wait = 2 * HOUR, 200.0, 500.0
    job = SimulatedJob(
        work_seconds=20_000, interval_seconds=2000, save_seconds=50, restart_seconds=restart
    )
    supply = MachineSupply(lifetimes=ExponentialLifetimes(mean), wait_seconds=wait)

    # Each segment takes (M + D) exp(R/M) (exp(s/M) - 1), and the first start adds its own.
    segment = (mean + wait) * math.exp(restart / mean) * math.expm1(2050 / mean)
    start = (mean + wait) * math.expm1(restart / mean)

    assert expected_seconds(job, supply) == pytest.approx(start + 10 * segment, rel=1e-9)


def test_the_two_ways_meet_where_nothing_is_kept() -> None:
    job = SimulatedJob(
        work_seconds=90_000, interval_seconds=3100, save_seconds=70, restart_seconds=100
    )
    lossy = MachineSupply(lifetimes=ExponentialLifetimes(3 * HOUR), wait_seconds=60)
    nearly = MachineSupply(
        lifetimes=ExponentialLifetimes(3 * HOUR),
        wait_seconds=60,
        announced_share=1e-9,
        kept_share=1e-9,
    )

    assert expected_seconds(job, nearly) == pytest.approx(expected_seconds(job, lossy), rel=1e-4)


def test_without_interruptions_it_is_exactly_work_and_saves() -> None:
    job = SimulatedJob(work_seconds=38 * HOUR, interval_seconds=1200, save_seconds=20)

    assert expected_seconds(job, MachineSupply()) == 38 * HOUR + 114 * 20


def test_a_long_run_comes_down_to_the_long_run_useful_share() -> None:
    job = SimulatedJob(
        work_seconds=4000 * HOUR, interval_seconds=1500, save_seconds=30, restart_seconds=120
    )
    supply = MachineSupply(
        lifetimes=ExponentialLifetimes(2 * HOUR),
        announced_share=0.5,
        kept_share=0.5,
        leave_seconds=15,
        wait_seconds=300,
    )

    share = job.work_seconds / expected_seconds(job, supply)

    assert long_run_useful_share(job, supply) == pytest.approx(share, rel=1e-3)


def test_work_without_saves_is_all_useful_where_nothing_is_lost() -> None:
    assert long_run_useful_share(SimulatedJob(work_seconds=30 * HOUR), MachineSupply()) == 1.0


def test_a_save_longer_than_machines_live_never_gets_ahead() -> None:
    job = SimulatedJob(
        work_seconds=38 * HOUR,
        interval_seconds=HOUR,
        save_seconds=60,
        durable_seconds=30 * HOUR,
        restart_seconds=HOUR,
    )

    assert long_run_useful_share(job, MachineSupply(lifetimes=ExponentialLifetimes(HOUR))) < 1e-9


@pytest.mark.parametrize(
    "supply",
    [
        MachineSupply(lifetimes=ExponentialLifetimes(HOUR), backoff=RestartBackoff()),
        MachineSupply(lease_seconds=HOUR),
        MachineSupply(lifetimes=ExponentialLifetimes(HOUR), wait_seconds=60, patience_seconds=600),
        MachineSupply(lifetimes=WeibullLifetimes(0.7, HOUR), announced_share=0.5, kept_share=0.5),
    ],
    ids=["back-off", "lease", "fallback", "kept with a Weibull"],
)
def test_what_has_no_formula_is_refused(supply: MachineSupply) -> None:
    with pytest.raises(NoFormula, match=r"no exact formula|exact formula only"):
        expected_seconds(SimulatedJob(work_seconds=HOUR), supply)
