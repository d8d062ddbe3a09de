"""When the nodes of a leg were at work, as the drill's own clock of work counts it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outlast.drill.records import Eviction, Handling, Leg


@dataclass(frozen=True, kw_only=True, slots=True)
class Climb:
    """A stretch of work from `start` to `end`; `before` and `after` are the work until then.

    `attempt` is None where several attempts were at work at once.
    """

    start: float
    end: float
    before: float
    after: float
    attempt: int | None


def climbs_of(leg: Leg) -> list[Climb]:
    """The stretches in which at least one node was at work, in their order."""
    climbs: list[Climb] = []
    done = 0.0
    for start, end, attempt in _joined(sorted(_spans(leg))):
        climbs.append(
            Climb(start=start, end=end, before=done, after=done + end - start, attempt=attempt)
        )
        done += end - start
    return climbs


def _spans(leg: Leg) -> Iterator[tuple[float, float, int]]:
    evictions = {one.attempt: one for one in leg.evictions}
    for one in leg.attempts:
        if one.ready_seconds is None:
            continue
        eviction = evictions.get(one.number)
        end = one.ended_seconds
        if eviction is not None and _was_heard(eviction):
            end = eviction.at_seconds
        if end > one.ready_seconds:
            yield one.ready_seconds, end, one.number


def _was_heard(eviction: Eviction) -> bool:
    """What never heard its notice works on until it is killed."""
    return eviction.notice and eviction.handling in (Handling.CAUGHT, Handling.UNKNOWN)


def _joined(
    spans: Sequence[tuple[float, float, int]],
) -> Iterator[tuple[float, float, int | None]]:
    current: tuple[float, float, int | None] | None = None
    for start, end, attempt in spans:
        if current is not None and start < current[1]:
            current = (current[0], max(current[1], end), None)
            continue
        if current is not None:
            yield current
        current = (start, end, attempt)
    if current is not None:
        yield current
