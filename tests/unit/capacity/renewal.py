"""The expected time of a job, exactly, where a formula exists.

Pure. Every interruption renews the process: what counts is only how much durable work is left. That
gives an equation for the expected time, which is solved here for two families:

- any law of lifetimes, as long as every interruption loses the work since the last save;
- random interruptions (`ExponentialLifetimes`), of which any share keeps its work.

A growing backoff, leases and fallback machines remember more than that; they are simulated.
"""

import math

import numpy as np

from outlast.capacity.simulation.lifetimes import ExponentialLifetimes, Floats, NoInterruptions
from outlast.capacity.simulation.model import MachineSupply, SimulatedJob
from tests.unit.capacity.exact_lifetimes import lived_within, survival

_POINTS_PER_INTERVAL = 256
_POINTS_MAX = 400_000


class NoFormula(ValueError):
    """This job and supply have no exact formula here: simulate them."""


def expected_seconds(job: SimulatedJob, supply: MachineSupply) -> float:
    """The expected seconds from the first wait to the end of the work.

    Infinite if it grows beyond what a float can hold. Raises `NoFormula` where none exists.
    """
    if supply.backoff is not None or supply.lease_seconds < math.inf:
        raise NoFormula("A growing back-off and leases have no exact formula here.")
    if supply.patience_seconds < math.inf:
        raise NoFormula("Fallback machines have no exact formula here.")
    if isinstance(supply.lifetimes, NoInterruptions):
        return supply.first_wait_seconds + job.restart_seconds + job.uninterrupted_seconds
    if supply.kept_share == 0:
        return supply.first_wait_seconds + _with_losses(job, supply)
    if isinstance(supply.lifetimes, ExponentialLifetimes) and job.lag_seconds == 0:
        return supply.first_wait_seconds + _with_notices(job, supply, supply.lifetimes.mean_seconds)
    raise NoFormula("Kept work has an exact formula only with random interruptions and no lag.")


def _with_losses(job: SimulatedJob, supply: MachineSupply) -> float:
    """Segment by segment: a life gets some whole segments done, and the rest is like a new job."""
    lifetimes, dead = supply.lifetimes, supply.dead_seconds
    interval = min(job.interval_seconds, job.work_seconds)
    cycle = interval + job.save_seconds
    left = job.work_seconds - interval * np.arange(job.saves)[::-1]
    segments = np.arange(1, job.saves + 1)
    need = job.restart_seconds + left + segments * job.save_seconds + job.lag_seconds
    lost_by = 1 - survival(
        lifetimes, job.restart_seconds + job.lag_seconds + cycle * np.arange(job.saves + 1)
    )
    lost_by_end = 1 - survival(lifetimes, need)
    lived = lived_within(lifetimes, need)
    expected = np.zeros(job.saves)
    for index in range(job.saves):
        # The chance to get exactly k segments done in one life, for k = 0 .. index.
        chance = np.diff(lost_by[: index + 2])
        chance[0] += lost_by[0]
        chance[-1] += lost_by_end[index] - lost_by[index + 1]
        rest = chance[1:] @ expected[:index][::-1]
        gets_ahead = 1 - chance[0]
        if gets_ahead <= 0:
            return math.inf
        expected[index] = (lived[index] + lost_by_end[index] * dead + rest) / gets_ahead
    return float(expected[-1])


def _with_notices(job: SimulatedJob, supply: MachineSupply, mean: float) -> float:
    """March from little work left to all of it, on a fine grid.

    With `kept` the share of interruptions that keep the work, the expected time V(x) for the work x
    solves: V(x) [1 - (1 - kept) F(s)] = F(s) C + S(s) V(x - w) + kept E[V(x - worked); lost],
    where w is the work until the next save, s its time, and C the mean time from the start of a
    life to the start of the next one.
    """
    kept = supply.kept_share
    cost = (mean + supply.dead_seconds) * _exp(job.restart_seconds / mean)
    start = cost - mean - supply.dead_seconds
    if cost == math.inf:
        return math.inf
    interval = min(job.interval_seconds, job.work_seconds)
    per_interval = min(_POINTS_PER_INTERVAL, _POINTS_MAX // job.saves)
    points = math.ceil(job.work_seconds / interval * per_interval)
    step = job.work_seconds / points
    window = interval / step
    value = np.zeros(points + 1)
    fade = math.exp(-step / mean)
    # The weight of the new point in the integral of V over the last step, and of the one before.
    newest = 1 + math.expm1(-step / mean) * mean / step
    older = (1 - fade) - newest
    tail = math.exp(-interval / mean)
    integral = 0.0
    for point in range(1, points + 1):
        work = min(point * step, interval)
        is_long = point > window
        cycle = work + job.save_seconds
        survived, in_save = math.exp(-cycle / mean), math.exp(-work / mean)
        left_behind = _at(value, point - window) if is_long else 0.0
        before = fade * integral + older * value[point - 1]
        if is_long:
            dropped = (left_behind + _at(value, point - 1 - window)) / 2
            before -= tail * (1 - fade) * dropped
        known = (1 - survived) * cost + survived * left_behind
        known += kept * (before + (in_save - survived) * left_behind)
        weight = 1 - (1 - kept) * (1 - survived) - kept * newest
        value[point] = known / weight
        integral = before + newest * value[point]
    return start + float(value[-1])


def _at(value: Floats, place: float) -> float:
    """The value between two points of the grid; nothing is left to do below the first."""
    if place <= 0:
        return 0.0
    low = int(place)
    part = place - low
    return float(value[low] * (1 - part) + value[low + 1] * part) if part else float(value[low])


def _exp(x: float) -> float:
    return math.exp(x) if x < 700 else math.inf
