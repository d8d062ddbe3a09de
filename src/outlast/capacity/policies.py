"""How often to save on machines that a trace takes away: policies, held against each other.

Pure. A fixed interval (Young's and Daly's are fixed too, once their mean time is given), the
runtime's own rule, and an oracle that knows every loss. A save stops the work for `save_seconds`.
Work is lost where a loss comes without a notice; the end of the trace loses nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outlast._base.checks import check_from_zero
from outlast._base.interval import LEARNED_WEIGHT, IntervalPolicy, SaveCost
from outlast.capacity.interruptions import Floats
from outlast.capacity.interval import IntervalRule
from outlast.capacity.replay import Stays

CEILING_SAVES = 50
"""A ceiling below so many times a save's cost would make saving itself the waste."""

_GROWTH = 0.01
_GRID_POINTS = 160
_SHORTEST_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Costs:
    """What a save and a restart take."""

    save_seconds: float
    restart_seconds: float

    def __post_init__(self) -> None:
        for name in ("save_seconds", "restart_seconds"):
            check_from_zero(name, getattr(self, name))


@dataclass(frozen=True, kw_only=True, slots=True)
class Replayed:
    """What a policy made of the machine time of each run, in seconds."""

    machine_seconds: Floats
    useful_seconds: Floats
    lost_seconds: Floats
    save_seconds: Floats
    restart_seconds: Floats

    @property
    def goodput(self) -> float:
        """The share of all machine time that became lasting work, over all runs."""
        return float(self.useful_seconds.sum() / self.machine_seconds.sum())


def replay_fixed(
    stays: Stays, is_lossy: NDArray[np.bool_], costs: Costs, interval_seconds: float
) -> Replayed:
    """Save after every `interval_seconds` of work."""
    usable = np.maximum(stays.seconds - costs.restart_seconds, 0.0)
    worked, saved = _work_in(usable, interval_seconds, costs.save_seconds)
    useful = np.where(is_lossy, saved, worked)
    return _replayed(stays, usable, worked.sum(axis=1), useful.sum(axis=1))


def replay_adaptive(
    stays: Stays,
    is_lossy: NDArray[np.bool_],
    costs: Costs,
    policy: IntervalPolicy,
    *,
    knows_cost: bool = False,
    counts_current: bool = True,
) -> Replayed:
    """The runtime's rule: after each save, the best interval for what was seen until then.

    A run that does not know yet what a save costs makes its first one at the floor, to measure it.
    Unless it `counts_current`, the time on the machine that it is on counts only once it is over.
    """
    rule = IntervalRule(policy, _save_cost(costs))
    usable = np.maximum(stays.seconds - costs.restart_seconds, 0.0)
    runs, count = usable.shape
    running, losses, worked, useful = np.zeros((4, runs))
    knows = np.full(runs, knows_cost)
    prior_seconds = policy.prior_weight * policy.prior_mean_seconds
    for column in range(count):
        there, lossy = usable[:, column], is_lossy[:, column]
        ids = np.flatnonzero(there > 0)
        at, saved = np.zeros((2, ids.size))
        while ids.size:
            counted = running[ids] + at if counts_current else running[ids]
            interval = rule.after(running_seconds=counted, losses=losses[ids])
            if not knows_cost:
                interval = np.where(knows[ids], interval, policy.floor_seconds)
            left = there[ids] - at
            cycles = np.floor(left / (interval + costs.save_seconds))
            if counts_current:
                # The interval hardly moves until the time seen has grown by a part of itself.
                few = np.floor(_GROWTH * (prior_seconds + counted) / interval)
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
    return _replayed(stays, usable, worked, useful)


def learned_policy(
    *, mean_seconds: float, unannounced_share: float, save_seconds: float
) -> IntervalPolicy:
    """The runtime's settings once earlier runs have measured the pool and a save.

    The mean time counts as ten interruptions seen, and the ceiling leaves room for dear saves.
    """
    default = IntervalPolicy()
    return IntervalPolicy(
        prior_mean_seconds=mean_seconds,
        prior_unannounced_share=unannounced_share,
        prior_weight=LEARNED_WEIGHT,
        ceiling_seconds=max(default.ceiling_seconds, CEILING_SAVES * save_seconds),
    )


def replay_oracle(stays: Stays, is_lossy: NDArray[np.bool_], costs: Costs) -> Replayed:
    """Save once, just before each loss that nobody announces: no policy can do better."""
    usable = np.maximum(stays.seconds - costs.restart_seconds, 0.0)
    spared = np.where(is_lossy, np.maximum(usable - costs.save_seconds, 0.0), usable)
    useful = spared.sum(axis=1)
    return _replayed(stays, usable, useful, useful)


def best_fixed(
    stays: Stays, is_lossy: NDArray[np.bool_], costs: Costs, *, tried: Sequence[float] = ()
) -> tuple[float, Replayed]:
    """The fixed interval that does best over all these runs, found by trying many, and `tried`."""
    usable = np.maximum(stays.seconds - costs.restart_seconds, 0.0)
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
    return best, replay_fixed(stays, is_lossy, costs, best)


def _work_in(
    seconds: Floats, interval_seconds: Floats | float, save_seconds: float
) -> tuple[Floats, Floats]:
    """The work done in so much time, and how much of it is saved at the end."""
    cycle = interval_seconds + save_seconds
    cycles = np.floor(seconds / cycle)
    saved = cycles * interval_seconds
    worked = saved + np.minimum(seconds - cycles * cycle, interval_seconds)
    return worked, saved


def _save_cost(costs: Costs) -> SaveCost:
    return SaveCost(stall_seconds=costs.save_seconds, durable_seconds=costs.save_seconds)


def _replayed(stays: Stays, usable: Floats, worked: Floats, useful: Floats) -> Replayed:
    machine = stays.machine_seconds
    running = usable.sum(axis=1)
    return Replayed(
        machine_seconds=machine,
        useful_seconds=useful,
        lost_seconds=worked - useful,
        save_seconds=running - worked,
        restart_seconds=machine - running,
    )
