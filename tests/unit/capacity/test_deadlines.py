"""Deadlines: a feasible one is never missed, and Spot is used for what it is worth."""

import math
import random

import pytest

from outlast.capacity.simulation.deadlines import (
    DeadlineOutcome,
    DeadlinePolicy,
    DeadlineTask,
    cost_bound,
    replay_deadline,
)
from outlast.capacity.simulation.replay import TracePool
from outlast.capacity.simulation.traces import parse_trace
from tests.unit.capacity.generated_traces import counts_trace, nodes_trace, steps_trace

HOUR = 3600.0
POOLS = {
    "steps": TracePool(parse_trace(steps_trace(3, steps=3000), name="steps")),
    "nodes": TracePool(parse_trace(nodes_trace(3, hours=60, nodes=3, mean_hours=1), name="nodes")),
    "counts": TracePool(parse_trace(counts_trace(3, hours=48), name="counts")),
}


def task_of(
    *, work_hours: float = 6, factor: float = 1.5, save: float = 60, changeover: float = 120
) -> DeadlineTask:
    return DeadlineTask(
        work_seconds=work_hours * HOUR,
        deadline_seconds=work_hours * HOUR * factor + 3 * changeover,
        interval_seconds=1200,
        save_seconds=save,
        changeover_seconds=changeover,
    )


def kept_by(
    policy: DeadlinePolicy, pool: TracePool, task: DeadlineTask, start: float = 0.0
) -> DeadlineOutcome:
    return replay_deadline(pool, task, policy, start_seconds=start, seed=1)


@pytest.mark.parametrize("name", POOLS)
def test_a_feasible_deadline_is_never_missed(name: str) -> None:
    pool = POOLS[name]
    chance = random.Random(17)
    tried = 0
    for _ in range(400):
        task = DeadlineTask(
            work_seconds=chance.uniform(0.2, 12) * HOUR,
            deadline_seconds=chance.uniform(0.3, 20) * HOUR,
            interval_seconds=chance.uniform(60, 6000),
            save_seconds=chance.choice([0.0, 5.0, 60.0, 300.0]),
            changeover_seconds=chance.choice([0.0, 30.0, 120.0, 900.0]),
        )
        if not task.is_feasible:
            continue
        tried += 1
        start = chance.uniform(0, pool.trace.seconds)
        for policy in DeadlinePolicy:
            assert kept_by(policy, pool, task, start).is_in_time, (task, start, policy)
    assert tried > 100


@pytest.mark.parametrize("name", POOLS)
def test_uniform_progress_is_cheaper_than_always_on_demand(name: str) -> None:
    pool, task = POOLS[name], task_of()
    starts = [index * HOUR for index in range(24)]

    costs = {
        policy: math.fsum(
            kept_by(policy, pool, task, start).cost(spot_price=0.6, on_demand_price=1.0)
            for start in starts
        )
        for policy in DeadlinePolicy
    }

    assert costs[DeadlinePolicy.UNIFORM] < 0.95 * costs[DeadlinePolicy.ON_DEMAND]
    assert costs[DeadlinePolicy.GREEDY] < costs[DeadlinePolicy.ON_DEMAND]


@pytest.mark.parametrize("name", POOLS)
def test_no_policy_beats_the_bound_of_the_oracle(name: str) -> None:
    pool = POOLS[name]
    for hour in range(0, 24, 3):
        for factor in (1.05, 1.5, 3.0):
            task = task_of(factor=factor)
            prices = {"spot_price": 0.6, "on_demand_price": 1.0}
            bound = cost_bound(pool, task, start_seconds=hour * HOUR, **prices)
            for policy in DeadlinePolicy:
                cost = kept_by(policy, pool, task, hour * HOUR).cost(**prices)
                assert bound <= cost + 1e-9


def pool_of(*lives: tuple[float, float], hours: float) -> TracePool:
    """Machines by the hours of their starts and ends."""
    events = [(start, "add", index) for index, (start, _) in enumerate(lives)]
    events += [(end, "remove", index) for index, (_, end) in enumerate(lives)]
    events += [(hours, "add", len(lives))]
    lines = [f"{round(at * 3_600_000)},{what},n{who}" for at, what, who in sorted(events)]
    return TracePool(parse_trace("\n".join(lines), name="lives"))


def test_the_bound_holds_where_waiting_for_a_longer_life_is_cheaper() -> None:
    pool = pool_of((0, 10), (0, 0.1), (0.1, 11.2), hours=26.7)
    task = DeadlineTask(
        work_seconds=9 * HOUR,
        deadline_seconds=26 * HOUR,
        interval_seconds=9 * HOUR,
        save_seconds=1,
        changeover_seconds=2 * HOUR,
    )
    prices = {"spot_price": 0.6, "on_demand_price": 1.0}

    bound = cost_bound(pool, task, start_seconds=0, **prices)
    costs = [
        replay_deadline(pool, task, DeadlinePolicy.GREEDY, start_seconds=0, seed=seed).cost(
            **prices
        )
        for seed in range(8)
    ]

    # One machine does it all, in 9 h, a changeover and a save.
    assert bound == pytest.approx((11 + 1 / 3600) * 0.6)
    assert bound <= min(costs) < 6.7


