"""The bars on real traces of GPU Spot pools. They are outside the project, see `tests.parts`.

`generated_traces` exercises the same code everywhere; here the numbers are those of real pools.
"""

from datetime import date
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from outlast._base.interval import IntervalPolicy, young
from outlast.capacity.pricing.catalog import read_catalog
from outlast.capacity.pricing.prices import built_in_prices
from outlast.capacity.simulation.age_shape import measure_age_shape
from outlast.capacity.simulation.deadlines import DeadlinePolicy, DeadlineTask, replay_deadline
from outlast.capacity.simulation.policies import (
    CEILING_SAVES,
    CheckpointCosts,
    best_fixed,
    learned_policy,
    replay_adaptive,
    replay_fixed,
)
from outlast.capacity.simulation.replay import SessionTable, TracePool
from outlast.capacity.simulation.traces import TimestampRepair, Trace, read_trace
from tests.parts import TEST_DATA

DATA = TEST_DATA or Path("/nonexistent")
HOUR = 3600.0
FILES = {
    "a100": "bamboo-a100x1-east1b.txt",
    "v100": "bamboo-v100x1-east1c.txt",
    "p3": "bamboo-p3-trace.csv",
    "g4dn": "bamboo-g4dn-trace.csv",
    "aws": "spot-traces-us-east-1f_v100_1.json",
}
EVERY_HOUR = "aws from every hour"
"""All runs of the long trace take minutes; the others start every eight hours."""

COLD_BELOW = {
    ("a100", 300.0, 0.25),
    ("g4dn", 60.0, 1.0),
    ("g4dn", 300.0, 1.0),
    ("p3", 60.0, 1.0),
    ("p3", 300.0, 1.0),
}
"""Where a run that starts with no idea of its pool stays below 98 %, by up to 3 points."""

pytestmark = pytest.mark.needs("traces")


@cache
def trace(name: str) -> Trace:
    return read_trace(DATA / FILES[name])


@cache
def sessions(name: str) -> SessionTable:
    """Runs from every hour of the trace; in a pool, with 40 choices among its machines each."""
    if name == "aws":
        runs = sessions(EVERY_HOUR)
        return SessionTable(seconds=runs.seconds[::8], is_lost=runs.is_lost[::8])
    pool = TracePool(trace("aws" if name == EVERY_HOUR else name))
    rounds = 1 if name == EVERY_HOUR else 40
    return SessionTable.of(
        [run for seed in range(rounds) for run in pool.follow_all(every_seconds=HOUR, seed=seed)]
    )


@pytest.mark.parametrize(
    ("name", "losses", "mean_hours"),
    [("a100", 154, 10.05), ("v100", 518, 3.56), ("p3", 167, 1.64), ("g4dn", 74, 1.83),
     ("aws", 285, 2.26)],
)  # fmt: skip
def test_a_trace_has_the_losses_that_were_counted_in_it(
    name: str, losses: int, mean_hours: float
) -> None:
    assert trace(name).losses == losses
    assert trace(name).mean_seconds / HOUR == pytest.approx(mean_hours, abs=0.01)


def test_the_times_of_one_pool_go_backwards_and_either_repair_is_told_of() -> None:
    [told] = trace("v100").repairs
    sorted_ = read_trace(DATA / FILES["v100"], repair=TimestampRepair.SORT)

    assert told.startswith("15 of 1477 times")
    assert sorted_.mean_seconds / HOUR == pytest.approx(3.2, abs=0.05)


CASES = list(product(FILES, (5.0, 60.0, 300.0), (1.0, 0.25)))
LONG = [case for case in CASES if case[0] == "aws"]
ALL_CASES = [
    # Saves of 5 s on the long trace take most of the time; those from every hour include them.
    *(case for case in CASES if case not in LONG or case[1] > 5.0),
    *(pytest.param(EVERY_HOUR, *rest, marks=pytest.mark.soak) for _, *rest in LONG),
]


@cache
def lossy(name: str, share: float) -> NDArray[np.bool_]:
    return sessions(name).unannounced(share, seed=3)


@cache
def best_goodput(name: str, save: float, share: float) -> float:
    costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
    _, best = best_fixed(sessions(name), lossy(name, share), costs)
    return best.goodput


