"""The interval: against published figures, against brute force, and at the edges."""

import math
import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from outlast._base.interval import (
    Interval,
    IntervalPolicy,
    Observed,
    SaveCost,
    age_factor,
    best_interval,
    choose_interval,
    daly,
    mean_between_losses,
    slow_seconds,
    typical_cost,
    useful_share,
    young,
)

SEED = 20260821
MINUTE = 60.0
HOUR = 3600.0
UNBOUNDED = IntervalPolicy(floor_seconds=0.0, ceiling_seconds=1e12)


def cost(loop_seconds: float, *, durable: float = 0.0) -> SaveCost:
    return SaveCost(stall_seconds=loop_seconds, durable_seconds=durable)


def automatic_seconds(
    loop_seconds: float,
    *,
    observed: Observed | None = None,
    policy: IntervalPolicy = UNBOUNDED,
    durable: float = 0.0,
    final_fits: bool = True,
) -> float:
    chosen = choose_interval(
        policy,
        cost=cost(loop_seconds, durable=durable),
        observed=observed or Observed(),
        final_fits=final_fits,
    )
    assert chosen.seconds is not None
    return chosen.seconds


def grid(count: int = 300) -> list[tuple[float, float]]:
    """Costs of a save and mean times, from a millisecond to a day and from a minute to a year."""
    chance = random.Random(SEED)
    return [(10 ** chance.uniform(-3, 4.9), 10 ** chance.uniform(1.8, 7.5)) for _ in range(count)]


# The formula


@pytest.mark.parametrize(
    ("mean_hours", "minutes"), [(24, 116.7), (6, 56.7), (0.25, 9.14)], ids=["24 h", "6 h", "15 min"]
)
def test_dalys_interval_has_the_published_values(mean_hours: float, minutes: float) -> None:
    assert daly(5 * MINUTE, mean_hours * HOUR) / MINUTE == pytest.approx(minutes, rel=1e-3)


def test_youngs_interval_is_the_root_of_twice_cost_times_mean() -> None:
    assert young(5 * MINUTE, 24 * HOUR) / MINUTE == pytest.approx(120)


def test_a_save_as_long_as_two_mean_times_leaves_one_mean_time_of_work() -> None:
    assert daly(20.0, 10.0) == 10.0
    assert daly(1e6, 10.0) == 10.0


def test_the_interval_is_the_one_that_brute_force_finds() -> None:
    for save_seconds, mean_seconds in grid():
        tried = np.geomspace(mean_seconds * 1e-6, mean_seconds * 1.5, 20_001)
        lost_time = np.expm1(np.minimum((tried + save_seconds) / mean_seconds, 700)) / tried
        brute = tried[np.argmin(lost_time)]

        assert best_interval(save_seconds, mean_seconds) == pytest.approx(brute, rel=0.01), (
            SEED,
            save_seconds,
            mean_seconds,
        )


def test_the_automatic_interval_wastes_no_more_than_the_best_that_brute_force_finds() -> None:
    chance = random.Random(SEED)
    for _ in range(200):
        save_seconds = 10 ** chance.uniform(-2, 2.5)
        observed = Observed(
            running_seconds=10 ** chance.uniform(2, 6),
            announced=chance.randrange(20),
            missed=chance.randrange(3),
            unannounced=chance.randrange(20),
        )
        mean_seconds = mean_between_losses(UNBOUNDED, observed)

        chosen = automatic_seconds(save_seconds, observed=observed)

        def kept(
            seconds: float, *, save: float = save_seconds, mean: float = mean_seconds
        ) -> float:
            return useful_share(seconds, save_seconds=save, mean_seconds=mean)

        best = max(kept(float(seconds)) for seconds in np.geomspace(0.01, 3 * mean_seconds, 2_000))
        assert 1 - kept(chosen) <= 1.01 * (1 - best), SEED


