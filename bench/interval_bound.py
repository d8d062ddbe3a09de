"""How much of the best fixed interval a rule could reach that has to learn from other machines.

The best fixed interval is found afterwards, on the machines that it is judged on. Here, four fifths
of the machines of a trace show a rule how long machines last, and the other fifth judges it:

- the best fixed interval of the four fifths,
- the best sequence of intervals by age for the four fifths, on a grid of 15 s: what a rule would do
  that takes their lifetimes for the truth,
- our rule with the mean time and the shape of the four fifths.

Then machines are drawn from the distribution of lifetimes that fits each trace, as many as it lost,
and judge our rule with exactly that distribution. No rule that does not know the future can do much
better: `test_interval_rule` compares it with all sequences of saves.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from bench.measure import Row
from outlast._base.interval import IntervalPolicy, Observed, SaveCost, choose_interval
from outlast.capacity.simulation.age_shape import LOSSES_MIN, measure_age_shape
from outlast.capacity.simulation.policies import CEILING_SAVES, CheckpointCosts, best_fixed
from outlast.capacity.simulation.replay import SessionTable, TracePool
from outlast.capacity.simulation.traces import Trace, read_trace

FOLDS = 5
RESTART_SECONDS = 120.0
SEED = 1

# A sequence of saves is searched on a grid of this many seconds.
_GRID_SECONDS = 15.0
_INTERVAL_SECONDS_MAX = 10 * 3600.0
_ROUNDS = 20

Life = tuple[float, bool]
Rule = Callable[[float], float]
"""The interval of work at an age."""


def bound_rows(paths: Sequence[Path]) -> Iterator[Row]:
    """One row per cost of a save, over all traces with enough losses."""
    found = [lives_in(path) for path in paths]
    lives = [one for one in found if sum(lost for _, lost in one) >= LOSSES_MIN]
    for save in (60.0, 300.0) if lives else ():
        shares = np.array([shares_of_best(one, save) for one in lives])
        fixed, sequence, ours = (
            f"mean {mean:.1%}, worst {worst:.1%}"
            for mean, worst in zip(shares.mean(axis=0), shares.min(axis=0), strict=True)
        )
        yield Row(
            f"{len(lives)} traces, learned from 4/5 of the machines, saves of {save:g} s",
            f"our rule: {ours}",
            f"best fixed interval of the 4/5: {fixed}; best sequence for them: {sequence}",
            "",
        )


def known_rows(paths: Sequence[Path]) -> Iterator[Row]:
    """One row per cost of a save: what knowing the distribution of lifetimes exactly is worth."""
    traces = [trace for path in paths if (trace := read_trace(path)).losses]
    for save in (60.0, 300.0) if traces else ():
        shares = np.array([shares_if_known(trace, save) for trace in traces])
        means, worst = shares.mean(axis=0), shares.min(axis=0)
        yield Row(
            f"machines drawn like those of {len(traces)} traces, saves of {save:g} s, "
            f"{_ROUNDS} times",
            f"a rule that knows how they are drawn: mean {means.mean():.1%}, at least 98.5% "
            f"{(means >= 0.985).sum()} times; median of the worst {np.median(worst):.1%}, at least "
            f"95% {(worst >= 0.95).sum()} times",
            "best fixed interval in hindsight, of each trace",
            "",
        )


def shares_if_known(trace: Trace, save: float) -> list[float]:
    """Our useful time as a share of the best fixed interval's, for machines drawn anew."""
    chance = random.Random(f"{SEED}:{trace.losses}:{save!r}")
    lives = [(life.end_seconds - life.start_seconds, life.lost) for life in trace.lives]
    shape = measure_age_shape(lives) or IntervalPolicy().prior_age_shape
    rule = rule_for(trace.mean_seconds, shape, save)
    found = []
    for _ in range(_ROUNDS):
        ends = (
            (shape - 1) * trace.mean_seconds * ((1 - chance.random()) ** (-1 / shape) - 1)
            for _ in range(trace.losses)
        )
        drawn = [(end - RESTART_SECONDS, True) for end in ends if end > RESTART_SECONDS]
        best = useful_seconds(drawn, save, always(best_interval_of(drawn, save)))
        found.append(useful_seconds(drawn, save, rule) / best if best else 1.0)
    return found


