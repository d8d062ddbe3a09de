"""A run's steps over time as lines: what each attempt did, what was lost, what is not known. Pure.

Places are pairs of seconds and steps. A journal is thinned out before it gets here, and a kill
takes its last lines along, so that an attempt may have gone further than its last point.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from outlast.drill.evidence import Point, RunEvidence
from outlast.drill.page.strokes import Place
from outlast.drill.records import Leg


@dataclass(frozen=True, kw_only=True, slots=True)
class Lives:
    """`lives` has a line for each attempt of the run, empty where nothing is known of it.

    `lost` are the pieces that the next attempt did again, `waits` lead from the end of an attempt
    to the start of the next, `unknown` to where the next one began beyond the last known step.
    """

    lives: tuple[list[Place], ...]
    lost: tuple[list[Place], ...]
    waits: tuple[list[Place], ...]
    unknown: tuple[list[Place], ...]


def lives_of(run: RunEvidence, leg: Leg) -> Lives:
    lives = tuple(_lives(run, leg))
    resumed = _resumed_at(run)
    ended = {one.number: one.ended_seconds for one in leg.attempts}
    ends = [ended.get(one.attempt or 0, 0.0) for one in run.attempts]
    pieces = (_lost(life, step) for life, step in zip(lives, resumed, strict=True))
    return Lives(
        lives=lives,
        lost=tuple(piece for piece in pieces if piece),
        waits=tuple(_waits(lives, resumed, ends)),
        unknown=tuple(_unknown(lives, resumed, ends)),
    )


def _lives(run: RunEvidence, leg: Leg) -> Iterator[list[Place]]:
    attempts = {one.number: one for one in leg.attempts}
    points: dict[int | None, list[Point]] = {}
    for point in run.progress:
        points.setdefault(point.attempt, []).append(point)
    for one in run.attempts:
        attempt = attempts.get(one.attempt) if one.attempt is not None else None
        if attempt is None or one.first_step is None:
            yield []
            continue
        known = [(p.seconds, float(p.step)) for p in points.get(one.attempt, ())]
        begun = attempt.ready_seconds or attempt.started_seconds
        line = [(min([begun, *(x for x, _ in known[:1])]), float(one.first_step)), *known]
        if one.last_step > line[-1][1]:
            line.append((attempt.ended_seconds, float(one.last_step)))
        yield line


def _resumed_at(run: RunEvidence) -> list[float | None]:
    """For each attempt, the step at which the next one began; None for the last."""
    found: list[float | None] = []
    after: float | None = None
    for one in reversed(run.attempts):
        found.append(after)
        after = after if one.first_step is None else float(one.first_step)
    return found[::-1]


def _lost(life: list[Place], resumed: float | None) -> list[Place]:
    if resumed is None or not life or life[-1][1] <= resumed:
        return []
    index = next(i for i, (_, step) in enumerate(life) if step > resumed)
    if index == 0:
        return life
    (x1, y1), (x2, y2) = life[index - 1], life[index]
    return [(x1 + (x2 - x1) * (resumed - y1) / (y2 - y1), resumed), *life[index:]]


def _waits(
    lives: Sequence[list[Place]], resumed: Sequence[float | None], ends: Sequence[float]
) -> Iterator[list[Place]]:
    """First back to the step that was kept, then on to the start of the next attempt."""
    known = [one for one in zip(lives, resumed, ends, strict=True) if one[0]]
    for (life, step, ended), (after, _, _) in pairwise(known):
        (seen, reached), start = life[-1], after[0][0]
        if step is not None and step <= reached and start >= seen:
            yield [(seen, reached), (seen, step), (start, step)]
        elif step is not None and step > reached and start >= ended:
            yield [(ended, step), (start, step)]


def _unknown(
    lives: Sequence[list[Place]], resumed: Sequence[float | None], ends: Sequence[float]
) -> Iterator[list[Place]]:
    for life, step, ended in zip(lives, resumed, ends, strict=True):
        if life and step is not None and step > life[-1][1]:
            yield [life[-1], (ended, step)]