@pytest.mark.parametrize(
    ("formula", "ratio_max", "error"),
    [(young, 1e-4, 0.01), (daly, 0.5, 0.01)],
    ids=["young", "daly"],
)
def test_the_closed_forms_are_close_where_they_should_be(
    formula: Callable[[float, float], float], ratio_max: float, error: float
) -> None:
    for save_seconds, mean_seconds in grid():
        if save_seconds / mean_seconds <= ratio_max:
            best = best_interval(save_seconds, mean_seconds)
            assert formula(save_seconds, mean_seconds) == pytest.approx(best, rel=error)


@pytest.mark.parametrize("durable_seconds", [0.0, 40.0, 200.0])
def test_the_useful_share_is_the_one_that_a_simulation_shows(durable_seconds: float) -> None:
    interval_seconds, save_seconds, mean_seconds = 300.0, 20.0, 1500.0
    lives = np.random.default_rng(SEED).exponential(mean_seconds, 400_000)
    saves = np.floor((lives - durable_seconds) / (interval_seconds + save_seconds))
    simulated = np.maximum(saves, 0).sum() * interval_seconds / lives.sum()

    share = useful_share(
        interval_seconds,
        save_seconds=save_seconds,
        mean_seconds=mean_seconds,
        durable_seconds=durable_seconds,
    )

    assert share == pytest.approx(simulated, rel=0.01)


def test_how_long_a_save_is_being_written_does_not_move_the_best_interval() -> None:
    tried = np.geomspace(10, 5000, 2000)
    for durable_seconds in (0.0, 30.0, 900.0):
        shares = [
            useful_share(
                float(seconds), save_seconds=5, mean_seconds=HOUR, durable_seconds=durable_seconds
            )
            for seconds in tried
        ]

        assert tried[np.argmax(shares)] == pytest.approx(best_interval(5, HOUR), rel=0.01)


def test_no_interruption_expected_means_that_only_saves_cost() -> None:
    assert useful_share(90, save_seconds=10, mean_seconds=math.inf) == pytest.approx(0.9)
    assert useful_share(1e9, save_seconds=10, mean_seconds=1.0) == 0.0


# What moves the interval


def test_costlier_saves_come_less_often() -> None:
    for _, mean_seconds in grid(50):
        intervals = [
            best_interval(mean_seconds * 10**n, mean_seconds) for n in np.arange(-9, 3, 0.05)
        ]

        assert intervals == sorted(intervals)


def test_more_interruptions_bring_more_saves() -> None:
    for save_seconds, _ in grid(50):
        intervals = [
            best_interval(save_seconds, save_seconds * 10**n) for n in np.arange(-3, 9, 0.05)
        ]

        assert intervals == sorted(intervals)


def test_each_interruption_without_notice_brings_saves_closer() -> None:
    day = Observed(running_seconds=24 * HOUR)
    intervals = [automatic_seconds(2, observed=replace(day, unannounced=n)) for n in range(10)]

    assert intervals == sorted(intervals, reverse=True)
    assert len(set(intervals)) == 10


def test_announced_interruptions_that_ended_with_a_save_do_not_count() -> None:
    quiet = Observed(running_seconds=10 * HOUR)

    assert automatic_seconds(2, observed=replace(quiet, announced=50)) == automatic_seconds(
        2, observed=quiet
    )


def test_an_announced_interruption_whose_save_did_not_commit_counts_as_unannounced() -> None:
    quiet = Observed(running_seconds=10 * HOUR)

    missed = mean_between_losses(UNBOUNDED, replace(quiet, missed=3))

    assert missed == mean_between_losses(UNBOUNDED, replace(quiet, unannounced=3))
    assert missed < mean_between_losses(UNBOUNDED, quiet)


def test_when_no_final_save_fits_into_the_grace_every_interruption_counts() -> None:
    seen = Observed(running_seconds=7 * HOUR, announced=4, unannounced=1)

    assert mean_between_losses(UNBOUNDED, seen) == 10 * HOUR / 1.5
    assert mean_between_losses(UNBOUNDED, seen, final_fits=False) == 10 * HOUR / 6
    assert automatic_seconds(2, observed=seen, final_fits=False) < automatic_seconds(
        2, observed=seen
    )


