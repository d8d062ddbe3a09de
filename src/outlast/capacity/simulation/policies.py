"""Compare policies for the save interval on the machines of a trace.

Pure. The policies are a fixed interval (including Young's and Daly's, which are fixed once the mean
time is given), the runtime's adaptive rule, and an oracle that knows every loss. A save blocks the
work for `save_seconds`. Unannounced losses lose work; the end of the trace does not.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outlast._base.checks import check_from_zero
from outlast._base.interval import (
    AGE_SHAPE,
    LEARNED_WEIGHT,
    IntervalPolicy,
    Observed,
    SaveCost,
    choose_interval,
)
from outlast.capacity.simulation.lifetimes import Floats
from outlast.capacity.simulation.replay import SessionTable

CEILING_SAVES = 50
"""The ceiling of the interval must be at least this many times the cost of a save."""

_GROWTH = 0.01
_GRID_POINTS = 160
_SHORTEST_SECONDS = 10.0
# As in `_base.interval`.
_RATIO_TINY = 1e-8
_RATIO_HUGE = 1e15
_NEWTON_ROUNDS = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointCosts:
    """The time for a save and for a restart."""

    save_seconds: float
    restart_seconds: float

    def __post_init__(self) -> None:
        for name in ("save_seconds", "restart_seconds"):
            check_from_zero(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True, slots=True)
class PolicyOutcome:
    """How a policy used the machine time of each run, in seconds."""

    machine_seconds: Floats
    useful_seconds: Floats
    lost_seconds: Floats
    save_seconds: Floats
    restart_seconds: Floats

    @property
    def goodput(self) -> float:
        """The share of machine time that became lasting work, over all runs."""
        return float(self.useful_seconds.sum() / self.machine_seconds.sum())


def replay_fixed(
    sessions: SessionTable,
    is_lossy: NDArray[np.bool_],
    costs: CheckpointCosts,
    interval_seconds: float,
) -> PolicyOutcome:
    """Save after every `interval_seconds` of work."""
    usable = np.maximum(sessions.seconds - costs.restart_seconds, 0.0)
    worked, saved = _work_in(usable, interval_seconds, costs.save_seconds)
    useful = np.where(is_lossy, saved, worked)
    return _replayed(sessions, usable, worked.sum(axis=1), useful.sum(axis=1))


def replay_adaptive(
    sessions: SessionTable,
    is_lossy: NDArray[np.bool_],
    costs: CheckpointCosts,
    policy: IntervalPolicy,
    *,
    knows_cost: bool = False,
    counts_current: bool = True,
) -> PolicyOutcome:
    """The runtime's rule: after each save, choose the best interval for the observations so far.

    Unless it `knows_cost`, a run makes its first save at the floor to measure the cost. Unless it
    `counts_current`, time on the current machine counts only once that machine is gone. The age of
    a machine always counts.
    """
    rule = IntervalRule(policy, _save_cost(costs))
    usable = np.maximum(sessions.seconds - costs.restart_seconds, 0.0)
    runs, count = usable.shape
    running, losses, ended, worked, useful = np.zeros((5, runs))
    knows = np.full(runs, knows_cost)
    for column in range(count):
        there, lossy = usable[:, column], is_lossy[:, column]
        ids = np.flatnonzero(there > 0)
        at, saved = np.zeros((2, ids.size))
        while ids.size:
            counted = running[ids] + at if counts_current else running[ids]
            interval = rule.after(
                running_seconds=counted, losses=losses[ids], ended=ended[ids], age_seconds=at
            )
            if not knows_cost:
                interval = np.where(knows[ids], interval, policy.floor_seconds)
            left = there[ids] - at
            cycles = np.floor(left / (interval + costs.save_seconds))
            # The interval hardly changes until the age has grown noticeably.
            few = np.floor(_GROWTH * at / interval)
            cycles = np.minimum(cycles, np.maximum(few, 1.0))
            if not knows_cost:
                cycles = np.where(knows[ids], cycles, np.minimum(cycles, 1.0))
            goes_on = cycles > 0
            if not goes_on.all():
                ends = ids[~goes_on]
                begun = np.minimum(left, interval)[~goes_on]
                worked[ends] += saved[~goes_on] + begun
                useful[ends] += saved[~goes_on] + np.where(lossy[ends], 0.0, begun)
                ids, at, saved = ids[goes_on], at[goes_on], saved[goes_on]
                interval, cycles = interval[goes_on], cycles[goes_on]
            saved += cycles * interval
            at += cycles * (interval + costs.save_seconds)
            knows[ids] = True
        running += there
        losses += lossy
        ended += sessions.is_lost[:, column]
    return _replayed(sessions, usable, worked, useful)


def learned_policy(
    *,
    mean_seconds: float,
    unannounced_share: float,
    save_seconds: float,
    age_shape: float | None = None,
) -> IntervalPolicy:
    """The runtime's settings after earlier runs have measured the pool and the cost of a save.

    The mean time counts like ten observed interruptions, and the ceiling allows for slow saves.
    """
    default = IntervalPolicy()
    return IntervalPolicy(
        prior_mean_seconds=mean_seconds,
        prior_unannounced_share=unannounced_share,
        prior_weight=LEARNED_WEIGHT,
        prior_age_shape=AGE_SHAPE if age_shape is None else age_shape,
        ceiling_seconds=max(default.ceiling_seconds, CEILING_SAVES * save_seconds),
    )


def replay_oracle(
    sessions: SessionTable, is_lossy: NDArray[np.bool_], costs: CheckpointCosts
) -> PolicyOutcome:
    """Save once, just before each unannounced loss: no policy can do better."""
    usable = np.maximum(sessions.seconds - costs.restart_seconds, 0.0)
    spared = np.where(is_lossy, np.maximum(usable - costs.save_seconds, 0.0), usable)
    useful = spared.sum(axis=1)
    return _replayed(sessions, usable, useful, useful)


def best_fixed(
    sessions: SessionTable,
    is_lossy: NDArray[np.bool_],
    costs: CheckpointCosts,
    *,
    tried: Sequence[float] = (),
) -> tuple[float, PolicyOutcome]:
    """The best fixed interval over all these runs, found by search; includes those in `tried`."""
    usable = np.maximum(sessions.seconds - costs.restart_seconds, 0.0)
    lossy, spared = usable[is_lossy & (usable > 0)], usable[~is_lossy & (usable > 0)]

    def useful(interval: float) -> float:
        _, saved = _work_in(lossy, interval, costs.save_seconds)
        worked, _ = _work_in(spared, interval, costs.save_seconds)
        return float(saved.sum() + worked.sum())

    longest = max(float(usable.max(initial=0.0)), 2 * _SHORTEST_SECONDS)
    grid = np.geomspace(_SHORTEST_SECONDS, longest, _GRID_POINTS)
    best = max(map(float, grid), key=useful)
    ratio = float(grid[1] / grid[0])
    near = best * np.geomspace(1 / ratio, ratio, _GRID_POINTS // 4)
    best = max((*map(float, near), *tried), key=useful)
    return best, replay_fixed(sessions, is_lossy, costs, best)


def _work_in(
    seconds: Floats, interval_seconds: Floats | float, save_seconds: float
) -> tuple[Floats, Floats]:
    """The work done in the given time, and how much of it has been saved at the end."""
    cycle = interval_seconds + save_seconds
    cycles = np.floor(seconds / cycle)
    saved = cycles * interval_seconds
    worked = saved + np.minimum(seconds - cycles * cycle, interval_seconds)
    return worked, saved


def _save_cost(costs: CheckpointCosts) -> SaveCost:
    return SaveCost(stall_seconds=costs.save_seconds, durable_seconds=costs.save_seconds)


def _replayed(
    sessions: SessionTable, usable: Floats, worked: Floats, useful: Floats
) -> PolicyOutcome:
    machine = sessions.machine_seconds
    running = usable.sum(axis=1)
    return PolicyOutcome(
        machine_seconds=machine,
        useful_seconds=useful,
        lost_seconds=worked - useful,
        save_seconds=running - worked,
        restart_seconds=machine - running,
    )


class IntervalRule:
    """The runtime's automatic interval for many runs at once, for saves of one cost.

    This is the arithmetic of `_base.interval` on arrays: one call per run would take minutes. The
    bounds come from the runtime's own function; a test compares the two implementations.
    """

    def __init__(self, policy: IntervalPolicy, cost: SaveCost) -> None:
        if not policy.is_automatic:
            raise ValueError("Expected a policy with an automatic interval, got a fixed one.")
        self.policy = policy
        self._cost_seconds = cost.loop_seconds
        self._least = _chosen(policy, cost, Observed(running_seconds=0.0, unannounced=10**15))
        self._most = _chosen(policy, cost, Observed(running_seconds=1e18))

    def after(
        self,
        *,
        running_seconds: ArrayLike,
        losses: ArrayLike,
        ended: ArrayLike,
        age_seconds: ArrayLike,
    ) -> Floats:
        """The interval on a machine of this age, after `ended` interruptions in `running_seconds`.

        `losses` of them lost work.
        """
        policy = self.policy
        count = policy.prior_weight * policy.prior_unannounced_share + np.asarray(losses, float)
        seconds = policy.prior_weight * policy.prior_mean_seconds + np.asarray(running_seconds)
        mean = np.divide(seconds, count, out=np.full(count.shape, math.inf), where=count > 0)
        life_seconds = seconds / (policy.prior_weight + np.asarray(ended, float))
        growth = mean / (policy.prior_age_shape * life_seconds)
        ages = np.asarray(age_seconds) / life_seconds
        mean = mean * (policy.prior_age_shape - 1 + ages) / policy.prior_age_shape
        found = best_intervals(self._cost_seconds, mean, growth)
        return np.clip(found, self._least, self._most)


def best_intervals(
    save_seconds: ArrayLike, mean_seconds: ArrayLike, growth: ArrayLike = 0.0
) -> Floats:
    """`best_interval` of `_base.interval`, for arrays."""
    save, mean, growth = np.broadcast_arrays(
        np.asarray(save_seconds, float), np.asarray(mean_seconds, float), np.asarray(growth, float)
    )
    is_plain = (save > 0) & np.isfinite(mean)
    ratio = np.where(is_plain, np.minimum(save / mean, _RATIO_HUGE), 1.0)
    growth = np.where(is_plain, growth, 0.0)
    drift = growth * ratio
    y = 2 * ratio / (drift + np.hypot(drift, np.sqrt(2 * ratio)))
    rounds = _newton(y, ratio, drift)
    y = np.where(ratio < _RATIO_TINY, y + y * y / 6, rounds)
    kept = -np.expm1(-y)
    rest = 1 - growth * kept
    with np.errstate(divide="ignore", invalid="ignore"):
        found = np.where(rest > 0, kept * (mean + growth * save) / rest, math.inf)
    return np.where(is_plain, found, np.where(save > 0, math.inf, 0.0))


def _newton(y: Floats, ratio: Floats, drift: Floats) -> Floats:
    """Newton's method on exp(-y) - 1 + y * (1 + drift) = ratio."""
    for _ in range(_NEWTON_ROUNDS):
        kept = -np.expm1(-y)
        y = y - (y * (1 + drift) - kept - ratio) / (drift + kept)
    return y


def _chosen(policy: IntervalPolicy, cost: SaveCost, observed: Observed) -> float:
    seconds = choose_interval(policy, cost=cost, observed=observed).seconds
    assert seconds is not None
    return seconds
