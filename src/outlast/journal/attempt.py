"""Figures of one attempt, from its events. Pure; knows nothing of other attempts.

A kill writes no event, and the last events may be missing. Times come from a clock that may be set
back, which never makes a duration negative. An event with impossible numbers counts as garbled.
"""

from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from outlast.journal.events import (
    Alive,
    AttemptExited,
    AttemptFailed,
    AttemptFenced,
    AttemptInterrupted,
    AttemptStarted,
    Event,
    FinalDecision,
    NoticeArrived,
    Resumed,
    RunFinished,
    Saved,
    StepsPlanned,
)
from outlast.journal.place import AttemptPlace
from outlast.journal.reader import AttemptRecord

E = TypeVar("E", bound=Event)

_COUNTS = ("step", "steps", "resumed_from", "count", "bytes_total", "bytes_new", "bytes_read")
_COUNT_MAX = 2**60
_DURATIONS = ("stall_seconds", "slow_seconds", "seconds", "within_seconds", "process_seconds")
_SECONDS_MAX = 10 * 365 * 86_400.0
_EARLIEST = datetime.min.replace(tzinfo=UTC)


class Ending(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"
    ANNOUNCED = "announced"
    """A notice arrived. The process exited, or was killed before it could."""
    KILLED = "killed"
    """It stopped without a notice, and a later attempt followed."""
    FAILED = "failed"
    FENCED = "fenced"
    LEFT = "left"
    """It exited by itself, without a notice and without an error."""
    OPEN = "open"
    """The newest attempt, without an end so far: it is running, or was killed and not replaced."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grace:
    """How much of the time between a notice and its deadline was used."""

    used_seconds: float
    given_seconds: float


class Attempt:
    """One attempt: its progress, how it ended, and when each step was done."""

    def __init__(self, record: AttemptRecord) -> None:
        self.record = record
        self.events = record.events
        self.steps = [
            (step, event) for event in self.events if (step := step_of(event)) is not None
        ]

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def has(self, *kinds: type[Event]) -> bool:
        return any(isinstance(event, kinds) for event in self.events)

    @cached_property
    def started(self) -> datetime | None:
        """When its process started, as far as that is known."""
        if self.claimed is None:
            return None
        begun = (_before(event.at, event.process_seconds) for event in self.all(AttemptStarted))
        return min([self.claimed, *begun])

    @cached_property
    def claimed(self) -> datetime | None:
        return min((event.at for event in self.events), default=None)

    @cached_property
    def ended(self) -> datetime | None:
        return max((event.at for event in self.events), default=None)

    @cached_property
    def silence_seconds_max(self) -> float:
        """How long it can have run after its last event, if it wrote no end; 0 if unknown."""
        signs = self.all(Alive)
        if not signs or self.ended is None:
            return 0.0
        next_due = signs[-1].at + timedelta(seconds=signs[-1].within_seconds)
        if self.grace is not None and self.notice is not None:
            next_due = min(next_due, self.notice.at + timedelta(seconds=self.grace.given_seconds))
        return seconds_between(self.ended, next_due)

    @cached_property
    def first_step(self) -> int | None:
        """The step it started at; None if it ended before this was known."""
        resumed = [event.step for event in self.all(Resumed)]
        if resumed:
            return resumed[-1]
        known = [e.resumed_from for e in self.all(AttemptStarted) if e.resumed_from is not None]
        if known:
            return known[-1]
        if self.record.garbled and self.steps:
            # The event that states it may be garbled, so assume the smallest step that is known.
            return min(step for step, _ in self.steps)
        return 0 if self.steps else None

    @cached_property
    def last_step(self) -> int:
        return max((step for step, _ in self.steps), default=self.first_step or 0)

    @cached_property
    def notice(self) -> NoticeArrived | None:
        return next(iter(self.all(NoticeArrived)), None)

    @property
    def place(self) -> AttemptPlace:
        """Where it ran, as stated by the first event that claims the attempt."""
        started = next(iter(self.all(AttemptStarted)), None)
        if started is None:
            return AttemptPlace()
        return AttemptPlace(**{f.name: getattr(started, f.name) for f in fields(AttemptPlace)})

    @property
    def steps_planned(self) -> int | None:
        planned = self.all(StepsPlanned)
        return planned[-1].steps if planned else None

    @property
    def saved_step(self) -> int | None:
        return max((event.step for event in self.all(Saved)), default=None)

    @property
    def states_end(self) -> bool:
        """Whether it wrote how it ended, so that its last event is its end."""
        return self.has(RunFinished, AttemptFenced, AttemptFailed, AttemptExited)

    def ending(self, *, may_run: bool) -> Ending:
        if self.has(RunFinished):
            return Ending.FINISHED
        if self.has(AttemptFenced):
            return Ending.FENCED
        if self.has(AttemptFailed):
            return Ending.FAILED
        if self.has(AttemptExited):
            return self._ending_by_leaving()
        if may_run:
            return Ending.OPEN
        return Ending.ANNOUNCED if self.has(NoticeArrived, AttemptInterrupted) else Ending.KILLED

    def _ending_by_leaving(self) -> Ending:
        if self.has(NoticeArrived, AttemptInterrupted):
            return Ending.ANNOUNCED
        return Ending.LEFT if self.all(AttemptExited)[-1].exit_code == 0 else Ending.FAILED

    @property
    def kept_all(self) -> bool:
        saved = self.all(Saved)
        return any(event.final or event.step >= self.last_step for event in saved) or (
            self.last_step == self.first_step
        )

    @property
    def grace(self) -> Grace | None:
        if self.notice is None:
            return None
        return Grace(
            used_seconds=seconds_between(self.notice.at, self.ended),
            given_seconds=min(max(0.0, self.notice.seconds_left), _SECONDS_MAX),
        )

    @cached_property
    def reached(self) -> dict[int, datetime]:
        """When each number of steps was reached. A save is recorded only once it is durable."""
        times: dict[int, datetime] = {}
        for step, event in self.steps:
            at = self._reached_at(event)
            times[step] = min(at, times.get(step, at))
        return times

    def _reached_at(self, event: Event) -> datetime:
        if self.notice is not None and _follows_notice(event):
            # The loop reacts to a notice between two steps, so these steps were done before.
            return min(event.at, self.notice.at)
        if isinstance(event, Saved):
            seconds = min(event.seconds, seconds_between(self.claimed, event.at))
            return event.at - timedelta(seconds=seconds)
        return event.at

    @cached_property
    def first_done(self) -> int | None:
        """The first step that it is known to have done itself; None if it did none."""
        return min((step for step in self.reached if step > (self.first_step or 0)), default=None)

    @property
    def loaded(self) -> datetime | None:
        return next((event.at for event in self.all(Resumed)), self.claimed)

    def loop_time(self) -> tuple[int, float]:
        """The number of steps and the seconds they took, without the time lost to saves.

        Counts from the first recorded step, which excludes the warm-up.
        """
        if self.first_done is None:
            return 0, 0.0
        return self._time_of(self.first_done, self.reached[self.first_done])

    def full_loop_time(self) -> tuple[int, float]:
        """The same from the first step on, for a journal with no other recorded step."""
        if self.first_done is None or self.loaded is None:
            return 0, 0.0
        return self._time_of(self.first_step or 0, self.loaded)

    def starting_seconds(self, step_seconds: float) -> float:
        """Seconds from its start until its first step, given the seconds per step."""
        if self.first_done is None:
            return seconds_between(self.started, self.notice.at if self.notice else self.ended)
        first = self.first_step or 0
        before = (self.first_done - first) * step_seconds + self._stall(first, self.first_done)
        until = seconds_between(self.started, self.reached[self.first_done])
        return min(until, max(seconds_between(self.started, self.loaded), until - before))

    def _time_of(self, first: int, begun: datetime) -> tuple[int, float]:
        seconds = seconds_between(begun, self.reached[self.last_step])
        return self.last_step - first, max(0.0, seconds - self._stall(first, self.last_step))

    def _stall(self, first: int, last: int) -> float:
        """Seconds that saves took from the loop between two steps, excluding a save of the last."""
        saves = [event for event in self.all(Saved) if first <= event.step < last]
        return sum(save.stall_seconds + save.slow_seconds for save in saves)


def plausible(record: AttemptRecord) -> AttemptRecord:
    """The same attempt without events that have impossible numbers; they count as garbled."""
    events = tuple(event for event in record.events if is_plausible(event))
    return replace(record, events=events, garbled=record.garbled + len(record.events) - len(events))


def seconds_between(start: datetime | None, end: datetime | None) -> float:
    """Seconds between two times; 0 if one is unknown, or if the clock was set back."""
    if start is None or end is None:
        return 0.0
    return max(0.0, (end - start).total_seconds())


def _before(at: datetime, seconds: float) -> datetime:
    """A time that many seconds earlier, within the range of times."""
    return at - timedelta(seconds=min(seconds, (at - _EARLIEST).total_seconds()))


def is_plausible(event: Event) -> bool:
    """Whether its steps, bytes and durations are possible."""
    counts = [getattr(event, name, None) for name in _COUNTS]
    durations = [getattr(event, name, 0.0) for name in _DURATIONS]
    return all(count is None or 0 <= count <= _COUNT_MAX for count in counts) and all(
        0 <= seconds <= _SECONDS_MAX for seconds in durations
    )


def _follows_notice(event: Event) -> bool:
    return isinstance(event, FinalDecision | AttemptInterrupted | AttemptExited) or (
        isinstance(event, Saved) and event.final
    )


def step_of(event: Event) -> int | None:
    """The number of steps done at this event, if it states it."""
    # The steps of a resume were done by an earlier attempt.
    if isinstance(event, Resumed):
        return None
    step = getattr(event, "step", None)
    return step if isinstance(step, int) else None
