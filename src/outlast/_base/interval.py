"""Decide when the next save is due.

Pure: takes measured costs and counted interruptions, returns an interval. It never touches a store,
reads no clock and keeps no state. Saves cost the loop time, and an unannounced interruption costs
the work since the last durable save. An announced one ends with a final save, so it does not count,
unless that save does not fit into the grace period. See `docs/explanation/interval.md`.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from outlast._base.checks import check_above_zero, check_count, check_from_zero

HOUR_SECONDS = 3600.0
COSTS_KEPT = 5
"""The cost of a save is the median of this many saves, which tolerates one or two slow ones."""

LEARNED_WEIGHT = 10.0
"""The weight of a mean time from earlier runs, in observed interruptions."""

AGE_SHAPE = 2.0
"""The default shape of the distribution of loss rates over machines, see `age_factor`."""

# Below this ratio the closed form is exact to eight digits, and Newton's method loses some.
_RATIO_TINY = 1e-8
# Larger ratios give the same interval.
_RATIO_HUGE = 1e15
_NEWTON_ROUNDS = 6
_CEILING_COSTS_MIN = 50.0


@dataclass(frozen=True, kw_only=True, slots=True)
class IntervalPolicy:
    """How the interval is chosen: fixed in steps, fixed in seconds, or automatic.

    `prior_mean_seconds` is the assumed time between interruptions of any kind; it counts as much as
    `prior_weight` observed interruptions. The share `prior_unannounced_share` of them comes without
    a notice. `prior_age_shape` is how similar machines are in how long they last, see `age_factor`.
    The floor and the ceiling bound the automatic interval.
    """

    every_steps: int | None = None
    every_seconds: float | None = None
    floor_seconds: float = 10.0
    ceiling_seconds: float = HOUR_SECONDS
    prior_mean_seconds: float = 3 * HOUR_SECONDS
    prior_weight: float = 1.0
    prior_unannounced_share: float = 0.5
    prior_age_shape: float = AGE_SHAPE

    def __post_init__(self) -> None:
        if self.every_steps is not None and self.every_seconds is not None:
            raise ValueError("Set every_steps or every_seconds, not both.")
        if self.every_steps is not None:
            check_count("every_steps", self.every_steps, least=1)
        if self.every_seconds is not None:
            check_above_zero("every_seconds", self.every_seconds)
        check_from_zero("floor_seconds", self.floor_seconds)
        check_above_zero("ceiling_seconds", self.ceiling_seconds)
        if self.floor_seconds > self.ceiling_seconds:
            raise ValueError(
                f"floor_seconds is {self.floor_seconds!r}, above ceiling_seconds, "
                f"{self.ceiling_seconds!r}."
            )
        check_above_zero("prior_mean_seconds", self.prior_mean_seconds)
        check_above_zero("prior_weight", self.prior_weight)
        check_from_zero("prior_unannounced_share", self.prior_unannounced_share)
        if self.prior_unannounced_share > 1:
            raise ValueError(
                f"prior_unannounced_share is {self.prior_unannounced_share!r}; expected 0 to 1."
            )

        if not self.prior_age_shape > 1:
            raise ValueError(f"prior_age_shape is {self.prior_age_shape!r}; expected more than 1.")

    @property
    def is_automatic(self) -> bool:
        return self.every_steps is None and self.every_seconds is None


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveCost:
    """The cost of one save.

    `stall_seconds`: how long the loop was blocked. `slow_seconds`: how much its steps were slowed
    down while the save was written in the background. `durable_seconds`: from staging to commit.
    """

    stall_seconds: float
    durable_seconds: float
    slow_seconds: float = 0.0

    def __post_init__(self) -> None:
        check_from_zero("stall_seconds", self.stall_seconds)
        check_from_zero("durable_seconds", self.durable_seconds)
        check_from_zero("slow_seconds", self.slow_seconds)

    @property
    def loop_seconds(self) -> float:
        """The time that the loop lost: the cost in the formula."""
        return self.stall_seconds + self.slow_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Observed:
    """The interruptions observed so far, over all attempts, in `running_seconds`.

    `announced` ended with a final save; `missed` were announced too, but their final save did not
    commit; `unannounced` came without a notice.
    """

    running_seconds: float = 0.0
    announced: int = 0
    missed: int = 0
    unannounced: int = 0

    def __post_init__(self) -> None:
        check_from_zero("running_seconds", self.running_seconds)
        for name in ("announced", "missed", "unannounced"):
            check_count(name, getattr(self, name), least=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interval:
    """Save after `steps` or `seconds`; the other one is None. `why` explains it to a person."""

    steps: int | None = None
    seconds: float | None = None
    why: str

    def is_due(self, *, steps_done: int, steps_saved: int, seconds_since_save: float) -> bool:
        """Whether to save now.

        `steps_saved` is the number of steps in the last save, 0 without one. Time counts from when
        the loop continued after it, or from its start. Steps count in multiples from 0, so that the
        same steps are saved no matter how often the run was interrupted.
        """
        if self.steps is not None:
            return steps_done // self.steps > steps_saved // self.steps
        assert self.seconds is not None
        return steps_done > steps_saved and seconds_since_save >= self.seconds


def choose_interval(
    policy: IntervalPolicy,
    *,
    cost: SaveCost | None,
    observed: Observed,
    final_fits: bool = True,
    age_seconds: float | None = None,
) -> Interval:
    """The interval from now on. Ask again after each save; in between only `is_due` is needed.

    Without a `cost`, the first save comes at the floor, because it is what measures one. The
    automatic interval is never shorter than a save takes to become durable, regardless of the
    ceiling: one that follows sooner would only have to wait for it. `age_seconds` is how long this
    attempt has been running, see `age_factor`; None for the interval at the average age.
    """
    if policy.every_steps is not None:
        return Interval(steps=policy.every_steps, why=f"fixed at {policy.every_steps} steps")
    if policy.every_seconds is not None:
        return Interval(seconds=policy.every_seconds, why=f"fixed at {policy.every_seconds:g} s")
    if cost is None:
        return Interval(
            seconds=policy.floor_seconds, why="the floor, until a save has been measured"
        )
    mean_seconds = mean_between_losses(policy, observed, final_fits=final_fits)
    growth, at_age = 0.0, ""
    if age_seconds is not None:
        growth = mean_seconds / (policy.prior_age_shape * mean_life(policy, observed))
        mean_seconds *= age_factor(policy, observed, age_seconds)
        at_age = f"at an age of {age_seconds / HOUR_SECONDS:.3g} h, "
    best_seconds = best_interval(cost.loop_seconds, mean_seconds, growth=growth)
    why = (
        f"a save costs the loop {cost.loop_seconds:.3g} s, "
        f"and {at_age}work is lost every {mean_seconds / HOUR_SECONDS:.3g} h"
    )
    # A lower ceiling would spend more time on saves than it could ever gain.
    ceiling_seconds = max(policy.ceiling_seconds, _CEILING_COSTS_MIN * cost.loop_seconds)
    bounded_seconds = min(max(best_seconds, policy.floor_seconds), ceiling_seconds)
    if cost.durable_seconds > bounded_seconds:
        why += f"; not sooner than a save is durable, {cost.durable_seconds:.3g} s"
        return Interval(seconds=cost.durable_seconds, why=why)
    if bounded_seconds != best_seconds:
        name = "floor" if bounded_seconds > best_seconds else "ceiling"
        why += f"; held at the {name} instead of {best_seconds:.3g} s"
    return Interval(seconds=bounded_seconds, why=why)


def mean_between_losses(
    policy: IntervalPolicy, observed: Observed, *, final_fits: bool = True
) -> float:
    """The mean seconds between interruptions that cost work; infinite if none are expected.

    The prior is a gamma distribution of their rate, updated with the observations: the mean rate is
    (expected + observed interruptions) / (assumed + observed time). If no final save fits into the
    grace period (`final_fits` is false), announced interruptions cost work as well.
    """
    share = policy.prior_unannounced_share if final_fits else 1.0
    lossy = observed.unannounced + observed.missed
    if not final_fits:
        lossy += observed.announced
    count = policy.prior_weight * share + lossy
    seconds = policy.prior_weight * policy.prior_mean_seconds + observed.running_seconds
    return seconds / count if count > 0 else math.inf


def age_factor(policy: IntervalPolicy, observed: Observed, age_seconds: float) -> float:
    """How much longer than on average the next interruption is away, for an attempt of this age.

    Spot capacity is not lost at a constant rate: some machines are reclaimed within minutes, and
    the others stay. If the rates of machines follow a gamma distribution with shape k, the expected
    rate at age a is k / ((k - 1) mean + a). With k = 2, the next loss is half a mean time away for
    a new machine, the mean time at an age of one mean time, and more after that. The larger k is,
    the less the age matters.
    """
    check_from_zero("age_seconds", age_seconds)
    ages = age_seconds / mean_life(policy, observed)
    return (policy.prior_age_shape - 1 + ages) / policy.prior_age_shape


def mean_life(policy: IntervalPolicy, observed: Observed) -> float:
    """The mean seconds between interruptions of any kind."""
    count = policy.prior_weight + observed.announced + observed.missed + observed.unannounced
    seconds = policy.prior_weight * policy.prior_mean_seconds + observed.running_seconds
    return seconds / count


def typical_cost(costs: Sequence[SaveCost], *, last: int = COSTS_KEPT) -> SaveCost | None:
    """The median of the last few saves, for each part; None if there was no save."""
    check_count("last", last, least=1)
    recent = costs[-last:]
    if not recent:
        return None
    return SaveCost(
        stall_seconds=statistics.median(cost.stall_seconds for cost in recent),
        slow_seconds=statistics.median(cost.slow_seconds for cost in recent),
        durable_seconds=statistics.median(cost.durable_seconds for cost in recent),
    )


def slow_seconds(*, steps: int, seconds: float, step_seconds: float) -> float:
    """Time lost by `steps` that took `seconds` during a write, at `step_seconds` per step."""
    check_count("steps", steps, least=0)
    check_from_zero("seconds", seconds)
    check_from_zero("step_seconds", step_seconds)
    return max(0.0, seconds - steps * step_seconds)


def useful_share(
    interval_seconds: float,
    *,
    save_seconds: float,
    mean_seconds: float,
    durable_seconds: float = 0.0,
) -> float:
    """The exact share of the running time that yields lasting work, ignoring restarts.

    Interruptions happen at random, `mean_seconds` apart on average. A save costs the loop
    `save_seconds`, and preserves the work before it once it is durable, `durable_seconds` later.
    """
    check_above_zero("interval_seconds", interval_seconds)
    check_from_zero("save_seconds", save_seconds)
    _check_mean(mean_seconds)
    check_from_zero("durable_seconds", durable_seconds)
    if mean_seconds == math.inf:
        return interval_seconds / (interval_seconds + save_seconds)
    # Each full cycle before an interruption counts: their number has a geometric distribution.
    cycle = (interval_seconds + save_seconds) / mean_seconds
    # exp(-cycle) / (1 - exp(-cycle)) is 1 / expm1(cycle), and cannot overflow.
    cycles_kept = math.exp(-cycle - durable_seconds / mean_seconds) / -math.expm1(-cycle)
    return interval_seconds / mean_seconds * cycles_kept


def best_interval(save_seconds: float, mean_seconds: float, *, growth: float = 0.0) -> float:
    """The time between two saves that keeps the most work.

    With a constant mean time, this is the exact maximum of `useful_share`; `young` and `daly`
    approximate it. The time until a save is durable does not matter: it lowers the useful share by
    the same factor at every interval.

    `growth` is by how many seconds the mean time grows per second, because machines that survive
    are safer. The interval then fits the mean time at its end, when the save is done. For the
    machines described in `age_factor`, no sequence of saves keeps 0.5% more work.
    """
    check_from_zero("growth", growth if mean_seconds != math.inf else 0.0)
    ratio = min(_ratio(save_seconds, mean_seconds), _RATIO_HUGE)
    if ratio == 0:
        return math.inf if mean_seconds == math.inf and save_seconds > 0 else 0.0
    # With y = (interval + save) / mean time at the end: exp(-y) - 1 + y * (1 + drift) = ratio.
    drift = growth * ratio
    y = 2 * ratio / (drift + math.hypot(drift, math.sqrt(2 * ratio)))
    if ratio < _RATIO_TINY:
        y += y * y / 6
    else:
        for _ in range(_NEWTON_ROUNDS):
            slope = drift - math.expm1(-y)
            y -= (math.expm1(-y) + y * (1 + drift) - ratio) / slope
    kept = -math.expm1(-y)
    rest = 1 - growth * kept
    return kept * (mean_seconds + growth * save_seconds) / rest if rest > 0 else math.inf


def young(save_seconds: float, mean_seconds: float) -> float:
    """Young's interval (1974), accurate if a save is much shorter than the mean time."""
    if _ratio(save_seconds, mean_seconds) == 0 and save_seconds == 0:
        return 0.0
    return math.sqrt(2 * save_seconds * mean_seconds)


def daly(save_seconds: float, mean_seconds: float) -> float:
    """Daly's interval (2006): Young's, corrected for longer saves."""
    ratio = _ratio(save_seconds, mean_seconds)
    if ratio >= 2:
        return mean_seconds
    first = young(save_seconds, mean_seconds)
    if first == math.inf:
        return first
    half = ratio / 2
    return first * (1 + math.sqrt(half) / 3 + half / 9) - save_seconds


def _ratio(save_seconds: float, mean_seconds: float) -> float:
    check_from_zero("save_seconds", save_seconds)
    _check_mean(mean_seconds)
    return save_seconds / mean_seconds


def _check_mean(mean_seconds: float) -> None:
    """Infinite is fine: no interruption is expected."""
    if mean_seconds != math.inf:
        check_above_zero("mean_seconds", mean_seconds)
