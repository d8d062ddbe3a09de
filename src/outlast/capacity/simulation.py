"""Simulate many runs of a job at once, machine life by machine life.

Pure and reproducible: the same job, supply and seed give the same numbers. All runs of a batch take
their next machine together, so that NumPy does the work; within one life the saves need no loop,
because their number follows from the time. Memory does not grow with the number of runs: batches
have one size, and the caller folds them as they come.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outlast.capacity.interruptions import Floats
from outlast.capacity.model import Job, Supply

BATCH_RUNS = 16_384
LIVES_MAX = 500_000
"""A run that has lost so many machines is given up, whatever the horizon."""

# The rows of a batch's state, one column per run. `_TOLD` counts notices.
_REMAINING, _PAID, _FALLBACK, _WAIT, _RESTART, _REDONE, _TOLD = range(7)
_ROWS = 7


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcomes:
    """Where the time of each run of a batch went, in seconds, one entry per run.

    `paid_seconds` is the time with a machine; of it, `fallback_seconds` on the fallback. What is
    not `restart`, `save`, `redone` or `leave` of the paid time was lasting work. `finished` is
    false for a run that was given up at the horizon.
    """

    paid_seconds: Floats
    fallback_seconds: Floats
    wait_seconds: Floats
    restart_seconds: Floats
    save_seconds: Floats
    redone_seconds: Floats
    leave_seconds: Floats
    interruptions: Floats
    finished: NDArray[np.bool_]

    @property
    def elapsed_seconds(self) -> Floats:
        elapsed: Floats = self.paid_seconds + self.wait_seconds
        return elapsed


def simulate(
    job: Job, supply: Supply, *, runs: int, seed: int, horizon_seconds: float = math.inf
) -> Iterator[Outcomes]:
    """The outcomes of so many runs, batch by batch.

    A run that is not done when `horizon_seconds` have passed is given up.
    """
    if runs < 1:
        raise ValueError(f"runs is {runs!r}; a whole number from 1 is expected.")
    sequences = np.random.SeedSequence(seed).spawn(-(-runs // BATCH_RUNS))
    for index, sequence in enumerate(sequences):
        count = min(BATCH_RUNS, runs - index * BATCH_RUNS)
        generator = np.random.Generator(np.random.SFC64(sequence))
        yield _Batch(job, supply, count, generator).run(horizon_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Machines:
    """The next machine of each run: how long it lives, and what is special about it."""

    lifetimes: Floats
    is_leased: NDArray[np.bool_] | None = None
    is_fallback: NDArray[np.bool_] | None = None


class _Batch:
    """Runs that take their machines in step. Those that are over leave the state.

    What is the same for all runs in step, such as the back-off, is kept as one number; what follows
    from the rest, such as the time for saves, is worked out at the end.
    """

    def __init__(self, job: Job, supply: Supply, count: int, generator: np.random.Generator):
        self._job = job
        self._supply = supply
        self._generator = generator
        # An interval longer than the work is the work: one save, at the end.
        self._interval = min(job.interval_seconds, job.work_seconds)
        self._back_off_seconds = 0.0
        self._ids = np.arange(count)
        self._state = np.zeros((_ROWS, count))
        self._state[_REMAINING] = job.work_seconds
        self._retired = np.zeros((_ROWS, count))
        self._interruptions = np.zeros(count)
        self._finished = np.zeros(count, bool)

    def run(self, horizon_seconds: float) -> Outcomes:
        for life in range(LIVES_MAX):
            if life and self._supply.back_off is not None:
                self._back_off_seconds += self._supply.back_off.seconds(life)
            is_done = self._work(self._take_machines(life))
            is_over = is_done
            if horizon_seconds < math.inf or life == LIVES_MAX - 1:
                elapsed = self._state[_PAID] + self._state[_WAIT] + self._back_off_seconds
                is_over = is_done | (elapsed > horizon_seconds) | (life == LIVES_MAX - 1)
            if is_over.any():
                self._retire(is_over, is_done, life)
            if self._ids.size == 0:
                break
        return self._outcomes()

    def _take_machines(self, life: int) -> _Machines:
        """Wait for the next machines."""
        supply, count = self._supply, self._ids.size
        lifetimes = supply.lifetimes.draw(self._generator, count)
        is_leased = is_fallback = None
        if supply.lease_seconds < math.inf:
            is_leased = lifetimes >= supply.lease_seconds
            lifetimes[is_leased] = supply.lease_seconds
        mean_wait = supply.wait_seconds if life else supply.first_wait_seconds
        if mean_wait > 0:
            wait = self._generator.standard_exponential(count)
            wait *= mean_wait
            if supply.patience_seconds < math.inf:
                is_fallback = wait > supply.patience_seconds
                wait[is_fallback] = supply.patience_seconds + self._fallback_waits(is_fallback)
                lifetimes[is_fallback] = supply.fallback_lease_seconds
                if supply.fallback_lease_seconds < math.inf:
                    is_leased = is_fallback if is_leased is None else is_leased | is_fallback
            self._state[_WAIT] += wait
        return _Machines(lifetimes=lifetimes, is_leased=is_leased, is_fallback=is_fallback)

    def _fallback_waits(self, is_fallback: NDArray[np.bool_]) -> Floats:
        drawn = self._generator.standard_exponential(int(is_fallback.sum()))
        drawn *= self._supply.fallback_wait_seconds
        return drawn

    def _work(self, machines: _Machines) -> NDArray[np.bool_]:
        """Live one life each, and say who got done."""
        job, state, lifetimes = self._job, self._state, machines.lifetimes
        interval, cycle = self._interval, self._interval + job.save_seconds
        remaining = state[_REMAINING]
        need = np.ceil(remaining / interval)
        need *= job.save_seconds
        need += remaining
        if job.lag_seconds:
            need[remaining > 0] += job.lag_seconds
        used = lifetimes - job.restart_seconds
        is_done = used >= need
        np.minimum(used, need, out=used)
        np.maximum(used, 0.0, out=used)
        cycles = np.floor(used / cycle)
        worked = used - cycles * cycle
        np.minimum(worked, interval, out=worked)
        worked += cycles * interval
        np.minimum(worked, remaining, out=worked)
        if job.lag_seconds:
            cycles = np.floor(np.maximum(used - job.lag_seconds, 0.0) / cycle)
        cycles *= interval
        kept = np.where(self._is_kept(machines, is_done), worked, cycles)
        need += job.restart_seconds
        paid = np.where(is_done, need, lifetimes)
        state[_PAID] += paid
        if machines.is_fallback is not None:
            state[_FALLBACK] += np.where(machines.is_fallback, paid, 0.0)
        state[_RESTART] += np.minimum(lifetimes, job.restart_seconds)
        state[_REDONE] += worked
        state[_REDONE] -= kept
        remaining -= kept
        return np.asarray(is_done, bool)

    def _is_kept(self, machines: _Machines, is_done: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whose work is kept: those that got done, and those whose notice came in time."""
        supply = self._supply
        if supply.announced_share == 0 and machines.is_leased is None:
            return is_done
        chance = self._generator.random(is_done.size)
        is_kept = chance < supply.kept_share
        is_told = chance < supply.announced_share
        if machines.is_leased is not None:
            is_told |= machines.is_leased
            is_kept |= machines.is_leased
        if supply.leave_seconds:
            self._state[_TOLD] += is_told & ~is_done
        return is_done | is_kept

    def _retire(self, is_over: NDArray[np.bool_], is_done: NDArray[np.bool_], life: int) -> None:
        over, stay = np.flatnonzero(is_over), np.flatnonzero(~is_over)
        ids = self._ids[over]
        self._retired[:, ids] = self._state.take(over, axis=1)
        self._retired[_WAIT, ids] += self._back_off_seconds
        self._finished[ids] = is_done[over]
        self._interruptions[ids] = life + ~is_done[over]
        self._state = self._state.take(stay, axis=1)
        self._ids = self._ids[stay]

    def _outcomes(self) -> Outcomes:
        rows = self._retired
        leave = rows[_TOLD] * self._supply.leave_seconds
        done = self._job.work_seconds - rows[_REMAINING]
        return Outcomes(
            paid_seconds=rows[_PAID] + leave,
            fallback_seconds=rows[_FALLBACK],
            wait_seconds=rows[_WAIT],
            restart_seconds=rows[_RESTART],
            save_seconds=np.maximum(rows[_PAID] - done - rows[_REDONE] - rows[_RESTART], 0.0),
            redone_seconds=rows[_REDONE],
            leave_seconds=leave,
            interruptions=self._interruptions,
            finished=self._finished,
        )
