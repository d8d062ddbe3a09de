"""When evictions happen and of which kind they are. The same seed gives the same schedule.

Evictions that are placed by the length of the baseline use the work clock: it runs while a node is
ready and has not been evicted. A job cannot finish before this clock has reached the work of the
baseline, so every eviction before that lands. Pure, except that `read_losses` reads a file.
"""

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from outlast.capacity.simulation.traces import Trace, TraceError, read_trace
from outlast.drills.errors import DrillError
from outlast.drills.run.records import EvictionMoment

EVICTIONS_MAX = 1000
"""The most evictions that a rate or a trace can result in."""

_FIRST, _LAST = 0.08, 0.8
"""The part of the work in which evictions happen. The rest allows for a faster run."""
_SLOT_FROM, _SLOT_TO = 0.4, 0.9
_BLIND_GAP_SECONDS = 1.0
_PAUSE_SECONDS_MAX = 0.02
_FAIR = frozenset({EvictionMoment.ANY, EvictionMoment.SAVE})
_HOSTILE = (EvictionMoment.SAVE, EvictionMoment.START_UP, EvictionMoment.LAST_SAVE)


class Clock(StrEnum):
    """The clock that the times of a schedule refer to."""

    WORK = "work"
    """Runs while a node is ready and has not been evicted."""
    ALIVE = "alive"
    """Runs while there is a node that has not been evicted."""
    WALL = "wall"


@dataclass(frozen=True, kw_only=True, slots=True)
class EvictionMix:
    """The shares of evictions that are harder than a notice with a full grace period."""

    no_notice: float
    hostile: float
    overlap: float


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedEviction:
    """An eviction to carry out.

    `draw` selects one of several victims, and how far into the startup they are evicted;
    `pause_seconds` is the wait after the first sign of a save. `outage_seconds` is how long no
    replacement is available. `node` is which node of a world to evict.
    """

    number: int
    at_seconds: float
    notice: bool
    moment: EvictionMoment
    overlap: bool
    draw: float
    pause_seconds: float
    outage_seconds: float = 0.0
    node: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """`needed` is how many evictions must land for the drill to be conclusive."""

    clock: Clock
    evictions: tuple[PlannedEviction, ...]
    needed: int


NO_EVICTIONS = Schedule(clock=Clock.WORK, evictions=(), needed=0)
"""The schedule of the baseline."""


def within(work_seconds: float, count: int, mix: EvictionMix, seed: int) -> Schedule:
    """`count` evictions spread over the work of the baseline."""
    rng = random.Random(seed)
    width = work_seconds * (_LAST - _FIRST) / count
    times = [
        work_seconds * _FIRST + width * (index + rng.uniform(_SLOT_FROM, _SLOT_TO))
        for index in range(count)
    ]
    return Schedule(clock=Clock.WORK, evictions=_kinds(times, mix, rng), needed=count)


def blind(count: int, mix: EvictionMix, seed: int) -> Schedule:
    """`count` evictions if the length of the work is unknown: about one per second of it."""
    rng = random.Random(seed)
    gap = _BLIND_GAP_SECONDS
    times = [gap * (index + rng.uniform(_SLOT_FROM, _SLOT_TO)) for index in range(count)]
    return Schedule(clock=Clock.WORK, evictions=_kinds(times, mix, rng), needed=count)


