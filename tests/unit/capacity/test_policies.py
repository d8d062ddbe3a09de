"""Intervals on traces: the books balance, the oracle is never beaten, ours is near the best."""

import random
from itertools import pairwise

import numpy as np
import pytest

from outlast._base.interval import IntervalPolicy, Observed, SaveCost, choose_interval, young
from outlast.capacity.simulation.policies import (
    CheckpointCosts,
    PolicyOutcome,
    best_fixed,
    learned_policy,
    replay_adaptive,
    replay_fixed,
    replay_oracle,
)
from outlast.capacity.simulation.replay import SessionTable, TracePool
from outlast.capacity.simulation.traces import MachinePeriod, parse_trace
from tests.unit.capacity.generated_traces import counts_trace, nodes_trace, steps_trace

HOUR = 3600.0
TRACES = {
    "steps": parse_trace(steps_trace(7, steps=20_000), name="steps"),
    "nodes": parse_trace(nodes_trace(7, hours=36), name="nodes"),
    "counts": parse_trace(counts_trace(7, hours=30), name="counts"),
}


def sessions_in(name: str, rounds: int = 3) -> SessionTable:
    """The machines of many runs: from every hour of a pool, and twice a day of the long trace."""
    pool = TracePool(TRACES[name])
    every, rounds = (12 * HOUR, 1) if name == "steps" else (HOUR, rounds)
    return SessionTable.of(
        [run for seed in range(rounds) for run in pool.follow_all(every_seconds=every, seed=seed)]
    )


def test_a_run_follows_the_machines_that_are_there() -> None:
    text = '{"metadata": {"gap_seconds": 600}, "data": [0, 1, 1, 0, 1, 0, 1, 1]}'
    pool = TracePool(parse_trace(text, name="t"))

    sessions = pool.follow(900, seed=0)

    assert [(s.start_seconds, s.end_seconds, s.lost) for s in sessions] == [
        (900, 1800, True),
        (2400, 3000, True),
        (3600, 4800, False),
    ]


def test_in_a_pool_the_next_machine_is_taken_at_once() -> None:
    pool = TracePool(TRACES["nodes"])

    sessions = pool.follow(0.0, seed=4)

    gaps = [after.start_seconds - before.end_seconds for before, after in pairwise(sessions)]
    assert sum(gap == 0 for gap in gaps) > 0.8 * len(gaps)
    assert pool.follow(0.0, seed=4) == sessions
    taken = {pool.take(0.0, random.Random(seed)).end_seconds for seed in range(30)}
    assert len(taken) > 1


def test_one_loss_worked_by_hand() -> None:
    sessions = SessionTable.of([[MachinePeriod(start_seconds=0, end_seconds=1000, lost=True)]])
    costs = CheckpointCosts(save_seconds=20, restart_seconds=100)
    lossy = sessions.unannounced(1.0, seed=0)

    fixed = replay_fixed(sessions, lossy, costs, 200)
    spared = replay_fixed(sessions, sessions.unannounced(0.0, seed=0), costs, 200)
    oracle = replay_oracle(sessions, lossy, costs)

    # 900 s are 4 cycles of 220 s and 20 s more.
    assert float(fixed.useful_seconds[0]) == 800
    assert float(fixed.lost_seconds[0]) == 20
    assert float(fixed.save_seconds[0]) == 80
    assert float(spared.useful_seconds[0]) == 820
    assert float(oracle.useful_seconds[0]) == 880


@pytest.mark.parametrize("counts_current", [False, True])
def test_ours_is_the_runtimes_choice_save_by_save(counts_current: bool) -> None:
    lengths = [700.0, 5000.0, 20_000.0, 3000.0, 9000.0]
    told = [False, False, True, False, False]
    sessions = SessionTable.of(
        [[MachinePeriod(start_seconds=0, end_seconds=s, lost=True) for s in lengths]]
    )
    costs = CheckpointCosts(save_seconds=30, restart_seconds=120)
    lossy = np.array([[not one for one in told]])

    replayed = replay_adaptive(
        sessions, lossy, costs, IntervalPolicy(), counts_current=counts_current
    )

    useful, running, losses, noticed, is_known = 0.0, 0.0, 0, 0, False
    for seconds, is_announced in zip(lengths, told, strict=True):
        at, saved, usable = 0.0, 0.0, seconds - 120
        while True:
            observed = Observed(
                running_seconds=running + (at if counts_current else 0.0),
                unannounced=losses,
                announced=noticed,
            )
            cost = SaveCost(stall_seconds=30, durable_seconds=30) if is_known else None
            interval = choose_interval(
                IntervalPolicy(), cost=cost, observed=observed, age_seconds=at
            ).seconds
            assert interval is not None
            if at + interval + 30 > usable:
                break
            saved += interval
            at += interval + 30
            is_known = True
        useful += saved + (min(usable - at, interval) if is_announced else 0.0)
        running += usable
        losses += not is_announced
        noticed += is_announced
    # The replay looks at the interval again only when it may have moved by half a percent.
    assert float(replayed.useful_seconds[0]) == pytest.approx(useful, rel=0.005)


