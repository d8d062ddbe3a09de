"""Follow a run through a trace: which machines it would have had, from when to when.

Pure. A run takes any machine that is there, each as likely, keeps it until it is lost, and takes
the next; while none is there, it waits.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from outlast.capacity.interruptions import Floats
from outlast.capacity.traces import Life, Trace


@dataclass(frozen=True, kw_only=True, slots=True)
class Stay:
    """A run on one machine, from when to when. `lost` is false if the trace ended before it."""

    start_seconds: float
    end_seconds: float
    lost: bool

    @property
    def seconds(self) -> float:
        return self.end_seconds - self.start_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Stays:
    """The stays of many runs, one row per run, filled up with stays of no length."""

    seconds: Floats
    is_lost: NDArray[np.bool_]

    @classmethod
    def of(cls, runs: Sequence[Sequence[Stay]]) -> "Stays":
        shape = len(runs), max(map(len, runs), default=0)
        seconds, is_lost = np.zeros(shape), np.zeros(shape, bool)
        for row, stays in enumerate(runs):
            seconds[row, : len(stays)] = [stay.seconds for stay in stays]
            is_lost[row, : len(stays)] = [stay.lost for stay in stays]
        return cls(seconds=seconds, is_lost=is_lost)

    def unannounced(self, share: float, *, seed: int) -> NDArray[np.bool_]:
        """Which losses come without a notice, if that is so of such a share of them."""
        if not 0 <= share <= 1:
            raise ValueError(f"share is {share!r}; a share is 0 to 1.")
        chance = np.random.Generator(np.random.SFC64(seed)).random(self.is_lost.shape)
        return self.is_lost & (chance < share)

    @property
    def machine_seconds(self) -> Floats:
        """How long each run had a machine."""
        return np.asarray(self.seconds.sum(axis=1), float)


class Pool:
    """The machines of a trace, asked for by time."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._starts = np.array([life.start_seconds for life in trace.lives])
        self._ends = np.array([life.end_seconds for life in trace.lives])
        self._born = np.sort(self._starts)
        self.is_single = bool((self._starts[1:] >= self._ends[:-1]).all())
        self._lives = [_stay(life) for life in trace.lives]

    def follow(self, start_seconds: float, *, seed: int) -> list[Stay]:
        """The stays of a run from this moment to the end of the trace."""
        if self.is_single:
            return self._follow_single(start_seconds)
        chance = random.Random(f"{seed}:{start_seconds!r}")
        stays = []
        now = self.next_chance(start_seconds)
        while now is not None:
            stay = self.take(now, chance)
            stays.append(stay)
            now = self.next_chance(stay.end_seconds)
        return stays

    def follow_all(self, *, every_seconds: float, seed: int) -> list[list[Stay]]:
        """The stays of runs that start at regular times of the trace."""
        count = max(1, int(self.trace.seconds // every_seconds))
        return [self.follow(index * every_seconds, seed=seed) for index in range(count)]

    def next_chance(self, now_seconds: float) -> float | None:
        """When a machine can be had, from now on; None if never again."""
        if now_seconds >= self.trace.seconds:
            return None
        if self._is_there(now_seconds).any():
            return now_seconds
        place = int(np.searchsorted(self._born, now_seconds, side="right"))
        return float(self._born[place]) if place < self._born.size else None

    def take(self, now_seconds: float, chance: random.Random) -> Stay:
        """One of the machines that are there now."""
        there = np.flatnonzero(self._is_there(now_seconds))
        life = self.trace.lives[int(there[chance.randrange(there.size)])]
        return Stay(start_seconds=now_seconds, end_seconds=life.end_seconds, lost=life.lost)

    def _follow_single(self, start_seconds: float) -> list[Stay]:
        """With one machine at a time there is nothing to choose: all runs meet the same lives."""
        place = int(np.searchsorted(self._ends, start_seconds, side="right"))
        stays = self._lives[place:]
        if stays and stays[0].start_seconds < start_seconds:
            stays[0] = replace(stays[0], start_seconds=start_seconds)
        return stays

    def _is_there(self, now_seconds: float) -> NDArray[np.bool_]:
        return (self._starts <= now_seconds) & (self._ends > now_seconds)


def _stay(life: Life) -> Stay:
    return Stay(start_seconds=life.start_seconds, end_seconds=life.end_seconds, lost=life.lost)
