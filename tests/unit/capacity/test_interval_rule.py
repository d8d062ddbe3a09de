"""Our interval on arrays is the runtime's, number for number."""

import math
import random

import numpy as np
import pytest

from outlast._base.interval import (
    IntervalPolicy,
    Observed,
    SaveCost,
    best_interval,
    choose_interval,
)
from outlast.capacity.simulation.policies import IntervalRule, best_intervals

SEED = 11
POLICIES = [
    IntervalPolicy(),
    IntervalPolicy(ceiling_seconds=1e9, floor_seconds=0.0),
    IntervalPolicy(prior_mean_seconds=600, prior_weight=5, prior_unannounced_share=1),
    IntervalPolicy(prior_unannounced_share=0),
]


def test_the_best_interval_is_the_runtimes() -> None:
    chance = random.Random(SEED)
    saves = np.array([10 ** chance.uniform(-6, 5) for _ in range(2000)])
    means = np.array([10 ** chance.uniform(0, 8) for _ in range(2000)])

    growths = np.array([chance.choice((0.0, 10 ** chance.uniform(-3, 3))) for _ in range(2000)])

    found = best_intervals(saves, means, growths)

    expected = [
        best_interval(save, mean, growth=growth)
        for save, mean, growth in zip(saves, means, growths, strict=True)
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(("save", "mean"), [(0.0, 100.0), (1.0, math.inf), (0.0, math.inf)])
def test_the_edges_are_the_runtimes(save: float, mean: float) -> None:
    assert float(best_intervals(save, mean)) == best_interval(save, mean)


@pytest.mark.parametrize("policy", POLICIES, ids=range(len(POLICIES)))
def test_the_rule_is_the_runtimes_choice(policy: IntervalPolicy) -> None:
    chance = random.Random(SEED)
    for _ in range(50):
        cost = SaveCost(
            stall_seconds=10 ** chance.uniform(-3, 3),
            durable_seconds=10 ** chance.uniform(-1, 4),
            slow_seconds=chance.uniform(0, 5),
        )
        rule = IntervalRule(policy, cost)
        running = [10 ** chance.uniform(0, 7) for _ in range(20)]
        losses = [chance.randrange(40) for _ in range(20)]
        noticed = [chance.randrange(9) for _ in range(20)]
        ages = [10 ** chance.uniform(0, 7) for _ in range(20)]
        ended = [lost + told for lost, told in zip(losses, noticed, strict=True)]

        found = rule.after(running_seconds=running, losses=losses, ended=ended, age_seconds=ages)

        for seconds, count, told, age, interval in zip(
            running, losses, noticed, ages, found, strict=True
        ):
            observed = Observed(running_seconds=seconds, unannounced=count, announced=told)
            chosen = choose_interval(policy, cost=cost, observed=observed, age_seconds=age)
            assert float(interval) == pytest.approx(chosen.seconds, rel=1e-12)


def test_a_fixed_policy_has_no_rule() -> None:
    cost = SaveCost(stall_seconds=1.0, durable_seconds=1.0)

    with pytest.raises(ValueError, match="Expected a policy with an automatic interval"):
        IntervalRule(IntervalPolicy(every_seconds=60), cost)
