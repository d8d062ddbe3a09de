"""Where evictions fall, and of what kind they are. Pure: the same seed gives the same schedule.

Placed by the length of the baseline, evictions fall on the clock of work: it runs while a node is
ready and nobody has told it to stop. A job cannot be done before this clock has reached the work of
the baseline, so every eviction below that lands.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from outlast.drill.records import Moment

EVICTIONS_MAX = 1000
"""Where the number follows from a rate or a trace, there are no more than this."""

_FIRST, _LAST = 0.08, 0.8
"""The part of the work in which evictions fall. The rest is for a leg that runs faster."""
_SLOT_FROM, _SLOT_TO = 0.4, 0.9
_BLIND_GAP_SECONDS = 1.0
_PAUSE_SECONDS_MAX = 0.02
_HOSTILE = (Moment.SAVE, Moment.START_UP, Moment.LAST_SAVE)


class Clock(StrEnum):
    """What the times of a schedule are counted in."""

    WORK = "work"
    """Runs while a node is ready and was not told to stop."""
    ALIVE = "alive"
    """Runs while there is a node that was not told to stop."""
    WALL = "wall"


@dataclass(frozen=True, kw_only=True, slots=True)
class Mix:
    """The shares of evictions that are worse than a notice with a full grace period."""

    no_notice: float
    hostile: float
    duplicates: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Planned:
    """An eviction to come.

    `draw` decides between several victims, and how far into the start-up it strikes; `pause` is how
    long after the first sign of a save. `outage_seconds` is for how long there is no other node.
    """

    number: int
    at_seconds: float
    notice: bool
    moment: Moment
    overlap: bool
    draw: float
    pause_seconds: float
    outage_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """`needed` is how many must land for the drill to have shown anything."""

    clock: Clock
    evictions: tuple[Planned, ...]
    needed: int


CALM = Schedule(clock=Clock.WORK, evictions=(), needed=0)
"""The schedule of the baseline."""


def within(work_seconds: float, count: int, mix: Mix, seed: int) -> Schedule:
    """So many evictions spread over the work of the baseline."""
    rng = random.Random(seed)
    width = work_seconds * (_LAST - _FIRST) / count
    times = [
        work_seconds * _FIRST + width * (index + rng.uniform(_SLOT_FROM, _SLOT_TO))
        for index in range(count)
    ]
    return Schedule(clock=Clock.WORK, evictions=_kinds(times, mix, rng), needed=count)


def blind(count: int, mix: Mix, seed: int) -> Schedule:
    """So many evictions where the length of the work is not known: about one a second of it."""
    rng = random.Random(seed)
    gap = _BLIND_GAP_SECONDS
    times = [gap * (index + rng.uniform(_SLOT_FROM, _SLOT_TO)) for index in range(count)]
    return Schedule(clock=Clock.WORK, evictions=_kinds(times, mix, rng), needed=count)


def every(mean_seconds: float, count: int | None, mix: Mix, seed: int) -> Schedule:
    """Evictions at a rate: the time between two is exponential."""
    rng = random.Random(seed)
    times, now = [], 0.0
    for _ in range(count or EVICTIONS_MAX):
        now += rng.expovariate(1 / mean_seconds)
        times.append(now)
    evictions = tuple(_by_chance(times, mix, rng))
    return Schedule(clock=Clock.ALIVE, evictions=evictions, needed=count or 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Loss:
    """A trace lost a node at this time, and had no other for `outage_seconds`."""

    at_seconds: float
    outage_seconds: float


def from_losses(
    losses: Sequence[Loss], length_seconds: float | None, count: int | None, mix: Mix, seed: int
) -> Schedule:
    """The losses of a trace, its time scaled so that they fit into the length of the baseline."""
    rng = random.Random(seed)
    chosen = losses[: count or EVICTIONS_MAX]
    if length_seconds is None:
        length_seconds = _BLIND_GAP_SECONDS * len(chosen)
    scale = length_seconds * _LAST / chosen[-1].at_seconds
    planned = _by_chance([loss.at_seconds * scale for loss in chosen], mix, rng)
    evictions = tuple(
        replace(one, outage_seconds=loss.outage_seconds * scale)
        for one, loss in zip(planned, chosen, strict=True)
    )
    return Schedule(clock=Clock.WALL, evictions=evictions, needed=len(chosen))


def _kinds(times: Sequence[float], mix: Mix, rng: random.Random) -> tuple[Planned, ...]:
    """Exactly the shares asked for, as far as the number allows, in an order by chance.

    Few evictions should still show each kind once: a share above zero of two or more is at least
    one. The kill without notice strikes in the middle of a save first, because that is where it
    does most harm.
    """
    count = len(times)
    silent = _portion(mix.no_notice, count)
    hostile = _portion(mix.hostile, count)
    kinds: list[tuple[bool, Moment]] = []
    for index in range(hostile):
        moment = _HOSTILE[index % len(_HOSTILE)]
        if moment is Moment.START_UP:
            kinds.append((True, moment))
        elif silent == 0:
            kinds.append((True, Moment.SAVE))
        else:
            silent -= 1
            kinds.append((moment is Moment.LAST_SAVE, moment))
    calm = count - len(kinds)
    kinds += [(False, Moment.ANY)] * min(silent, calm)
    silent -= min(silent, calm)
    kinds += [(True, Moment.ANY)] * (count - len(kinds))
    # What the share of kills is still short of is taken from the hostile ones with a notice.
    for index, (notice, moment) in enumerate(kinds):
        if silent and notice and moment is not Moment.LAST_SAVE:
            kinds[index] = (False, moment)
            silent -= 1
    rng.shuffle(kinds)
    overlaps = [True] * _portion(mix.duplicates, count)
    overlaps += [False] * (count - len(overlaps))
    rng.shuffle(overlaps)
    drawn = zip(times, kinds, overlaps, strict=True)
    return tuple(
        _planned(number, at, notice, moment, overlap, rng)
        for number, (at, (notice, moment), overlap) in enumerate(drawn, start=1)
    )


def _portion(share: float, count: int) -> int:
    exact = round(share * count)
    return max(1, exact) if share > 0 and count > 1 else exact


def _by_chance(times: Sequence[float], mix: Mix, rng: random.Random) -> Iterator[Planned]:
    for number, at in enumerate(times, start=1):
        notice = rng.random() >= mix.no_notice
        moment = rng.choice(_HOSTILE) if rng.random() < mix.hostile else Moment.ANY
        if moment is Moment.LAST_SAVE and notice:
            # The grace period is kept for those that are to have a notice.
            moment = Moment.SAVE
        notice = notice or moment is Moment.LAST_SAVE
        yield _planned(number, at, notice, moment, rng.random() < mix.duplicates, rng)


def _planned(
    number: int, at: float, notice: bool, moment: Moment, overlap: bool, rng: random.Random
) -> Planned:
    # The first sign of a save is its beginning; every other time it is let go on for a little.
    pause = rng.uniform(0, _PAUSE_SECONDS_MAX) if rng.random() < 0.5 else 0.0
    return Planned(
        number=number,
        at_seconds=at,
        notice=notice,
        moment=moment,
        overlap=overlap,
        draw=rng.random(),
        pause_seconds=pause,
    )
