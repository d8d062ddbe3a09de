"""Figures of a run, derived from its journal: lost work, goodput, overhead. Pure.

A kill writes no event: an attempt that neither exited nor finished was killed, if a later one
followed, and its last events may be missing. So the steps lost to a kill are a lower bound. Signs
of life bound when it was killed: between the last one and the time of the next one that is missing.
Its end is taken to be in the middle, and all figures follow from that end. Times
come from the clocks of several machines; a clock that was set back never makes a duration negative.
An event with impossible numbers counts as garbled.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar

from outlast.journal.attempt import Attempt, Ending, Grace, plausible, seconds_between
from outlast.journal.events import Dropped, Resumed, Saved
from outlast.journal.place import AttemptPlace
from outlast.journal.reader import AttemptRecord

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptSummary:
    """One attempt. `first_step` is None if it ended before its first step was known.

    `steps_lost` is the number of its steps that the next attempt had to repeat, as far as known.
    `kept_all` means that its last save contains all its steps, or was a final save.
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
    """From the end of the previous attempt to the start of this one."""
    starting_seconds: float
    """From its start until its first step: imports, loading and warm-up. Its entire duration if it
    did no step."""
    place: AttemptPlace = field(default_factory=AttemptPlace)
    unseen_seconds: float = 0.0
    """The assumed time from its last event to a kill: half of what is possible. Part of `seconds`.
    """
    unrecorded_seconds: float = 0.0
    """From its last recorded step to a kill: work that no step count includes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class JournalSummary:
    """The figures of a run. A figure is None if the journal does not contain it.

    `interruptions_missed` counts the announced interruptions whose work was not saved in time.
    `goodput` is the time that the kept steps took, as a share of the time from the first start to
    the last event, including waits. `step_seconds` is the mean, without starts and saves.
    `save_seconds`, `stall_seconds` and `resume_seconds` (only loading the checkpoint) are medians.
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
    stall_seconds: float | None
    save_seconds: float | None
    resume_seconds: float | None
    step_seconds: float | None
    bytes_total: int | None
    events_dropped: int
    lines_garbled: int
    uncertain_seconds: float = 0.0
    """How much longer or shorter all killed attempts together may have run."""
    steps_planned: int | None = None
    """The steps of the complete run, as the newest attempt that knew them has stated."""


def summarize(attempts: Sequence[AttemptRecord], *, is_live: bool = True) -> JournalSummary:
    """All figures of a run, from its attempts, oldest first. Pure.

    `is_live` means that the newest attempt may still be running, so a missing end is not a kill.
    Pass false if a newer process has taken over.
    """
    views = [Attempt(plausible(record)) for record in attempts]
    step_seconds = _step_seconds(views)
    summaries = _summaries(views, is_live=is_live, step_seconds=step_seconds or 0.0)
    saved = [event for view in views for event in view.all(Saved)]
    losses = [summary.steps_lost for summary in summaries]
    steps_done = _steps_kept(summaries)
    running_seconds = sum(summary.seconds for summary in summaries)
    total_seconds = _total_seconds(summaries)
    useful_seconds = steps_done * (step_seconds or 0.0)
    announced = [s for s in summaries if s.ending is Ending.ANNOUNCED]
    return JournalSummary(
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
        # If steps differ in length, the mean can be slightly too long.
        goodput=min(1.0, useful_seconds / total_seconds) if total_seconds > 0 else None,
        saves=len(saved),
        stall_seconds=_median([event.stall_seconds for event in saved]),
        save_seconds=_median([event.seconds for event in saved]),
        resume_seconds=_median([e.seconds for view in views for e in view.all(Resumed)]),
        step_seconds=step_seconds,
        bytes_total=saved[-1].bytes_total if saved else None,
        events_dropped=sum(event.count for view in views for event in view.all(Dropped)),
        lines_garbled=sum(view.record.garbled for view in views),
        uncertain_seconds=sum(summary.unseen_seconds for summary in summaries),
        steps_planned=next(_known(view.steps_planned for view in reversed(views)), None),
    )


def _summaries(
    views: Sequence[Attempt], *, is_live: bool, step_seconds: float
) -> tuple[AttemptSummary, ...]:
    summaries: list[AttemptSummary] = []
    frontier = 0
    for number, view in enumerate(views, start=1):
        first = view.first_step
        ending = view.ending(may_run=is_live and number == len(views))
        unseen_seconds = _unseen_seconds(view, ending, views[number:])
        unseen = timedelta(seconds=unseen_seconds)
        ended = view.ended + unseen if view.ended is not None else None
        if first is not None:
            _charge_loss(summaries, first)
            redone = max(0, min(view.last_step, frontier) - first)
            frontier = max(frontier, view.last_step)
        summaries.append(
            AttemptSummary(
                attempt=view.record.attempt,
                ending=ending,
                started=view.started,
                ended=ended,
                seconds=seconds_between(view.started, ended),
                first_step=first,
                last_step=view.last_step,
                saved_step=view.saved_step,
                steps_lost=0,
                steps_redone=redone if first is not None else 0,
                kept_all=view.kept_all,
                grace=_grace(view, unseen_seconds),
                waited_seconds=_waited_seconds(summaries, view),
                starting_seconds=view.starting_seconds(step_seconds)
                + (unseen_seconds if _died_starting(view) else 0.0),
                place=view.place,
                unseen_seconds=unseen_seconds,
                unrecorded_seconds=_unrecorded_seconds(view, ending, ended),
            )
        )
    return tuple(summaries)


def _unseen_seconds(view: Attempt, ending: Ending, later: Sequence[Attempt]) -> float:
    """How long it probably ran after its last event; 0 unless it was killed."""
    if ending is Ending.OPEN or view.states_end:
        return 0.0
    possible = view.silence_seconds_max
    following = next(_known(other.started for other in later), None)
    if following is not None:
        possible = min(possible, seconds_between(view.ended, following))
    return possible / 2


def _died_starting(view: Attempt) -> bool:
    return view.first_done is None and view.notice is None


def _grace(view: Attempt, unseen_seconds: float) -> Grace | None:
    grace = view.grace
    if grace is None:
        return None
    return replace(grace, used_seconds=grace.used_seconds + unseen_seconds)


def _unrecorded_seconds(view: Attempt, ending: Ending, ended: datetime | None) -> float:
    if ending is not Ending.KILLED or view.first_done is None:
        return 0.0
    return seconds_between(max(event.at for _, event in view.steps), ended)


def _charge_loss(summaries: list[AttemptSummary], resumed_at: int) -> None:
    """Set the steps lost by the last attempt that did any, once the next one starts."""
    for index in reversed(range(len(summaries))):
        if summaries[index].first_step is not None:
            lost = max(0, summaries[index].last_step - resumed_at)
            summaries[index] = replace(summaries[index], steps_lost=lost)
            return


def _steps_kept(summaries: Sequence[AttemptSummary]) -> int:
    """The steps that count: those of the last attempt, up to its last save if it has ended."""
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
        times = [view.full_loop_time() for view in views]
    return _ratio(sum(seconds for _, seconds in times), sum(steps for steps, _ in times))


def _total_seconds(summaries: Sequence[AttemptSummary]) -> float:
    starts = list(_known(summary.started for summary in summaries))
    ends = list(_known(summary.ended for summary in summaries))
    return seconds_between(min(starts, default=None), max(ends, default=None))


def _known(values: Iterator[T | None]) -> Iterator[T]:
    return (value for value in values if value is not None)


def _median(values: Sequence[float]) -> float | None:
    return statistics.median(values) if values else None


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None
