"""Carry out a schedule: choose the victim, wait for the hostile moment, strike.

Deciding when an eviction is due is the schedule's; this acts on it, one eviction after the other.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outlast.drill.clocks import Clocks
from outlast.drill.live import Live
from outlast.drill.records import Handling, Moment
from outlast.drill.schedule import Clock, Planned, Schedule

_UNKNOWN_START_UP_SECONDS = 0.15
_START_UP_SECONDS_MIN = 0.01
_STILL_SAVING_SECONDS = 0.003


@dataclass(frozen=True, kw_only=True, slots=True)
class Habits:
    """What the baseline has taught.

    `start_up_seconds` is 0 where it cannot be told. `needs_sign` and `needs_handler` say by what
    the end of the start-up shows: a first sign of life, a handler for SIGTERM. `patience_seconds`
    is how long an eviction waits for a save to strike in.
    """

    grace_seconds: float
    patience_seconds: float
    start_up_seconds: float = 0.0
    needs_sign: bool = True
    needs_handler: bool = False


class Evictor:
    def __init__(
        self, schedule: Schedule, clocks: Clocks, habits: Habits, on_strike: Callable[[Live], None]
    ) -> None:
        self._waiting = list(schedule.evictions)
        self._clock = schedule.clock
        self._clocks = clocks
        self._habits = habits
        self._on_strike = on_strike
        self._last_strike = -math.inf
        self._armed_at: float | None = None
        self._strike_at: float | None = None
        self._saving_at = -math.inf
        self._missed = False

    @property
    def waits_for_save(self) -> bool:
        """Whether a change in the folder is what it waits for."""
        return self._armed_at is not None

    def strike_if_due(self, lives: Sequence[Live], *, now: float, saving: bool) -> None:
        """Carry out what is due; `saving` says that something is being written right now."""
        while self._waiting:
            planned = self._waiting[0]
            victim = self._victim(planned, lives)
            if victim is None or not self._is_due(planned, victim, now=now, saving=saving):
                return
            self._waiting.pop(0)
            hit = planned.moment is not Moment.SAVE or self._strike_at is not None
            self._armed_at = self._strike_at = None
            self._missed = False
            self._strike(planned, victim, now=now, hit=hit)

    def seconds_to_next(self, lives: Sequence[Live], *, now: float) -> float:
        """How long nothing can become due, as far as that is known; infinite if by no time."""
        if not self._waiting:
            return math.inf
        planned = self._waiting[0]
        victim = self._victim(planned, lives)
        if victim is None:
            return math.inf
        if self._strike_at is not None:
            return self._strike_at - now
        if self._armed_at is not None:
            return self._armed_at + self._habits.patience_seconds - now
        if planned.moment is Moment.START_UP:
            return victim.started + self._into_start_up(planned) - now
        return planned.at_seconds - self._clocks.seconds(self._clock)

    def _victim(self, planned: Planned, lives: Sequence[Live]) -> Live | None:
        if planned.moment is Moment.START_UP:
            fresh = [one for one in lives if one.is_up and one.started > self._last_strike]
            return max(fresh, key=lambda one: one.started, default=None)
        fit = [one for one in lives if (one.is_target if self._clock is Clock.WORK else one.is_up)]
        return fit[int(planned.draw * len(fit))] if fit else None

    def _is_due(self, planned: Planned, victim: Live, *, now: float, saving: bool) -> bool:
        if planned.moment is Moment.START_UP:
            return now >= victim.started + self._into_start_up(planned)
        if self._clocks.seconds(self._clock) < planned.at_seconds:
            return False
        if planned.moment is not Moment.SAVE:
            return True
        if self._armed_at is None:
            self._armed_at = now
        if saving:
            self._saving_at = now
            if self._strike_at is None:
                self._strike_at = now + (0.0 if self._missed else planned.pause_seconds)
        if self._strike_at is not None and now >= self._strike_at:
            if now - self._saving_at <= _STILL_SAVING_SECONDS:
                return True
            # That save was over too soon. The next one is struck at its first sign.
            self._strike_at = None
            self._missed = True
        return self._strike_at is None and now >= self._armed_at + self._habits.patience_seconds

    def _into_start_up(self, planned: Planned) -> float:
        whole = self._habits.start_up_seconds or _UNKNOWN_START_UP_SECONDS
        return max(_START_UP_SECONDS_MIN, planned.draw * whole)

    def _grace_of(self, victim: Live) -> float:
        """A program that cannot hear yet would only work on; nothing is to be learned from it."""
        if victim.cannot_hear_yet:
            start_up = self._habits.start_up_seconds or _UNKNOWN_START_UP_SECONDS
            return min(self._habits.grace_seconds, start_up)
        return self._habits.grace_seconds

    def _strike(self, planned: Planned, victim: Live, *, now: float, hit: bool) -> None:
        """Nothing comes before the signal, so that the moment is not missed."""
        if not planned.notice and not planned.overlap:
            victim.kill()
        elif planned.notice:
            victim.process = victim.node.process_name()
            victim.handling = victim.node.terminate()
            if victim.handling is Handling.DEFAULT and victim.hears is not None:
                # Its handler is gone again, so it may be about to leave.
                victim.handling = Handling.UNKNOWN
        victim.told = now
        victim.planned = planned
        victim.hit = hit
        early = now - victim.started < self._habits.start_up_seconds
        victim.in_start_up = victim.ready is None or early or planned.moment is Moment.START_UP
        victim.cut_at_save = planned.moment is Moment.LAST_SAVE
        # A silent node that lives on hears nothing until it vanishes.
        if planned.notice or planned.overlap:
            victim.kill_at = now + self._grace_of(victim)
        self._last_strike = now
        self._on_strike(victim)