def test_before_anything_is_seen_the_prior_speaks() -> None:
    assert mean_between_losses(IntervalPolicy(), Observed()) == 6 * HOUR
    certain = IntervalPolicy(prior_mean_seconds=HOUR, prior_unannounced_share=1.0)
    assert mean_between_losses(certain, Observed()) == HOUR


def test_much_observation_outweighs_any_prior() -> None:
    year = Observed(running_seconds=8760 * HOUR, unannounced=876)

    for prior_hours in (0.1, 3.0, 100.0):
        policy = IntervalPolicy(prior_mean_seconds=prior_hours * HOUR)
        assert mean_between_losses(policy, year) == pytest.approx(10 * HOUR, rel=0.02)


def test_a_heavier_prior_yields_more_slowly() -> None:
    seen = Observed(running_seconds=HOUR, unannounced=10)
    means = [mean_between_losses(IntervalPolicy(prior_weight=w), seen) for w in (0.1, 1, 10, 100)]

    assert means == sorted(means)


# The edges


def test_a_run_that_is_never_interrupted_saves_less_and_less_often_up_to_the_ceiling() -> None:
    policy = IntervalPolicy(ceiling_seconds=HOUR)
    hours = [0, 1, 10, 100, 1e3, 1e6]
    intervals = [
        automatic_seconds(10, policy=policy, observed=Observed(running_seconds=h * HOUR))
        for h in hours
    ]

    assert intervals == sorted(intervals)
    assert intervals[0] < HOUR
    assert intervals[-1] == HOUR


def test_if_every_interruption_is_announced_only_the_ceiling_calls_for_saves() -> None:
    policy = IntervalPolicy(prior_unannounced_share=0.0, ceiling_seconds=1234.0)

    assert mean_between_losses(policy, Observed(announced=9)) == math.inf
    assert automatic_seconds(10, policy=policy) == 1234.0


def test_a_save_that_costs_nothing_is_made_at_the_floor() -> None:
    assert best_interval(0.0, HOUR) == young(0.0, HOUR) == daly(0.0, HOUR) == 0.0
    assert best_interval(0.0, math.inf) == young(0.0, math.inf) == daly(0.0, math.inf) == 0.0
    assert automatic_seconds(0.0, policy=IntervalPolicy(floor_seconds=7.0)) == 7.0


def test_without_interruptions_a_save_is_never_worth_its_cost() -> None:
    assert best_interval(1.0, math.inf) == young(1.0, math.inf) == daly(1.0, math.inf) == math.inf


def test_no_save_starts_before_the_one_before_can_be_durable() -> None:
    policy = IntervalPolicy(floor_seconds=1.0, ceiling_seconds=60.0)

    assert automatic_seconds(0.1, policy=policy, durable=20.0) == 60.0
    assert automatic_seconds(0.001, policy=policy, durable=50.0) == 50.0
    assert automatic_seconds(0.1, policy=policy, durable=90.0) == 90.0


def test_until_a_save_was_measured_the_floor_holds() -> None:
    chosen = choose_interval(IntervalPolicy(), cost=None, observed=Observed())

    assert chosen == Interval(seconds=10.0, why="the floor, until a save has been measured")


def test_a_chosen_interval_says_why() -> None:
    why = choose_interval(IntervalPolicy(), cost=cost(0.001), observed=Observed()).why

    assert why == (
        "a save costs the loop 0.001 s, and work is lost every 6 h; "
        "held at the floor instead of 6.57 s"
    )


# Due or not


def test_a_fixed_number_of_seconds_is_kept_to_whatever_is_measured() -> None:
    chosen = choose_interval(
        IntervalPolicy(every_seconds=30.0), cost=cost(999.0), observed=Observed(unannounced=99)
    )

    assert not chosen.is_due(steps_done=9, steps_saved=0, seconds_since_save=29.9)
    assert chosen.is_due(steps_done=9, steps_saved=0, seconds_since_save=30.0)


