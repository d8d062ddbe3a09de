"""How much work each eviction cost, as far as known. Pure.

A journal counts steps. After a kill, its last lines may be missing, so the count is a lower bound.
Without a journal, the time since the attempt's last write is an upper bound, if that write was a
save. A command that starts over loses all of its work.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import CheckResult
from outlast.drills.run.folder_watch import QUIET_SECONDS
from outlast.drills.run.records import Attempt, Eviction, Save
from outlast.report.axes import Plot, Position
from outlast.report.markup import Html, join

MARKS_MAX = 80
"""With more evictions than these, charts of progress do not mark each of them."""

SHOWN_SECONDS_MIN = 0.05
_LABELS_MAX = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkLost:
    """`steps` is None without a journal, `seconds_max` if several attempts may have written.

    `is_minimum`: at least these steps were lost. `is_all`: these seconds are all the work done.
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
            return "unknown"
        if self.seconds_max < SHOWN_SECONDS_MIN:
            return "nothing"
        return f"{'all of' if self.is_all else 'up to'} {self.seconds_max:.1f} s"


def work_lost(report: DrillReport) -> list[WorkLost]:
    """The cost of each eviction, in order."""
    job_run = report.evicted
    if job_run is None:
        return []
    steps = report.steps_lost
    attempts = {one.number: one for one in job_run.attempts}
    overlapping = _overlapping(job_run.attempts)
    starts_over = "resumed" in report.names_with(CheckResult.FAIL)

    def seconds_lost(one: Eviction) -> float | None:
        if one.exit_code == 0 and not one.unfinished_zero:
            return 0.0
        if starts_over:
            return one.work_seconds
        if one.attempt in overlapping or one.attempt not in attempts:
            return None
        return _seconds_since_write(one, attempts[one.attempt], job_run.saves)

    return [
        WorkLost(
            eviction=one,
            steps=steps.get(one.number),
            is_minimum=one.killed,
            seconds_max=seconds_lost(one),
            is_all=starts_over,
        )
        for one in job_run.evictions
    ]


def _overlapping(attempts: Sequence[Attempt]) -> set[int]:
    """Attempts during which another one ran, so that a write may be from either."""
    found: set[int] = set()
    longest: Attempt | None = None
    for one in sorted(attempts, key=lambda one: one.started_seconds):
        if longest is not None and one.started_seconds < longest.ended_seconds:
            found |= {longest.number, one.number}
        if longest is None or one.ended_seconds > longest.ended_seconds:
            longest = one
    return found


def _seconds_since_write(eviction: Eviction, attempt: Attempt, saves: Sequence[Save]) -> float:
    """Work between the last write that can have been a complete save and the eviction."""
    until = attempt.ended_seconds
    if eviction.killed:
        # A write that began shortly before a kill may be incomplete.
        until = min(eviction.at_seconds, attempt.ended_seconds - QUIET_SECONDS)
    index = bisect_right(saves, until, key=lambda one: one.at_seconds)
    since = _last_write(saves[index - 1], until, eviction) if index else 0.0
    if since < attempt.started_seconds:
        return eviction.work_seconds
    return min(eviction.work_seconds, max(0.0, eviction.at_seconds - since))


def _last_write(save: Save, until: float, eviction: Eviction) -> float:
    """The earliest possible time of the last write of a save that began before `until`."""
    if save.until_seconds <= until:
        return save.until_seconds
    if eviction.killed:
        # It may be one long save that the kill cut off.
        return save.at_seconds
    # The next attempt continued to write without a pause.
    return max(save.at_seconds, until - QUIET_SECONDS)


def lost_labels(plot: Plot, pieces: Sequence[Sequence[Position]], unit: str = "") -> Html:
    """The amounts of the largest lost pieces, above their ends, where a rising line is not."""
    labels = []
    for piece in sorted(pieces, key=lambda one: one[0][1] - one[-1][1])[:_LABELS_MAX]:
        (_, low), (x, high) = piece[0], piece[-1]
        lost = f"{high - low:.1f} {unit}" if unit else f"{high - low:,.0f}"
        anchor = "end" if plot.x.share(x) > 0.1 else None
        top = plot.top(high) - 8
        labels.append(plot.label(x, top, f"\u2212{lost}", "lost", text_anchor=anchor))
    return join(labels)