def every(mean_seconds: float, count: int | None, mix: EvictionMix, seed: int) -> Schedule:
    """Evictions at random intervals, which are distributed exponentially."""
    rng = random.Random(seed)
    times, now = [], 0.0
    for _ in range(count or EVICTIONS_MAX):
        now += rng.expovariate(1 / mean_seconds)
        times.append(now)
    evictions = tuple(_at_random(times, mix, rng))
    return Schedule(clock=Clock.ALIVE, evictions=evictions, needed=count or 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeLoss:
    """The loss of a node in a trace, after which there was none for `outage_seconds`."""

    at_seconds: float
    outage_seconds: float


def from_losses(
    losses: Sequence[NodeLoss],
    length_seconds: float | None,
    count: int | None,
    mix: EvictionMix,
    seed: int,
) -> Schedule:
    """The losses of a trace, with its time scaled to the length of the baseline."""
    rng = random.Random(seed)
    chosen = losses[: count or EVICTIONS_MAX]
    if length_seconds is None:
        length_seconds = _BLIND_GAP_SECONDS * len(chosen)
    scale = length_seconds * _LAST / chosen[-1].at_seconds
    planned = _at_random([loss.at_seconds * scale for loss in chosen], mix, rng)
    evictions = tuple(
        replace(one, outage_seconds=loss.outage_seconds * scale)
        for one, loss in zip(planned, chosen, strict=True)
    )
    return Schedule(clock=Clock.WALL, evictions=evictions, needed=len(chosen))


def over_nodes(schedule: Schedule, nodes: int, seed: int) -> Schedule:
    """The same schedule, with one node of a world for each eviction.

    Evictions with and without notice each go round all nodes before a node gets its next one.
    """
    rng = random.Random(f"{seed} nodes")
    rounds = {notice: _rounds(nodes, rng) for notice in (True, False)}
    evictions = tuple(replace(one, node=next(rounds[one.notice])) for one in schedule.evictions)
    return replace(schedule, evictions=evictions)


def _rounds(nodes: int, rng: random.Random) -> Iterator[int]:
    while True:
        yield from rng.sample(range(nodes), nodes)


def _kinds(
    times: Sequence[float], mix: EvictionMix, rng: random.Random
) -> tuple[PlannedEviction, ...]:
    """The requested shares as exactly as the count allows, in random order.

    Even few evictions should include each kind: of two or more, a share above zero is at least one.
    Kills without notice happen during a save first, where they do the most harm.
    """
    count = len(times)
    silent = _portion(mix.no_notice, count)
    hostile = _portion(mix.hostile, count)
    kinds: list[tuple[bool, EvictionMoment]] = []
    for index in range(hostile):
        moment = _HOSTILE[index % len(_HOSTILE)]
        if moment is EvictionMoment.START_UP:
            kinds.append((True, moment))
        elif silent == 0:
            kinds.append((True, EvictionMoment.SAVE))
        else:
            silent -= 1
            kinds.append((moment is EvictionMoment.LAST_SAVE, moment))
    plain = count - len(kinds)
    kinds += [(False, EvictionMoment.ANY)] * min(silent, plain)
    silent -= min(silent, plain)
    kinds += [(True, EvictionMoment.ANY)] * (count - len(kinds))
    # If kills are still missing, hostile evictions with a notice become kills.
    for index, (notice, moment) in enumerate(kinds):
        if silent and notice and moment is not EvictionMoment.LAST_SAVE:
            kinds[index] = (False, moment)
            silent -= 1
    rng.shuffle(kinds)
    if mix.no_notice < 1:
        _begin_fairly(kinds)
    overlaps = [True] * _portion(mix.overlap, count)
    overlaps += [False] * (count - len(overlaps))
    rng.shuffle(overlaps)
    drawn = zip(times, kinds, overlaps, strict=True)
    return tuple(
        _planned(number, at, notice, moment, overlap, rng)
        for number, (at, (notice, moment), overlap) in enumerate(drawn, start=1)
    )


def _begin_fairly(kinds: list[tuple[bool, EvictionMoment]]) -> None:
    """Let the first eviction be one with a notice and a full grace period.

    The first one always lands, so a drill always shows how the program uses its notice.
    """
    fair = [index for index, (notice, moment) in enumerate(kinds) if notice and moment in _FAIR]
    if not fair:
        with_notice = [(True, EvictionMoment.LAST_SAVE), (True, EvictionMoment.START_UP)]
        fair = [kinds.index(one) for one in with_notice if one in kinds][:1] or [0]
        kinds[fair[0]] = (True, EvictionMoment.SAVE)
    kinds.insert(0, kinds.pop(fair[0]))


def _portion(share: float, count: int) -> int:
    exact = round(share * count)
    return max(1, exact) if share > 0 and count > 1 else exact


def _at_random(
    times: Sequence[float], mix: EvictionMix, rng: random.Random
) -> Iterator[PlannedEviction]:
    for number, at in enumerate(times, start=1):
        notice = rng.random() >= mix.no_notice
        moment = rng.choice(_HOSTILE) if rng.random() < mix.hostile else EvictionMoment.ANY
        if moment is EvictionMoment.LAST_SAVE and notice:
            # An eviction that is meant to have a notice keeps its full grace period.
            moment = EvictionMoment.SAVE
        if number == 1 and mix.no_notice < 1:
            notice, moment = True, EvictionMoment.ANY
        notice = notice or moment is EvictionMoment.LAST_SAVE
        yield _planned(number, at, notice, moment, rng.random() < mix.overlap, rng)


def _planned(
    number: int, at: float, notice: bool, moment: EvictionMoment, overlap: bool, rng: random.Random
) -> PlannedEviction:
    # The first sign of a save is its start; every other time it may continue for a moment.
    pause = rng.uniform(0, _PAUSE_SECONDS_MAX) if rng.random() < 0.5 else 0.0
    return PlannedEviction(
        number=number,
        at_seconds=at,
        notice=notice,
        moment=moment,
        overlap=overlap,
        draw=rng.random(),
        pause_seconds=pause,
    )


class JobClocks:
    """Seconds since the start of a run: in total, with a node alive, and with a node at work."""

    def __init__(self, *, now: float) -> None:
        self._now = now
        self._began = now
        self._seconds = {Clock.WALL: 0.0, Clock.ALIVE: 0.0, Clock.WORK: 0.0}

    def advance(self, now: float, *, alive: bool, working: bool) -> None:
        """Count the time since the last call; `alive` and `working` describe that time."""
        passed = now - self._now
        self._now = now
        self._seconds[Clock.WALL] = now - self._began
        if alive:
            self._seconds[Clock.ALIVE] += passed
        if working:
            self._seconds[Clock.WORK] += passed

    def seconds(self, clock: Clock) -> float:
        return self._seconds[clock]


def read_losses(path: Path, *, workers: int = 1) -> list[NodeLoss]:
    """The losses in a trace since its first machine. Raises `DrillError` if there are none."""
    try:
        losses = losses_of(read_trace(path), workers=workers)
    except TraceError as error:
        raise DrillError(str(error), hint=error.hint) from error
    if not losses:
        raise DrillError(
            f"The trace {str(path)!r} contains no loss of a machine.",
            hint="Use another trace, or --evictions.",
        )
    return losses


def losses_of(trace: Trace, *, workers: int) -> list[NodeLoss]:
    """The losses in a trace. Simultaneous losses cost each worker at most one node.

    If no machine is left, the outage lasts until the next one starts, if one does.
    """
    starts = sorted(life.start_seconds for life in trace.lives)
    ends = sorted(life.end_seconds for life in trace.lives)
    lost = Counter(life.end_seconds for life in trace.lives if life.lost)
    losses: list[NodeLoss] = []
    for at_seconds, count in sorted(lost.items()):
        came = bisect_right(starts, at_seconds)
        is_empty = came == bisect_right(ends, at_seconds)
        back_seconds = starts[came] if is_empty and came < len(starts) else at_seconds
        loss = NodeLoss(at_seconds=at_seconds - starts[0], outage_seconds=back_seconds - at_seconds)
        losses += [loss] * min(count, workers)
    return losses[:EVICTIONS_MAX]