def test_fixed_steps_are_the_same_steps_however_often_the_run_was_interrupted() -> None:
    every = choose_interval(IntervalPolicy(every_steps=10), cost=None, observed=Observed())

    def due(steps_done: int, steps_saved: int) -> bool:
        return every.is_due(steps_done=steps_done, steps_saved=steps_saved, seconds_since_save=0.0)

    assert [step for step in range(1, 40) if due(step, step - 1)] == [10, 20, 30]
    assert not due(19, 17)
    assert due(20, 17)
    assert due(23, 17)
    assert not due(20, 20)


def test_nothing_is_due_when_no_step_was_done_since_the_last_save() -> None:
    chosen = Interval(seconds=1.0, why="a test")

    assert not chosen.is_due(steps_done=5, steps_saved=5, seconds_since_save=1e9)
    assert chosen.is_due(steps_done=6, steps_saved=5, seconds_since_save=1.0)


# What a save costs


def test_the_time_a_save_is_written_in_the_background_costs_the_loop_nothing() -> None:
    measured = SaveCost(stall_seconds=0.1, slow_seconds=0.3, durable_seconds=60.0)

    assert measured.loop_seconds == pytest.approx(0.4)


def test_what_steps_lose_while_a_save_is_written_is_a_cost() -> None:
    assert slow_seconds(steps=10, seconds=12.0, step_seconds=1.0) == pytest.approx(2.0)
    assert slow_seconds(steps=10, seconds=9.0, step_seconds=1.0) == 0.0


def test_a_slow_first_save_and_an_outlier_do_not_move_the_typical_cost() -> None:
    costs = [cost(stall, durable=stall * 2) for stall in (50.0, 1.0, 1.2, 400.0, 1.1)]

    assert typical_cost(costs) == cost(1.2, durable=2.4)
    assert typical_cost([cost(3.0), *costs, cost(1.0)]) == cost(1.1, durable=2.2)
    assert typical_cost([]) is None


