"""How much work an eviction cost, as far as it is known. Pure.

A journal counts steps. Of a kill its last lines may be missing, so that it only says: at least so
many. Without a journal there is the time since the attempt last wrote anything, which is a bound if
that write was a save. A command that starts over loses all of its work.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from outlast.drill.changes import QUIET_SECONDS
from outlast.drill.records import Attempt, Eviction, Save
from outlast.drill.report import Report

_SHOWN_SECONDS_MIN = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkLost:
    """`steps` is None without a journal; `seconds_max` if several attempts may have written.

    `is_minimum` is said of the steps, `is_all` of the seconds: that it is all that was done.
    """

    eviction: Eviction
    steps: int | None
    is_minimum: bool
    seconds_max: float | None
    is_all: bool = False

    def __str__(self) -> str:
        if self.steps is not None and (self.steps or not self.is_minimum):
            least = "at least " if self.is_minimum else ""
            return f"{least}{self.steps:,} step{'s' if self.steps != 1 else ''}"
        if self.seconds_max is None:
            return "not known"
        if self.seconds_max < _SHOWN_SECONDS_MIN:
            return "nothing"
        return f"{'all of' if self.is_all else 'up to'} {self.seconds_max:.1f} s"


def work_lost(report: Report) -> list[WorkLost]:
    """What each eviction cost, in their order."""
    leg = report.disturbed
    if leg is None:
        return []
    steps = report.steps_lost
    attempts = {one.number: one for one in leg.attempts}
    beside = _not_alone(leg.attempts)
    starts_over = any(one.code == "started-over" and not one.ok for one in report.verdicts)

    def seconds_lost(one: Eviction) -> float | None:
        if one.exit_code == 0 and not one.unfinished_zero:
            return 0.0
        if starts_over:
            return one.work_seconds
        if one.attempt in beside or one.attempt not in attempts:
            return None
        return _seconds_since_write(one, attempts[one.attempt], leg.saves)

    return [
        WorkLost(
            eviction=one,
            steps=steps.get(one.number),
            is_minimum=one.killed,
            seconds_max=seconds_lost(one),
            is_all=starts_over,
        )
        for one in leg.evictions
    ]


def _not_alone(attempts: Sequence[Attempt]) -> set[int]:
    """The attempts beside which another one ran, so that no write can be told to be theirs."""
    found: set[int] = set()
    longest: Attempt | None = None
    for one in sorted(attempts, key=lambda one: one.started_seconds):
        if longest is not None and one.started_seconds < longest.ended_seconds:
            found |= {longest.number, one.number}
        if longest is None or one.ended_seconds > longest.ended_seconds:
            longest = one
    return found


def _seconds_since_write(eviction: Eviction, attempt: Attempt, saves: Sequence[Save]) -> float:
    """Work between the last write that can have been a whole save and the eviction."""
    until = attempt.ended_seconds
    if eviction.killed:
        # A write that began shortly before a kill may not have come to its end.
        until = min(eviction.at_seconds, attempt.ended_seconds - QUIET_SECONDS)
    index = bisect_right(saves, until, key=lambda one: one.at_seconds)
    since = _last_write(saves[index - 1], until, eviction) if index else 0.0
    if since < attempt.started_seconds:
        return eviction.work_seconds
    return min(eviction.work_seconds, max(0.0, eviction.at_seconds - since))


def _last_write(save: Save, until: float, eviction: Eviction) -> float:
    """The last write of a save that began before `until`, as early as it can have been."""
    if save.until_seconds <= until:
        return save.until_seconds
    if eviction.killed:
        # It may be one long save, which the kill cut off.
        return save.at_seconds
    # The next attempt wrote on without a pause.
    return max(save.at_seconds, until - QUIET_SECONDS)
