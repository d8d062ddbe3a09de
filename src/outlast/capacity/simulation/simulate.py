"""Simulate many runs of a job at once, and sketch the distribution of their outcomes.

Pure and reproducible: the same job, supply and seed give the same numbers. All runs of a batch take
their next machine together, so that NumPy does the work; within the life of a machine no loop over
saves is needed, because their number follows from the time. Memory does not grow with the number of
runs: batches have a fixed size, and the caller aggregates them one by one.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from outlast.capacity.simulation.lifetimes import Floats
from outlast.capacity.simulation.model import MachineSupply, SimulatedJob

BATCH_RUNS = 16_384
LIVES_MAX = 500_000
"""A run that has lost this many machines is abandoned, regardless of the horizon."""

# The rows of the state of a batch, one column per run. `_ANNOUNCED` counts notices.
_REMAINING, _PAID, _FALLBACK, _WAIT, _RESTART, _REDONE, _ANNOUNCED = range(7)
_ROWS = 7

_BINS_PER_UNIT = 1000
_LEAST = 1e-6
_BINS = _BINS_PER_UNIT * 50


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulationOutcomes:
    """Where the time of each run of a batch went, in seconds, one entry per run.

    `paid_seconds` is the time with a machine, including `fallback_seconds` on the fallback. Paid
    time that is not restarting, saving, redone or leaving was lasting work. `finished` is false
    for a run that was abandoned at the horizon.
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
    job: SimulatedJob,
    supply: MachineSupply,
    *,
    runs: int,
    seed: int,
    horizon_seconds: float = math.inf,
) -> Iterator[SimulationOutcomes]:
    """Simulate `runs` runs and yield their outcomes batch by batch.

    A run that is not finished after `horizon_seconds` is abandoned.
    """
    if runs < 1:
        raise ValueError(f"runs: expected a whole number of at least 1, got {runs!r}.")
    sequences = np.random.SeedSequence(seed).spawn(-(-runs // BATCH_RUNS))
    for index, sequence in enumerate(sequences):
        count = min(BATCH_RUNS, runs - index * BATCH_RUNS)
        generator = np.random.Generator(np.random.SFC64(sequence))
        yield _Batch(job, supply, count, generator).run(horizon_seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class _NextMachines:
    """The next machine of each run: its lifetime, and whether it is leased or a fallback."""

    lifetimes: Floats
    is_leased: NDArray[np.bool_] | None = None
    is_fallback: NDArray[np.bool_] | None = None


class _Batch:
    """Runs that take their machines in lockstep. Finished runs are removed from the state.

    What is the same for all runs, such as the backoff, is kept as one number; what follows from
    the rest, such as the time for saves, is computed at the end.
    """

    def __init__(
        self, job: SimulatedJob, supply: MachineSupply, count: int, generator: np.random.Generator
    ):
        self._job = job
        self._supply = supply
        self._generator = generator
        # An interval longer than the work means a single save at the end.
        self._interval = min(job.interval_seconds, job.work_seconds)
        self._backoff_seconds = 0.0
        self._ids = np.arange(count)
        self._state = np.zeros((_ROWS, count))
        self._state[_REMAINING] = job.work_seconds
        self._retired = np.zeros((_ROWS, count))
        self._interruptions = np.zeros(count)
        self._finished = np.zeros(count, bool)

    def run(self, horizon_seconds: float) -> SimulationOutcomes:
        for life in range(LIVES_MAX):
            if life and self._supply.backoff is not None:
                self._backoff_seconds += self._supply.backoff.seconds(life)
            is_done = self._work(self._take_machines(life))
            is_over = is_done
            if horizon_seconds < math.inf or life == LIVES_MAX - 1:
                elapsed = self._state[_PAID] + self._state[_WAIT] + self._backoff_seconds
                is_over = is_done | (elapsed > horizon_seconds) | (life == LIVES_MAX - 1)
            if is_over.any():
                self._retire(is_over, is_done, life)
            if self._ids.size == 0:
                break
        return self._outcomes()

    def _take_machines(self, life: int) -> _NextMachines:
        """Wait for the next machine of each run."""
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
        return _NextMachines(lifetimes=lifetimes, is_leased=is_leased, is_fallback=is_fallback)

    def _fallback_waits(self, is_fallback: NDArray[np.bool_]) -> Floats:
        drawn = self._generator.standard_exponential(int(is_fallback.sum()))
        drawn *= self._supply.fallback_wait_seconds
        return drawn

    def _work(self, machines: _NextMachines) -> NDArray[np.bool_]:
        """Use one machine per run, and return which runs finished."""
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

    def _is_kept(self, machines: _NextMachines, is_done: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which runs keep their work: those that finished, or whose final save fit."""
        supply = self._supply
        if supply.announced_share == 0 and machines.is_leased is None:
            return is_done
        chance = self._generator.random(is_done.size)
        is_kept = chance < supply.kept_share
        is_announced = chance < supply.announced_share
        if machines.is_leased is not None:
            is_announced |= machines.is_leased
            is_kept |= machines.is_leased
        if supply.leave_seconds:
            self._state[_ANNOUNCED] += is_announced & ~is_done
        return is_done | is_kept

    def _retire(self, is_over: NDArray[np.bool_], is_done: NDArray[np.bool_], life: int) -> None:
        over, ongoing = np.flatnonzero(is_over), np.flatnonzero(~is_over)
        ids = self._ids[over]
        self._retired[:, ids] = self._state.take(over, axis=1)
        self._retired[_WAIT, ids] += self._backoff_seconds
        self._finished[ids] = is_done[over]
        self._interruptions[ids] = life + ~is_done[over]
        self._state = self._state.take(ongoing, axis=1)
        self._ids = self._ids[ongoing]

    def _outcomes(self) -> SimulationOutcomes:
        rows = self._retired
        leave = rows[_ANNOUNCED] * self._supply.leave_seconds
        done = self._job.work_seconds - rows[_REMAINING]
        return SimulationOutcomes(
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


class QuantileSketch:
    """Mean, quantiles and histogram of non-negative values, added one array at a time.

    The memory is constant: values are counted in bins of a relative width of 0.1 %, and assumed to
    be uniform within each, so quantiles are accurate to 0.1 %. Mean, minimum and maximum are exact.
    """

    def __init__(self) -> None:
        self.count = 0
        self.least = math.inf
        self.greatest = 0.0
        self._total = 0.0
        self._squares = 0.0
        self._bins = np.zeros(_BINS, np.int64)

    def add(self, values: Floats) -> None:
        if not values.size:
            return
        self.count += values.size
        self.least = min(self.least, float(values.min()))
        self.greatest = max(self.greatest, float(values.max()))
        self._total += float(values.sum())
        self._squares += float(values @ values)
        places = np.log(np.maximum(values, _LEAST) / _LEAST) * _BINS_PER_UNIT
        self._bins += np.bincount(np.minimum(places.astype(np.int64), _BINS - 1), minlength=_BINS)

    @property
    def mean(self) -> float:
        if self.least == self.greatest:
            # Summing equal values would add rounding errors.
            return self.least
        return self._total / self.count

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return math.sqrt(max(0.0, self._squares / self.count - (self._total / self.count) ** 2))

    def quantile(self, share: float) -> float:
        """The value that this share of all values does not exceed."""
        seen = np.cumsum(self._bins)
        place = int(np.searchsorted(seen, share * self.count, side="left"))
        above = share * self.count - int(seen[place]) + int(self._bins[place])
        part = above / max(1, int(self._bins[place]))
        low = max(_LEAST * math.exp(place / _BINS_PER_UNIT), self.least)
        high = min(_LEAST * math.exp((place + 1) / _BINS_PER_UNIT), self.greatest)
        return min(max(low + part * (high - low), self.least), self.greatest)

    def histogram(self, edges: Iterable[float]) -> list[int]:
        """The number of values between consecutive edges, to within the width of a bin."""
        bounds = np.log(np.maximum(np.fromiter(edges, float), _LEAST) / _LEAST) * _BINS_PER_UNIT
        seen = np.concatenate([[0], np.cumsum(self._bins)])
        places = np.clip(np.rint(bounds).astype(np.int64), 0, _BINS)
        return [int(count) for count in np.diff(seen[places])]