# Refusals


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"every_steps": 0}, "every_steps is 0; expected a whole number of at least 1"),
        ({"every_steps": 1.5}, r"every_steps is 1\.5; expected a whole number"),
        ({"every_steps": True}, "every_steps is True"),
        ({"every_seconds": 0.0}, r"every_seconds is 0\.0; expected a finite number above 0"),
        ({"every_seconds": math.inf}, "every_seconds is inf"),
        ({"every_steps": 5, "every_seconds": 5.0}, "not both"),
        (
            {"floor_seconds": -1.0},
            r"floor_seconds is -1\.0; expected a finite number of at least 0",
        ),
        ({"ceiling_seconds": math.nan}, "ceiling_seconds is nan"),
        (
            {"floor_seconds": 20.0, "ceiling_seconds": 10.0},
            r"floor_seconds is 20\.0, above ceiling",
        ),
        ({"prior_mean_seconds": 0.0}, r"prior_mean_seconds is 0\.0"),
        ({"prior_weight": 0.0}, r"prior_weight is 0\.0"),
        ({"prior_unannounced_share": 1.1}, "expected 0 to 1"),
        ({"prior_unannounced_share": -0.1}, r"prior_unannounced_share is -0\.1"),
    ],
    ids=str,
)
def test_a_policy_that_cannot_work_is_refused(wrong: dict[str, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        IntervalPolicy(**wrong)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("formula", [young, daly, best_interval])
@pytest.mark.parametrize(
    ("save_seconds", "mean_seconds", "words"),
    [
        (-1.0, 10.0, r"save_seconds is -1\.0"),
        (math.nan, 10.0, "save_seconds is nan"),
        (math.inf, 10.0, "save_seconds is inf"),
        (1.0, 0.0, r"mean_seconds is 0\.0"),
        (1.0, -5.0, r"mean_seconds is -5\.0"),
        (1.0, math.nan, "mean_seconds is nan"),
    ],
)
def test_absurd_figures_are_refused(
    formula: Callable[[float, float], float], save_seconds: float, mean_seconds: float, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        formula(save_seconds, mean_seconds)


def test_absurd_observations_and_costs_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"unannounced is -1; expected a whole number of at least 0"
    ):
        Observed(unannounced=-1)
    with pytest.raises(ValueError, match="running_seconds is nan"):
        Observed(running_seconds=math.nan)
    with pytest.raises(ValueError, match=r"stall_seconds is -0\.5"):
        SaveCost(stall_seconds=-0.5, durable_seconds=1.0)
    with pytest.raises(ValueError, match="interval_seconds is 0"):
        useful_share(0, save_seconds=1, mean_seconds=10)
    with pytest.raises(ValueError, match="last is 0"):
        typical_cost([], last=0)


def test_a_machine_that_has_lived_long_is_saved_less_often() -> None:
    seen = Observed(running_seconds=9 * 3 * HOUR, unannounced=9)
    factors = [age_factor(IntervalPolicy(), seen, hours * HOUR) for hours in (0, 3, 9)]

    assert factors == pytest.approx([0.5, 1.0, 2.0])
    chosen = [
        choose_interval(IntervalPolicy(), cost=cost(2.0), observed=seen, age_seconds=age).seconds
        or 0
        for age in (0.0, 3 * HOUR, 9 * HOUR)
    ]
    average = choose_interval(IntervalPolicy(), cost=cost(2.0), observed=seen).seconds
    assert chosen == sorted(chosen)
    # A little longer, because the machine is still older when the save is done.
    assert average is not None and average < chosen[1] < 1.01 * average


def best_saves(shape: float, save: int, scale: int, oldest: int) -> tuple[list[float], list[int]]:
    """The most work that can be expected from each age on, and the interval that yields it.

    By trying all sequences of saves, for machines whose loss rates follow a gamma distribution.
    """
    surviving = (scale / (scale + np.arange(oldest + 1.0))) ** shape
    worth, best = np.zeros(oldest + 1), [0] * (oldest + 1)
    for age in range(oldest - save - 1, -1, -1):
        work = np.arange(1, oldest - age - save + 1)
        at = age + save + work
        kept = surviving[at] / surviving[age] * (work + worth[at])
        best[age] = int(work[np.argmax(kept)])
        worth[age] = kept.max()
    return [float(one) for one in worth], best


@pytest.mark.parametrize("shape", [2.0, 3.0, 10.0])
@pytest.mark.parametrize("lives", [2.0, 10.0], ids=["save is half a life", "save is a tenth"])
def test_on_machines_that_differ_no_sequence_of_saves_keeps_noticeably_more(
    shape: float, lives: float
) -> None:
    save, oldest = 50, 6000
    mean = lives * save
    scale = round((shape - 1) * mean)
    most, best = best_saves(shape, save, scale, oldest)

    expected, age = 0.0, 0
    while age < oldest:
        work = round(best_interval(save, (scale + age) / shape, growth=1 / shape))
        age += work + save
        expected += work * (scale / (scale + age)) ** shape * (age <= oldest)

    first = best_interval(save, scale / shape, growth=1 / shape)
    assert first == pytest.approx(best[0], rel=0.06)
    assert expected > 0.995 * most[0]


def test_a_mean_time_that_grows_makes_the_interval_longer() -> None:
    for save_seconds, mean_seconds in grid(100):
        intervals = [best_interval(save_seconds, mean_seconds, growth=g) for g in (0, 0.1, 1, 10)]

        assert intervals == sorted(intervals)
        # Each fits the mean time at its end.
        for growth, seconds in zip((0, 0.1, 1, 10), intervals, strict=True):
            later = mean_seconds + growth * (seconds + save_seconds)
            assert best_interval(save_seconds, later) == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize("growth", [0.0, 0.5, 1e6, 1e300])
@pytest.mark.parametrize("ratio", [1e-300, 1e-12, 1.0, 1e12, 1e200])
def test_the_interval_stays_a_number_at_any_scale(growth: float, ratio: float) -> None:
    assert best_interval(ratio, 1.0, growth=growth) > 0


def test_a_growth_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="growth is nan"):
        best_interval(1.0, 10.0, growth=math.nan)
