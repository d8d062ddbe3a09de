"""Follow a run through a trace: which machines it would have used, and when.

Pure. A run takes a random available machine, keeps it until it is lost, and takes the next; while
none is available, it waits.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from outlast.capacity.simulation.lifetimes import Floats
from outlast.capacity.simulation.traces import MachinePeriod, Trace


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionTable:
    """The sessions of many runs, one row per run, padded with sessions of length 0."""

    seconds: Floats
    is_lost: NDArray[np.bool_]

    @classmethod
    def of(cls, runs: Sequence[Sequence[MachinePeriod]]) -> "SessionTable":
        shape = len(runs), max(map(len, runs), default=0)
        seconds, is_lost = np.zeros(shape), np.zeros(shape, bool)
        for row, sessions in enumerate(runs):
            seconds[row, : len(sessions)] = [session.seconds for session in sessions]
            is_lost[row, : len(sessions)] = [session.lost for session in sessions]
        return cls(seconds=seconds, is_lost=is_lost)

    def unannounced(self, share: float, *, seed: int) -> NDArray[np.bool_]:
        """Draw which losses come without notice, for a given share of them."""
        if not 0 <= share <= 1:
            raise ValueError(f"share: expected a number from 0 to 1, got {share!r}.")
        chance = np.random.Generator(np.random.SFC64(seed)).random(self.is_lost.shape)
        return self.is_lost & (chance < share)

    @property
    def lives(self) -> list[tuple[float, bool]]:
        """The length of each session, and whether its machine was lost."""
        is_there = self.seconds > 0
        seconds, is_lost = self.seconds[is_there].tolist(), self.is_lost[is_there].tolist()
        return list(zip(seconds, is_lost, strict=True))

    @property
    def machine_seconds(self) -> Floats:
        """The machine time of each run."""
        return np.asarray(self.seconds.sum(axis=1), float)


class TracePool:
    """The machines of a trace, looked up by time."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._starts = np.array([life.start_seconds for life in trace.lives])
        self._ends = np.array([life.end_seconds for life in trace.lives])
        self._born = np.sort(self._starts)
        self.is_single = bool((self._starts[1:] >= self._ends[:-1]).all())

    def follow(self, start_seconds: float, *, seed: int) -> list[MachinePeriod]:
        """The sessions of a run from `start_seconds` to the end of the trace."""
        if self.is_single:
            return self._follow_single(start_seconds)
        chance = random.Random(f"{seed}:{start_seconds!r}")
        sessions = []
        now = self.next_chance(start_seconds)
        while now is not None:
            session = self.take(now, chance)
            sessions.append(session)
            now = self.next_chance(session.end_seconds)
        return sessions

    def follow_all(self, *, every_seconds: float, seed: int) -> list[list[MachinePeriod]]:
        """The sessions of runs that start at regular intervals."""
        count = max(1, int(self.trace.seconds // every_seconds))
        return [self.follow(index * every_seconds, seed=seed) for index in range(count)]

    def next_chance(self, now_seconds: float) -> float | None:
        """When the next machine is available, which may be now; None if never again."""
        if now_seconds >= self.trace.seconds:
            return None
        if self._is_there(now_seconds).any():
            return now_seconds
        place = int(np.searchsorted(self._born, now_seconds, side="right"))
        return float(self._born[place]) if place < self._born.size else None

    def take(self, now_seconds: float, chance: random.Random) -> MachinePeriod:
        """Take a random one of the machines available now."""
        there = np.flatnonzero(self._is_there(now_seconds))
        life = self.trace.lives[int(there[chance.randrange(there.size)])]
        return replace(life, start_seconds=now_seconds)

    def _follow_single(self, start_seconds: float) -> list[MachinePeriod]:
        """With one machine at a time there is no choice: all runs get the same machines."""
        place = int(np.searchsorted(self._ends, start_seconds, side="right"))
        sessions = list(self.trace.lives[place:])
        if sessions and sessions[0].start_seconds < start_seconds:
            sessions[0] = replace(sessions[0], start_seconds=start_seconds)
        return sessions

    def _is_there(self, now_seconds: float) -> NDArray[np.bool_]:
        return (self._starts <= now_seconds) & (self._ends > now_seconds)


def mean_wait_in(trace: Trace) -> float:
    """The mean seconds from the loss of a machine until another one is available.

    A pool often has another one immediately. A wait that is cut off by the end of the trace counts
    as waiting time, but not as a completed wait.
    """
    pool = TracePool(trace)
    waited_seconds, ended = 0.0, 0
    for life in trace.lives:
        if life.lost:
            found = pool.next_chance(life.end_seconds)
            ended += found is not None
            until = trace.seconds if found is None else found
            waited_seconds += until - life.end_seconds
    return waited_seconds / max(1, ended)