def our_goodput(name: str, save: float, share: float, policy: IntervalPolicy) -> float:
    costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
    return replay_adaptive(
        sessions(name), lossy(name, share), costs, policy, knows_cost=True
    ).goodput


@pytest.mark.parametrize(("name", "save", "share"), ALL_CASES)
def test_with_a_learned_prior_ours_reaches_98_percent_of_the_best_fixed_interval(
    name: str, save: float, share: float
) -> None:
    runs = sessions(name)
    mean = float(runs.machine_seconds.sum()) / int(runs.is_lost.sum())
    policy = learned_policy(
        mean_seconds=mean,
        unannounced_share=share,
        save_seconds=save,
        age_shape=measure_age_shape(runs.lives),
    )

    ours = our_goodput(name, save, share, policy)

    assert ours >= 0.98 * best_goodput(name, save, share)


@pytest.mark.parametrize(("name", "save", "share"), ALL_CASES)
def test_without_any_knowledge_of_the_pool_it_is_not_far_behind(
    name: str, save: float, share: float
) -> None:
    policy = IntervalPolicy(ceiling_seconds=max(HOUR, CEILING_SAVES * save))

    ours = our_goodput(name, save, share, policy)

    least = 0.95 if (name, save, share) in COLD_BELOW else 0.98
    assert ours >= least * best_goodput(name, save, share)


@pytest.mark.soak
def test_given_the_same_wrong_mean_ours_beats_youngs_nearly_always() -> None:
    ratios = []
    for (name, save, share), factor in product(CASES, (5.0, 0.2)):
        runs, unannounced = sessions(name), lossy(name, share)
        mean = float(runs.machine_seconds.sum()) / int(runs.is_lost.sum()) * factor
        policy = IntervalPolicy(
            prior_mean_seconds=mean, prior_unannounced_share=share, ceiling_seconds=1e9
        )
        interval = young(save, mean / share)
        costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
        youngs = replay_fixed(runs, unannounced, costs, interval).goodput
        ours = replay_adaptive(runs, unannounced, costs, policy, knows_cost=True).goodput
        ratios.append(ours / youngs)

    # Where it loses, the mean that is 5 x too long happens to suit the trace better than the right.
    assert sum(ratio > 1 for ratio in ratios) >= 56
    assert min(ratios) > 0.99


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("save", [5.0, 60.0, 300.0])
def test_uniform_progress_misses_no_feasible_deadline_and_costs_no_more_than_on_demand(
    name: str, save: float
) -> None:
    pool = TracePool(trace(name))
    prices = {"spot_price": 0.6, "on_demand_price": 1.0}
    for work_hours, factor in ((4, 1.1), (4, 1.5), (4, 2.0), (8, 1.25)):
        task = DeadlineTask(
            work_seconds=work_hours * HOUR,
            deadline_seconds=work_hours * HOUR * factor + 600,
            interval_seconds=young(save, trace(name).mean_seconds),
            save_seconds=save,
            changeover_seconds=120,
        )
        if not task.is_feasible:
            continue
        last = int((trace(name).seconds - task.deadline_seconds) // HOUR)
        uniform = on_demand = 0.0
        for hour in range(0, last + 1, 5 if name == "aws" else 1):
            kept = replay_deadline(
                pool, task, DeadlinePolicy.UNIFORM, start_seconds=hour * HOUR, seed=1
            )
            always = replay_deadline(
                pool, task, DeadlinePolicy.ON_DEMAND, start_seconds=hour * HOUR, seed=1
            )
            assert kept.is_in_time
            uniform += kept.cost(**prices)
            on_demand += always.cost(**prices)
        # A deadline so tight that Spot is never safe costs the same as on-demand.
        assert uniform <= on_demand * (1 + 1e-9)
        if factor >= 1.5:
            assert uniform < 0.95 * on_demand


def test_the_built_in_prices_are_those_of_the_catalogue() -> None:
    found = read_catalog(
        DATA / "gcp_gpu_prices_20260821.csv", dated=date(2026, 8, 21), source="any"
    )

    amounts = {row.key: row.amount for row in found.rows}
    # The file has the accelerated machines alone; the table has CPU machines and TPUs as well.
    machines = {row.machine for row in found.rows if row.count and row.machine[:6] != "nvidia"}
    shown = {row.key: row.amount for row in built_in_prices().rows if row.machine in machines}
    assert {key: amounts[key] for key in amounts if key[0] in machines} == shown
