"""What follows from the journal: lost work, goodput, overhead. One pure function for all reports.

A kill leaves no line of its own behind: an attempt that neither left nor finished was killed, if a
later one followed, and its last lines may be missing. So the steps a kill cost are those known to
have been done: at least so many. Times come from the clocks of several machines, and a clock set
back makes no negative duration. A line whose numbers cannot be is as good as a garbled one.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from outlast.journal.attempt import Attempt, Ending, Grace, believed, seconds_between
from outlast.journal.events import Dropped, Resumed, Saved, SaveFailed
from outlast.journal.reader import AttemptRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptSummary:
    """One attempt. `first_step` is None if it was over before its start was known.

    `steps_lost` are those it did that the next one had to do again, as far as known; `kept_all`
    says that its last save holds all its steps, or was a final one.
    """

    attempt: int
    ending: Ending
    started: datetime | None
    ended: datetime | None
    seconds: float
    first_step: int | None
    last_step: int
    saved_step: int | None
    steps_lost: int
    steps_redone: int
    kept_all: bool
    grace: Grace | None
    waited_seconds: float
    """From the end of the attempt before to the start of this one."""
    starting_seconds: float
    """From its first event until it began its first step: loading, and warming up. All its time if
    it did none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """A run as its journal tells it. A figure is None where the journal holds nothing to tell.

    `interruptions_missed` are those of the announced ones that did not end with their work saved.
    `goodput` is the time that the kept steps took, of the whole time from the first start to the
    last event, waiting included. `save_overhead` is the time that saves took from the loop, of the
    running time. `step_seconds` is the mean, starts and saves left out. `save_seconds`,
    `stall_seconds` and `resume_seconds`, the loading of a checkpoint alone, are medians;
    `bytes_per_second` counts new bytes over the time until they were durable.
    """

    attempts: tuple[AttemptSummary, ...]
    finished: bool
    interruptions_announced: int
    interruptions_missed: int
    interruptions_unannounced: int
    failures: int
    steps_done: int
    steps_lost: int
    steps_lost_max: int
    steps_redone: int
    total_seconds: float
    running_seconds: float
    restart_seconds: float
    useful_seconds: float
    goodput: float | None
    saves: int
    saves_failed: int
    stall_seconds_total: float
    slow_seconds_total: float
    save_overhead: float | None
    stall_seconds: float | None
    save_seconds: float | None
    resume_seconds: float | None
    step_seconds: float | None
    bytes_total: int | None
    bytes_written: int
    bytes_per_second: float | None
    events_dropped: int
    lines_garbled: int


def summarise(attempts: Sequence[AttemptRecord], *, is_live: bool = True) -> Summary:
    """All figures of a run, from its attempts, oldest first. Pure.

    `is_live`: the newest attempt may still be running, so that having no end says nothing yet. A
    process that has just taken over knows better, and says false.
    """
    views = [Attempt(believed(record)) for record in attempts]
    step_seconds = _step_seconds(views)
    summaries = _summaries(views, is_live=is_live, step_seconds=step_seconds or 0.0)
    saved = [event for view in views for event in view.all(Saved)]
    losses = [summary.steps_lost for summary in summaries]
    steps_done = _steps_kept(summaries)
    running_seconds = sum(summary.seconds for summary in summaries)
    total_seconds = _total_seconds(views)
    useful_seconds = steps_done * (step_seconds or 0.0)
    stall_total = sum(event.stall_seconds for event in saved)
    slow_total = sum(event.slow_seconds for event in saved)
    announced = [s for s in summaries if s.ending is Ending.ANNOUNCED]
    written = sum(event.bytes_new for event in saved)
    return Summary(
        attempts=summaries,
        finished=bool(summaries) and summaries[-1].ending is Ending.FINISHED,
        interruptions_announced=len(announced),
        interruptions_missed=sum(not summary.kept_all for summary in announced),
        interruptions_unannounced=sum(s.ending is Ending.KILLED for s in summaries),
        failures=sum(summary.ending is Ending.FAILED for summary in summaries),
        steps_done=steps_done,
        steps_lost=sum(losses),
        steps_lost_max=max(losses, default=0),
        steps_redone=sum(summary.steps_redone for summary in summaries),
        total_seconds=total_seconds,
        running_seconds=running_seconds,
        restart_seconds=sum(summary.waited_seconds for summary in summaries),
        useful_seconds=useful_seconds,
        # Steps that differ in length can make the mean too long by a little.
        goodput=min(1.0, useful_seconds / total_seconds) if total_seconds > 0 else None,
        saves=len(saved),
        saves_failed=sum(len(view.all(SaveFailed)) for view in views),
        stall_seconds_total=stall_total,
        slow_seconds_total=slow_total,
        save_overhead=_ratio(stall_total + slow_total, running_seconds),
        stall_seconds=_median([event.stall_seconds for event in saved]),
        save_seconds=_median([event.seconds for event in saved]),
        resume_seconds=_median([e.seconds for view in views for e in view.all(Resumed)]),
        step_seconds=step_seconds,
        bytes_total=saved[-1].bytes_total if saved else None,
        bytes_written=written,
        bytes_per_second=_ratio(written, sum(event.seconds for event in saved)),
        events_dropped=sum(event.count for view in views for event in view.all(Dropped)),
        lines_garbled=sum(view.record.garbled for view in views),
    )