def lives_in(path: Path) -> list[Life]:
    """The machines that one run uses, without the time to restart."""
    sessions = TracePool(read_trace(path)).follow(0.0, seed=SEED)
    found = ((one.seconds - RESTART_SECONDS, one.lost) for one in sessions)
    return [(seconds, lost) for seconds, lost in found if seconds > 0]


def shares_of_best(lives: Sequence[Life], save: float) -> tuple[float, float, float]:
    """The useful time of each way, as a share of the best fixed interval of all machines."""
    order = list(range(len(lives)))
    random.Random(SEED).shuffle(order)
    fixed = sequence = ours = 0.0
    for fold in range(FOLDS):
        judges = [lives[index] for index in order[fold::FOLDS]]
        others = sorted(set(order) - set(order[fold::FOLDS]))
        known = [lives[index] for index in others]
        rule = our_rule(known, save)
        fixed += useful_seconds(judges, save, always(best_interval_of(known, save)))
        ours += useful_seconds(judges, save, rule)
        sequence += useful_seconds(judges, save, rule, best_sequence(known, save))
    best = useful_seconds(lives, save, always(best_interval_of(lives, save)))
    return fixed / best, sequence / best, ours / best


def useful_seconds(
    lives: Sequence[Life], save: float, rule: Rule, first: Sequence[float] = ()
) -> float:
    """The lasting work with the intervals `first`, and those of the rule after that."""
    total = 0.0
    for seconds, lost in lives:
        age, number = 0.0, 0
        while True:
            interval = first[number] if number < len(first) else rule(age)
            if age + interval + save > seconds:
                break
            total += interval
            age += interval + save
            number += 1
        total += 0.0 if lost else min(seconds - age, interval)
    return total


def always(interval: float) -> Rule:
    return lambda _: interval


def best_interval_of(lives: Sequence[Life], save: float) -> float:
    table = SessionTable(
        seconds=np.array([[seconds + RESTART_SECONDS for seconds, _ in lives]]),
        is_lost=np.array([[lost for _, lost in lives]]),
    )
    costs = CheckpointCosts(save_seconds=save, restart_seconds=RESTART_SECONDS)
    return best_fixed(table, table.is_lost, costs)[0]


def our_rule(lives: Sequence[Life], save: float) -> Rule:
    """The runtime's interval when the mean time and the shape are known."""
    paid = [(seconds + RESTART_SECONDS, lost) for seconds, lost in lives]
    losses = sum(lost for _, lost in paid)
    shape = measure_age_shape(paid) or IntervalPolicy().prior_age_shape
    return rule_for(math.fsum(seconds for seconds, _ in paid) / losses, shape, save)


def rule_for(mean_seconds: float, shape: float, save: float) -> Rule:
    policy = IntervalPolicy(
        prior_mean_seconds=mean_seconds,
        prior_unannounced_share=1.0,
        prior_age_shape=shape,
        ceiling_seconds=max(IntervalPolicy().ceiling_seconds, CEILING_SAVES * save),
    )
    cost = SaveCost(stall_seconds=save, durable_seconds=save)
    found: dict[float, float] = {}

    def interval(age: float) -> float:
        if age not in found:
            chosen = choose_interval(policy, cost=cost, observed=Observed(), age_seconds=age)
            assert chosen.seconds is not None
            found[age] = chosen.seconds
        return found[age]

    return interval


def best_sequence(lives: Sequence[Life], save: float) -> list[float]:
    """The intervals from age 0 that keep the most work on exactly these machines."""
    ends = np.sort([seconds for seconds, _ in lives])
    count = int(ends[-1] // _GRID_SECONDS) + 2
    alive = ends.size - np.searchsorted(ends, np.arange(count) * _GRID_SECONDS, side="left")
    save_steps, most = int(save // _GRID_SECONDS), int(_INTERVAL_SECONDS_MAX // _GRID_SECONDS)
    value, following = np.zeros(count), np.zeros(count, int)
    for start in range(count - 1, -1, -1):
        saved_at = np.arange(start + save_steps + 1, min(count, start + save_steps + 1 + most))
        if saved_at.size:
            kept = (saved_at - start - save_steps) * _GRID_SECONDS * alive[saved_at]
            kept = kept + value[saved_at]
            best = int(kept.argmax())
            if kept[best] > 0:
                value[start], following[start] = kept[best], saved_at[best]
    found, place = [], 0
    while following[place]:
        found.append(float(following[place] - place - save_steps) * _GRID_SECONDS)
        place = int(following[place])
    return found
