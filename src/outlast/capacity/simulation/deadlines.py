"""Meet a deadline at low cost on a pool of Spot machines: when to buy which machine.

Pure. Three policies and a bound, replayed on a trace: *always on-demand*; *greedy*, which uses Spot
whenever it is available and waits otherwise; and *uniform progress*, which buys on-demand if it has
no Spot machine and is late, and returns to Spot when well ahead of schedule. Greedy and uniform
progress have a safety net: once the remaining time is barely enough for an on-demand
machine to do the rest, they take one and keep it. So they miss no deadline that can be met at all:
they take a Spot machine only while there is time to lose it just before its first save.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from outlast._base.checks import check_above_zero, check_from_zero
from outlast.capacity.simulation.replay import TracePool

_MOMENT_SECONDS = 1e-7


class DeadlinePolicy(StrEnum):
    """How machines are chosen."""

    ON_DEMAND = "on-demand"
    GREEDY = "greedy"
    UNIFORM = "uniform-progress"


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadlineTask:
    """Work with a deadline, counted from its start, and the cost of changing machines.

    `changeover_seconds` pass between taking a machine of either kind and the first work on it.
    """

    work_seconds: float
    deadline_seconds: float
    interval_seconds: float
    save_seconds: float
    changeover_seconds: float

    def __post_init__(self) -> None:
        for name in ("work_seconds", "deadline_seconds", "interval_seconds"):
            check_above_zero(name, getattr(self, name))
        for name in ("save_seconds", "changeover_seconds"):
            check_from_zero(name, getattr(self, name))

    @property
    def is_feasible(self) -> bool:
        """Whether an on-demand machine taken at the start would finish in time."""
        return self.changeover_seconds + self.need(self.work_seconds) <= self.deadline_seconds

    @property
    def cycle_seconds(self) -> float:
        return self.interval_seconds + self.save_seconds

    def need(self, left_seconds: float) -> float:
        """The time for the remaining work and its saves."""
        return left_seconds + math.ceil(left_seconds / self.interval_seconds) * self.save_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class DeadlineOutcome:
    """When a run finished, on which machines, and how often it changed them."""

    finish_seconds: float
    spot_seconds: float
    on_demand_seconds: float
    machines: int
    lost_seconds: float
    deadline_seconds: float

    @property
    def is_in_time(self) -> bool:
        # Times are sums of many floats.
        return self.finish_seconds <= self.deadline_seconds + 1e-6

    def cost(self, *, spot_price: float, on_demand_price: float) -> float:
        """The cost, in the currency of the hourly prices."""
        paid = self.spot_seconds * spot_price + self.on_demand_seconds * on_demand_price
        return paid / 3600


def replay_deadline(
    pool: TracePool, task: DeadlineTask, policy: DeadlinePolicy, *, start_seconds: float, seed: int
) -> DeadlineOutcome:
    """Replay one run of a task on a trace. All losses of Spot machines are unannounced."""
    return _DeadlineReplay(pool, task, policy, start_seconds, seed).run()


def cost_bound(
    pool: TracePool,
    task: DeadlineTask,
    *,
    start_seconds: float,
    spot_price: float,
    on_demand_price: float,
) -> float:
    """A lower bound on the cost: what an oracle that knows the trace would pay.

    It takes as many Spot machines as are worth their changeovers, those that cover the most time,
    saves once before leaving each, and does the rest on demand without any changeover.
    """
    overhead = task.changeover_seconds + task.save_seconds
    least = task.work_seconds * on_demand_price
    for machines, covered in enumerate(_most_covered(pool, task, start_seconds), start=1):
        work = min(covered - machines * overhead, task.work_seconds)
        paid = (work + machines * overhead) * spot_price
        paid += (task.work_seconds - work) * on_demand_price
        if paid >= least:
            # Each further machine adds less time than the one before it.
            break
        least = paid
    return least / 3600


def _most_covered(pool: TracePool, task: DeadlineTask, start_seconds: float) -> Iterator[float]:
    """The most time until the deadline that 1, 2, 3... machines cover, one at a time."""
    lives = _longest_lives(pool, start_seconds, start_seconds + task.deadline_seconds)
    if not lives:
        return
    starts, ends = np.array(lives, float).T
    covered = ends - starts
    # What a machine adds to the one before it: from its own start, or from the end of the other.
    added = ends - np.maximum(starts, ends[:, None])
    added[np.tril_indices(len(lives))] = -np.inf
    for _ in lives:
        yield float(covered.max())
        covered = (covered[:, None] + added).max(axis=0)


def _longest_lives(pool: TracePool, start: float, end: float) -> list[tuple[float, float]]:
    """The lives between two times that are not contained in another one, in order."""
    kept: list[tuple[float, float]] = []
    for life in pool.trace.lives:
        # A machine that outlived the trace would have continued.
        lived = min(life.end_seconds if life.lost else math.inf, end)
        begun = max(life.start_seconds, start)
        if begun < lived and (not kept or lived > kept[-1][1]):
            if kept and kept[-1][0] == begun:
                kept.pop()
            kept.append((begun, lived))
    return kept


class _DeadlineReplay:
    """One run: the clock of the trace, the remaining work, and the paid time."""

    def __init__(
        self,
        pool: TracePool,
        task: DeadlineTask,
        policy: DeadlinePolicy,
        start_seconds: float,
        seed: int,
    ) -> None:
        self._pool = pool
        self._task = task
        self._policy = policy
        self._start = start_seconds
        self._chance = random.Random(f"{seed}:{start_seconds!r}")
        self._now = start_seconds
        self._due = start_seconds + task.deadline_seconds
        self._left = task.work_seconds
        self._spot = self._on_demand = self._lost = 0.0
        self._machines = 0

    def run(self) -> DeadlineOutcome:
        while self._left > 0:
            if self._must_hurry():
                self._stay_on_demand()
            elif self._spot_at() == self._now and self._may_take_spot():
                self._use_spot()
            elif self._policy is DeadlinePolicy.UNIFORM and self._is_behind():
                self._use_on_demand()
            else:
                self._wait()
        return DeadlineOutcome(
            finish_seconds=self._now - self._start,
            spot_seconds=self._spot,
            on_demand_seconds=self._on_demand,
            machines=self._machines,
            lost_seconds=self._lost,
            deadline_seconds=self._task.deadline_seconds,
        )

    @property
    def _slack(self) -> float:
        """The time that can still be lost if the rest is done on demand."""
        return self._due - self._now - self._task.need(self._left)

    def _must_hurry(self) -> bool:
        if self._policy is DeadlinePolicy.ON_DEMAND:
            return True
        return self._slack <= 2 * self._task.changeover_seconds

    def _may_take_spot(self) -> bool:
        """Whether the machine could be lost at the worst time, just before its first save."""
        task = self._task
        return self._slack >= 3 * task.changeover_seconds + task.cycle_seconds

    def _is_behind(self) -> bool:
        return self._progress() < self._scheduled()

    def _progress(self) -> float:
        return self._task.work_seconds - self._left

    def _scheduled(self) -> float:
        """The work that would be done by now if it were spread evenly over the time."""
        task = self._task
        return (self._now - self._start) * task.work_seconds / task.deadline_seconds

    def _spot_at(self) -> float:
        """When the next Spot machine is available."""
        chance = self._pool.next_chance(self._now)
        return math.inf if chance is None else chance

    def _wait(self) -> None:
        """Wait until Spot is available, the schedule is missed, or the safety net is needed."""
        task = self._task
        until = [self._due - task.need(self._left) - 2 * task.changeover_seconds]
        if self._spot_at() > self._now:
            until.append(self._spot_at())
        if self._policy is DeadlinePolicy.UNIFORM:
            ahead = self._progress() * task.deadline_seconds / task.work_seconds
            until.append(self._start + ahead)
        # The comparisons hold only after the exact time, not at it.
        self._now = max(min(until), self._now) + _MOMENT_SECONDS

    def _use_spot(self) -> None:
        """Work until the machine is lost or the work is finished."""
        task = self._task
        session = self._pool.take(self._now, self._chance)
        length = session.seconds if session.lost else math.inf
        need = task.changeover_seconds + task.need(self._left)
        self._machines += 1
        if need <= length:
            self._spend_spot(need)
            self._left = 0.0
            return
        running = max(0.0, length - task.changeover_seconds)
        cycles = math.floor(running / task.cycle_seconds)
        saved = cycles * task.interval_seconds
        begun = min(running - cycles * task.cycle_seconds, task.interval_seconds)
        self._lost += min(begun, self._left - saved)
        self._left -= saved
        self._spend_spot(length)

    def _use_on_demand(self) -> None:
        """Work until well ahead of schedule with Spot available; change only after a save."""
        task = self._task
        self._machines += 1
        self._spend_on_demand(task.changeover_seconds)
        while self._left > 0:
            piece = min(self._left, task.interval_seconds)
            self._left -= piece
            self._spend_on_demand(piece + task.save_seconds)
            ahead = self._progress() - self._scheduled()
            is_enough = ahead >= 2 * task.changeover_seconds
            if is_enough and self._spot_at() == self._now and self._may_take_spot():
                return

    def _stay_on_demand(self) -> None:
        self._machines += 1
        self._spend_on_demand(self._task.changeover_seconds + self._task.need(self._left))
        self._left = 0.0

    def _spend_spot(self, seconds: float) -> None:
        self._now += seconds
        self._spot += seconds

    def _spend_on_demand(self, seconds: float) -> None:
        self._now += seconds
        self._on_demand += seconds