def _summaries(
    views: Sequence[Attempt], *, is_live: bool, step_seconds: float
) -> tuple[AttemptSummary, ...]:
    summaries: list[AttemptSummary] = []
    frontier = 0
    for number, view in enumerate(views, start=1):
        first = view.first_step
        if first is not None:
            _charge_loss(summaries, first)
            redone = max(0, min(view.last_step, frontier) - first)
            frontier = max(frontier, view.last_step)
        summaries.append(
            AttemptSummary(
                attempt=view.record.attempt,
                ending=view.ending(may_run=is_live and number == len(views)),
                started=view.started,
                ended=view.ended,
                seconds=seconds_between(view.started, view.ended),
                first_step=first,
                last_step=view.last_step,
                saved_step=view.saved_step,
                steps_lost=0,
                steps_redone=redone if first is not None else 0,
                kept_all=view.kept_all,
                grace=view.grace,
                waited_seconds=_waited_seconds(summaries, view),
                starting_seconds=view.starting_seconds(step_seconds),
            )
        )
    return tuple(summaries)


def _charge_loss(summaries: list[AttemptSummary], resumed_at: int) -> None:
    """Note what was lost with the last attempt that did anything, now that a later one begins."""
    for index in reversed(range(len(summaries))):
        if summaries[index].first_step is not None:
            lost = max(0, summaries[index].last_step - resumed_at)
            summaries[index] = replace(summaries[index], steps_lost=lost)
            return


def _steps_kept(summaries: Sequence[AttemptSummary]) -> int:
    """The steps that stand now: those of the last attempt, up to its last save if it is over."""
    for summary in reversed(summaries):
        if summary.first_step is not None:
            if summary.ending in (Ending.OPEN, Ending.FINISHED):
                return summary.last_step
            return max(summary.first_step, summary.saved_step or 0)
    return 0


def _waited_seconds(earlier: Sequence[AttemptSummary], view: Attempt) -> float:
    ends = [summary.ended for summary in earlier if summary.ended is not None]
    return seconds_between(ends[-1], view.started) if ends else 0.0


def _step_seconds(views: Sequence[Attempt]) -> float | None:
    times = [view.loop_time() for view in views]
    if not any(steps for steps, _ in times):
        times = [view.whole_loop_time() for view in views]
    return _ratio(sum(seconds for _, seconds in times), sum(steps for steps, _ in times))


def _total_seconds(views: Sequence[Attempt]) -> float:
    starts = list(_known(view.started for view in views))
    ends = list(_known(view.ended for view in views))
    return seconds_between(min(starts, default=None), max(ends, default=None))


def _known(times: Iterator[datetime | None]) -> Iterator[datetime]:
    return (time for time in times if time is not None)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