@pytest.mark.parametrize("name", TRACES)
@pytest.mark.parametrize("share", [1.0, 0.25])
@pytest.mark.parametrize("save", [5.0, 60.0, 300.0])
def test_the_books_balance_and_the_oracle_is_never_beaten(
    name: str, share: float, save: float
) -> None:
    sessions = sessions_in(name, rounds=1)
    lossy = sessions.unannounced(share, seed=1)
    costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
    oracle = replay_oracle(sessions, lossy, costs)

    def check(replayed: PolicyOutcome) -> None:
        parts = (
            replayed.useful_seconds
            + replayed.lost_seconds
            + replayed.save_seconds
            + replayed.restart_seconds
        )
        np.testing.assert_allclose(parts, replayed.machine_seconds, rtol=1e-9)
        assert (replayed.useful_seconds <= oracle.useful_seconds + 1e-6).all()
        assert (replayed.lost_seconds >= -1e-6).all()

    _, best = best_fixed(sessions, lossy, costs)
    check(best)
    check(replay_fixed(sessions, lossy, costs, 600))
    check(replay_adaptive(sessions, lossy, costs, IntervalPolicy()))
    check(replay_adaptive(sessions, lossy, costs, IntervalPolicy(), knows_cost=True))
    check(oracle)


@pytest.mark.parametrize(("name", "least"), [("nodes", 0.98), ("counts", 0.98), ("steps", 0.98)])
@pytest.mark.parametrize("share", [1.0, 0.25])
@pytest.mark.parametrize("save", [5.0, 60.0, 300.0])
def test_with_a_learned_prior_ours_is_near_the_best_fixed_interval(
    name: str, least: float, share: float, save: float
) -> None:
    sessions = sessions_in(name)
    lossy = sessions.unannounced(share, seed=1)
    costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
    mean = float(sessions.machine_seconds.sum()) / int(sessions.is_lost.sum())

    policy = learned_policy(mean_seconds=mean, unannounced_share=share, save_seconds=save)
    ours = replay_adaptive(sessions, lossy, costs, policy, knows_cost=True)

    _, best = best_fixed(sessions, lossy, costs)
    assert ours.goodput >= least * best.goodput


@pytest.mark.parametrize("factor", [5.0, 0.2])
@pytest.mark.parametrize("save", [5.0, 60.0, 300.0])
def test_given_the_same_wrong_mean_ours_beats_youngs(factor: float, save: float) -> None:
    sessions = sessions_in("steps", rounds=1)
    lossy = sessions.unannounced(1.0, seed=1)
    costs = CheckpointCosts(save_seconds=save, restart_seconds=120)
    mean = float(sessions.machine_seconds.sum()) / int(lossy.sum()) * factor

    policy = IntervalPolicy(
        prior_mean_seconds=mean, prior_unannounced_share=1.0, ceiling_seconds=1e9
    )
    ours = replay_adaptive(sessions, lossy, costs, policy)

    assert ours.goodput > replay_fixed(sessions, lossy, costs, young(save, mean)).goodput


def test_brute_force_finds_the_best_of_many() -> None:
    sessions = sessions_in("counts", rounds=1)
    lossy = sessions.unannounced(1.0, seed=1)
    costs = CheckpointCosts(save_seconds=60, restart_seconds=120)

    interval, best = best_fixed(sessions, lossy, costs)

    for other in np.geomspace(30, 40_000, 60):
        assert replay_fixed(sessions, lossy, costs, float(other)).goodput <= best.goodput * 1.003
    assert 300 < interval < 10_000


def test_shares_and_costs_that_cannot_be_are_refused() -> None:
    sessions = sessions_in("steps", rounds=1)

    with pytest.raises(ValueError, match=r"share: expected a number from 0 to 1, got 1\.5"):
        sessions.unannounced(1.5, seed=0)
    with pytest.raises(ValueError, match="save_seconds is -1"):
        CheckpointCosts(save_seconds=-1, restart_seconds=0)