def test_the_bound_takes_only_machines_that_are_worth_their_changeover() -> None:
    data = [1, 1, 0, 1, 0, 1, 1, 1, 1, 0]
    pool = TracePool(
        parse_trace(f'{{"metadata": {{"gap_seconds": 1000}}, "data": {data}}}', name="t")
    )
    task = DeadlineTask(
        work_seconds=9000,
        deadline_seconds=10_000,
        interval_seconds=500,
        save_seconds=0,
        changeover_seconds=600,
    )

    bound = cost_bound(pool, task, start_seconds=0, spot_price=0.5, on_demand_price=1.0)

    # The lives of 4000 s and 2000 s save more than their 600 s cost, that of 1000 s does not.
    on_spot = 4000 + 2000
    assert bound * HOUR == pytest.approx(on_spot * 0.5 + (9000 - on_spot + 2 * 600) * 1.0)


def test_the_bound_holds_on_random_pools() -> None:
    chance = random.Random(23)
    for _ in range(150):
        lives = []
        for _ in range(chance.randint(1, 12)):
            start = chance.uniform(0, 30)
            lives.append((start, start + chance.choice([0.1, 1, 4, 12]) * chance.uniform(0.5, 1.5)))
        pool = pool_of(*lives, hours=60)
        task = DeadlineTask(
            work_seconds=chance.uniform(0.5, 10) * HOUR,
            deadline_seconds=30 * HOUR,
            interval_seconds=chance.choice([600.0, HOUR, 9 * HOUR]),
            save_seconds=chance.choice([0.0, 60.0]),
            changeover_seconds=chance.choice([0.0, 300.0, 2 * HOUR]),
        )
        prices = {"spot_price": chance.uniform(0.1, 1.1), "on_demand_price": 1.0}
        bound = cost_bound(pool, task, start_seconds=0, **prices)

        for policy in DeadlinePolicy:
            cost = kept_by(policy, pool, task).cost(**prices)
            assert bound <= cost + 1e-9, (lives, task, policy)


def test_always_on_demand_is_one_machine_from_start_to_end() -> None:
    task = task_of(work_hours=6)

    kept = kept_by(DeadlinePolicy.ON_DEMAND, POOLS["steps"], task)

    assert kept.machines == 1
    assert kept.spot_seconds == 0
    assert kept.finish_seconds == 120 + 6 * HOUR + 18 * 60


def test_with_spot_all_the_time_nothing_is_bought_on_demand() -> None:
    always = TracePool(
        parse_trace('{"metadata": {"gap_seconds": 3600}, "data": [1, 1, 1]}', name="t")
    )
    task = task_of(work_hours=2, factor=2)

    for policy in (DeadlinePolicy.GREEDY, DeadlinePolicy.UNIFORM):
        kept = kept_by(policy, always, task)
        assert kept.on_demand_seconds == 0
        assert kept.lost_seconds == 0


def test_with_no_spot_at_all_greedy_waits_for_the_net_and_uniform_starts_at_once() -> None:
    data = [0] * 99 + [1]
    pool = TracePool(
        parse_trace(f'{{"metadata": {{"gap_seconds": 3600}}, "data": {data}}}', name="t")
    )
    task = task_of(work_hours=4, factor=2)

    greedy = kept_by(DeadlinePolicy.GREEDY, pool, task)
    uniform = kept_by(DeadlinePolicy.UNIFORM, pool, task)

    assert greedy.spot_seconds == uniform.spot_seconds == 0
    # The net leaves one changeover to spare.
    assert greedy.finish_seconds == pytest.approx(task.deadline_seconds - 120)
    assert uniform.finish_seconds < 5 * HOUR


def test_a_loss_costs_the_work_since_the_last_save() -> None:
    pool = TracePool(
        parse_trace(
            '{"metadata": {"gap_seconds": 1000}, "data": [1, 1, 0, 1, 1, 1, 1, 1]}', name="t"
        )
    )
    task = DeadlineTask(
        work_seconds=3000,
        deadline_seconds=20_000,
        interval_seconds=500,
        save_seconds=20,
        changeover_seconds=100,
    )

    kept = kept_by(DeadlinePolicy.GREEDY, pool, task)

    # 1900 s are 3 cycles of 520 s and 340 s more; then a wait of 1000 s and the other 1500 s.
    assert kept.lost_seconds == 340
    assert kept.finish_seconds == pytest.approx(3000 + 100 + 1500 + 3 * 20)
    assert kept.spot_seconds == pytest.approx(2000 + 1660)
    assert kept.machines == 2


def test_a_task_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="work_seconds is 0"):
        task_of(work_hours=0)
    with pytest.raises(ValueError, match="save_seconds is -1"):
        task_of(save=-1)
    assert not task_of(factor=0.5).is_feasible
