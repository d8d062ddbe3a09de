"""What one attempt's lines tell of it. Pure; knows nothing of the attempts beside it.

A kill leaves no line of its own behind, and the last ones may be missing. Times come from a clock
that may be set back, which makes no negative duration. A line whose numbers cannot be is as good as
a garbled one.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property
from typing import TypeVar

from outlast.journal.events import (
    AttemptStarted,
    Event,
    Failed,
    Fenced,
    FinalDecision,
    Finished,
    Interrupted,
    Left,
    NoticeArrived,
    Resumed,
    Saved,
)
from outlast.journal.reader import AttemptRecord

E = TypeVar("E", bound=Event)

_COUNTS = ("step", "resumed_from", "count", "bytes_total", "bytes_new", "bytes_read")
_COUNT_MAX = 2**60
_DURATIONS = ("stall_seconds", "slow_seconds", "seconds")
_SECONDS_MAX = 10 * 365 * 86_400.0


class Ending(StrEnum):
    """How an attempt ended."""

    FINISHED = "finished"
    ANNOUNCED = "announced"
    """A notice came. The process left, or was killed on its way."""
    KILLED = "killed"
    """It stopped without a word, and a later attempt followed."""
    FAILED = "failed"
    FENCED = "fenced"
    LEFT = "left"
    """It left by itself, without a notice and without an error."""
    OPEN = "open"
    """The newest attempt, so far without an end: it runs, or nobody has followed it yet."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Grace:
    """How much of the time between a notice and its deadline was used."""

    used_seconds: float
    given_seconds: float


class Attempt:
    """One attempt: how far it came, how it ended, and when it did what."""

    def __init__(self, record: AttemptRecord) -> None:
        self.record = record
        self.events = record.events
        self.steps = [(step, event) for event in self.events if (step := _step(event)) is not None]

    def all(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def has(self, *kinds: type[Event]) -> bool:
        return any(isinstance(event, kinds) for event in self.events)

    @cached_property
    def started(self) -> datetime | None:
        return min((event.at for event in self.events), default=None)

    @cached_property
    def ended(self) -> datetime | None:
        return max((event.at for event in self.events), default=None)

    @cached_property
    def first_step(self) -> int | None:
        """Where it began; None if it was over before it said so and before it did anything."""
        resumed = [event.step for event in self.all(Resumed)]
        if resumed:
            return resumed[-1]
        told = [e.resumed_from for e in self.all(AttemptStarted) if e.resumed_from is not None]
        if told:
            return told[-1]
        if self.record.garbled and self.steps:
            # The line that told it may be one of them, and no more is lost than is known.
            return min(step for step, _ in self.steps)
        return 0 if self.steps else None

    @cached_property
    def last_step(self) -> int:
        return max((step for step, _ in self.steps), default=self.first_step or 0)

    @cached_property
    def notice(self) -> NoticeArrived | None:
        return next(iter(self.all(NoticeArrived)), None)

    @property
    def saved_step(self) -> int | None:
        return max((event.step for event in self.all(Saved)), default=None)

    def ending(self, *, may_run: bool) -> Ending:
        if self.has(Finished):
            return Ending.FINISHED
        if self.has(Fenced):
            return Ending.FENCED
        if self.has(Failed):
            return Ending.FAILED
        if self.has(Left):
            return self._ending_by_leaving()
        if may_run:
            return Ending.OPEN
        return Ending.ANNOUNCED if self.has(NoticeArrived, Interrupted) else Ending.KILLED

    def _ending_by_leaving(self) -> Ending:
        if self.has(NoticeArrived, Interrupted):
            return Ending.ANNOUNCED
        return Ending.LEFT if self.all(Left)[-1].exit_code == 0 else Ending.FAILED

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
        """When so many steps were done. A save is told of only once it is durable."""
        times: dict[int, datetime] = {}
        for step, event in self.steps:
            at = self._reached_at(event)
            times[step] = min(at, times.get(step, at))
        return times

    def _reached_at(self, event: Event) -> datetime:
        if self.notice is not None and _is_of_leaving(event):
            # A notice is heeded between two steps, so that the steps told of then were done before.
            return min(event.at, self.notice.at)
        if isinstance(event, Saved):
            seconds = min(event.seconds, seconds_between(self.started, event.at))
            return event.at - timedelta(seconds=seconds)
        return event.at

    @cached_property
    def first_done(self) -> int | None:
        """The first step that it is known to have done itself; None if it did nothing."""
        return min((step for step in self.reached if step > (self.first_step or 0)), default=None)

    @property
    def loaded(self) -> datetime | None:
        return next((event.at for event in self.all(Resumed)), self.started)

    def loop_time(self) -> tuple[int, float]:
        """Steps done and the seconds they took, without what saves took from them.

        They count from the first one that was told of: what it takes to get warm is in that one.
        """
        if self.first_done is None:
            return 0, 0.0
        return self._time_of(self.first_done, self.reached[self.first_done])

    def whole_loop_time(self) -> tuple[int, float]:
        """The same from the first step on, for a journal that tells of no other."""
        if self.first_done is None or self.loaded is None:
            return 0, 0.0
        return self._time_of(self.first_step or 0, self.loaded)

    def starting_seconds(self, step_seconds: float) -> float:
        """From its first event until it began its first step, if a step takes so long."""
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
        """What saves took from the loop between two steps; one of the last comes after it."""
        saves = [event for event in self.all(Saved) if first <= event.step < last]
        return sum(save.stall_seconds + save.slow_seconds for save in saves)


def believed(record: AttemptRecord) -> AttemptRecord:
    """The same attempt without events whose numbers cannot be; they count as garbled."""
    events = tuple(event for event in record.events if _can_be(event))
    return replace(record, events=events, garbled=record.garbled + len(record.events) - len(events))


def seconds_between(start: datetime | None, end: datetime | None) -> float:
    """What lies between two times; 0 if one is not known, or the clock was set back."""
    if start is None or end is None:
        return 0.0
    return max(0.0, (end - start).total_seconds())


def _can_be(event: Event) -> bool:
    """Whether its steps, bytes and durations are such as a run can have."""
    counts = [getattr(event, name, None) for name in _COUNTS]
    durations = [getattr(event, name, 0.0) for name in _DURATIONS]
    return all(count is None or 0 <= count <= _COUNT_MAX for count in counts) and all(
        0 <= seconds <= _SECONDS_MAX for seconds in durations
    )


def _is_of_leaving(event: Event) -> bool:
    return isinstance(event, FinalDecision | Interrupted | Left) or (
        isinstance(event, Saved) and event.final
    )


def _step(event: Event) -> int | None:
    """How many steps were done then, as far as the event says so."""
    # The steps of a resume were done by an earlier attempt.
    if isinstance(event, Resumed):
        return None
    step = getattr(event, "step", None)
    return step if isinstance(step, int) else None
