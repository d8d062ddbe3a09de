"""Live attempts, and how they are evicted: select the victim, wait for the moment, evict.

The schedule decides when an eviction is due; `Evictor` acts on it, one eviction at a time.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from outlast.drills.run import outputs
from outlast.drills.run.node import NodeEnd, SimulatedNode
from outlast.drills.run.records import (
    NEVER_HEARD,
    Attempt,
    AttemptEnd,
    Eviction,
    EvictionMoment,
    SigtermHandling,
)
from outlast.drills.run.schedule import Clock, JobClocks, PlannedEviction, Schedule
from outlast.drills.run.world import SimulatedWorld

_SIGKILLED = 137
_UNKNOWN_START_UP_SECONDS = 0.15
_START_UP_SECONDS_MIN = 0.01
_STILL_SAVING_SECONDS = 0.003


@dataclass(kw_only=True, slots=True)
class LiveAttempt:
    """Times are monotonic. `evicted_at` is the time of the notice, or of the kill without one.

    `cpu_seconds` is the CPU time when the run was stopped; 0 if it ended before.
    `other_logs` are those of all nodes but the first. `target` is the node that was evicted.
    """

    number: int
    worker: int
    node: SimulatedNode | SimulatedWorld
    log: Path
    started: float
    sign: float | None = None
    hears: float | None = None
    ready: float | None = None
    evicted_at: float | None = None
    kill_at: float | None = None
    killed: bool = False
    stopping: bool = False
    planned: PlannedEviction | None = None
    handling: SigtermHandling = SigtermHandling.UNKNOWN
    process: str = ""
    hit: bool = False
    in_start_up: bool = False
    replaced: bool = False
    cut_at_save: bool = False
    writing: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()
    lines_cut: int = 0
    cpu_seconds: float = 0.0
    other_logs: tuple[Path, ...] = ()
    target: SimulatedNode | None = None

    @property
    def is_up(self) -> bool:
        """Whether it is running and has not been evicted or stopped."""
        return self.evicted_at is None and not self.stopping

    @property
    def is_target(self) -> bool:
        return self.is_up and self.ready is not None

    @property
    def cannot_hear_yet(self) -> bool:
        """Whether the notice came before the program had set its handler."""
        return self.in_start_up and self.handling is SigtermHandling.DEFAULT

    @property
    def heard(self) -> bool:
        """Whether there was a notice that it could handle."""
        can_hear = self.handling in (SigtermHandling.CAUGHT, SigtermHandling.UNKNOWN)
        return self.planned is not None and self.planned.notice and can_hear

    @property
    def works(self) -> bool:
        """Whether it makes progress: a program that cannot handle the notice keeps working."""
        goes_on = self.planned is not None and not self.heard
        return self.ready is not None and not self.killed and (self.is_up or goes_on)

    def why_ended(self, exit_code: int) -> AttemptEnd:
        if self.stopping:
            return AttemptEnd.STOPPED
        if self.planned is not None:
            return AttemptEnd.EVICTED
        return AttemptEnd.FINISHED if exit_code == 0 else AttemptEnd.FAILED

    def attempt(self, end: NodeEnd, *, now: float, began: float) -> Attempt:
        """The record of the attempt, once it has ended."""
        world = self.node if isinstance(self.node, SimulatedWorld) else None
        return Attempt(
            number=self.number,
            worker=self.worker,
            started_seconds=self.started - began,
            sign_seconds=self.sign - began if self.sign is not None else None,
            hears_seconds=self.hears - began if self.hears is not None else None,
            ready_seconds=self.ready - began if self.ready is not None else None,
            ended_seconds=now - began,
            ended=self.why_ended(end.exit_code),
            exit_code=end.exit_code,
            cpu_seconds=max(end.cpu_seconds, self.cpu_seconds),
            output_lines=self.lines_cut + outputs.count_lines(self.log),
            output_tail=outputs.tail(
                self.log if world is None else world.telling_log, launched=world is not None
            ),
            eviction=self.planned.number if self.planned else None,
            nodes=() if world is None else world.exits(began=began),
        )

    def eviction(
        self, end: NodeEnd, *, now: float, began: float, left_done: bool | None = True
    ) -> Eviction | None:
        """The record of the eviction that ended it, if any.

        `left_done` is whether the work was done when it exited with 0, or when several nodes
        exited; None if unknown.
        """
        if self.planned is None or self.evicted_at is None:
            return None
        world = self.node if isinstance(self.node, SimulatedWorld) else None
        left_at = None if world is None else world.evicted_node_ended_at
        return Eviction(
            number=self.planned.number,
            attempt=self.number,
            at_seconds=self.evicted_at - began,
            moment=self.planned.moment,
            notice=self.planned.notice,
            overlap=self.planned.overlap,
            hit=self.hit,
            in_start_up=self.in_start_up,
            handling=self.handling,
            process=self.process,
            left_seconds=(now if left_at is None else left_at) - self.evicted_at,
            # It may have ended on its own at the last moment.
            killed=self.killed and end.exit_code == _SIGKILLED,
            exit_code=end.exit_code,
            work_seconds=max(0.0, self.evicted_at - self.ready) if self.ready is not None else 0.0,
            unfinished_zero=end.exit_code == 0 and left_done is False,
            unproven_zero=end.exit_code == 0 and left_done is None,
            writing=self.writing,
            torn=self.torn,
            node=self.planned.node,
            work_was_done=world is not None and end.exit_code != 0 and left_done is True,
        )

    def aim(self, node: int | None) -> SimulatedNode:
        """The node to evict: which one of several, or the only one."""
        one = self.node
        self.target = one.choose(node or 0) if isinstance(one, SimulatedWorld) else one
        return self.target

    def kill(self) -> None:
        """Kill the node that was evicted."""
        self.killed = True
        (self.target or self.node).kill()

    def kill_all(self) -> None:
        self.killed = True
        self.node.kill()


@dataclass(frozen=True, kw_only=True, slots=True)
class JobTiming:
    """The timing of the job, as measured in the baseline.

    `start_up_seconds` is 0 if unknown. `needs_sign` and `needs_handler` are what marks the end of
    the startup: a first sign of life, a handler for SIGTERM. `patience_seconds` is how long an
    eviction waits for a save. `unheard_seconds` is how long a program that cannot receive SIGTERM
    keeps running after it: not its full grace period, in which a short job would just finish.
    """

    grace_seconds: float
    patience_seconds: float
    unheard_seconds: float
    start_up_seconds: float = 0.0
    needs_sign: bool = True
    needs_handler: bool = False


class Evictor:
    """Carries out a schedule on live attempts."""

    def __init__(
        self,
        schedule: Schedule,
        clocks: JobClocks,
        timing: JobTiming,
        on_evict: Callable[[LiveAttempt], None],
    ) -> None:
        self._waiting = list(schedule.evictions)
        self._clock = schedule.clock
        self._clocks = clocks
        self._timing = timing
        self._on_evict = on_evict
        self._evicted_at = -math.inf
        self._armed_at: float | None = None
        self._evict_at: float | None = None
        self._saving_at = -math.inf
        self._missed = False
        self._start_up_seconds = timing.start_up_seconds or _UNKNOWN_START_UP_SECONDS

    def started_up(self, seconds: float) -> None:
        """An attempt was ready after this time. A warm start may be much shorter than the first."""
        if self._timing.start_up_seconds:
            self._start_up_seconds = min(self._start_up_seconds, seconds)

    @property
    def waits_for_save(self) -> bool:
        """Whether the next eviction waits for a change in the folder."""
        return self._armed_at is not None

    def evict_if_due(
        self, live_attempts: Sequence[LiveAttempt], *, now: float, saving: bool
    ) -> None:
        """Carry out the evictions that are due; `saving` means that a file is being written now."""
        while self._waiting:
            planned = self._waiting[0]
            victim = self._victim(planned, live_attempts)
            if victim is None or not self._is_due(planned, victim, now=now, saving=saving):
                return
            self._waiting.pop(0)
            hit = self._is_hit(planned, victim)
            self._armed_at = self._evict_at = None
            self._missed = False
            self._evict(planned, victim, now=now, hit=hit)

    def _is_hit(self, planned: PlannedEviction, victim: LiveAttempt) -> bool:
        if planned.moment is EvictionMoment.START_UP:
            return not self._has_started_up(victim)
        return planned.moment is not EvictionMoment.SAVE or self._evict_at is not None

    def _has_started_up(self, victim: LiveAttempt) -> bool:
        """Whether its startup is known to be over. Without any sign of that, it is not known."""
        return victim.ready is not None and self._timing.start_up_seconds > 0

    def seconds_to_next(self, live_attempts: Sequence[LiveAttempt], *, now: float) -> float:
        """Seconds until an eviction can become due; infinite if no time can make it due."""
        if not self._waiting:
            return math.inf
        planned = self._waiting[0]
        victim = self._victim(planned, live_attempts)
        if victim is None:
            return math.inf
        if self._evict_at is not None:
            return self._evict_at - now
        if self._armed_at is not None:
            return self._armed_at + self._timing.patience_seconds - now
        if planned.moment is EvictionMoment.START_UP:
            return victim.started + self._into_start_up(planned) - now
        return planned.at_seconds - self._clocks.seconds(self._clock)

    def _victim(
        self, planned: PlannedEviction, live_attempts: Sequence[LiveAttempt]
    ) -> LiveAttempt | None:
        if planned.moment is EvictionMoment.START_UP:
            fresh = [one for one in live_attempts if one.is_up and one.started > self._evicted_at]
            return max(fresh, key=lambda one: one.started, default=None)
        fit = [
            one
            for one in live_attempts
            if (one.is_target if self._clock is Clock.WORK else one.is_up)
        ]
        return fit[int(planned.draw * len(fit))] if fit else None

    def _is_due(
        self, planned: PlannedEviction, victim: LiveAttempt, *, now: float, saving: bool
    ) -> bool:
        if planned.moment is EvictionMoment.START_UP:
            is_late = now >= victim.started + self._into_start_up(planned)
            return is_late or self._has_started_up(victim)
        if self._clocks.seconds(self._clock) < planned.at_seconds:
            return False
        if planned.moment is not EvictionMoment.SAVE:
            return True
        if self._armed_at is None:
            self._armed_at = now
        if saving:
            self._saving_at = now
            if self._evict_at is None:
                self._evict_at = now + (0.0 if self._missed else planned.pause_seconds)
        if self._evict_at is not None and now >= self._evict_at:
            if now - self._saving_at <= _STILL_SAVING_SECONDS:
                return True
            # That save ended too soon. The next eviction happens at the first sign of one.
            self._evict_at = None
            self._missed = True
        return self._evict_at is None and now >= self._armed_at + self._timing.patience_seconds

    def _into_start_up(self, planned: PlannedEviction) -> float:
        return max(_START_UP_SECONDS_MIN, planned.draw * self._start_up_seconds)

    def _grace_of(self, victim: LiveAttempt) -> float:
        """The grace period. It is short for a program that cannot use it."""
        grace_seconds = self._timing.grace_seconds
        if victim.cannot_hear_yet:
            return min(grace_seconds, self._start_up_seconds)
        if victim.handling in NEVER_HEARD:
            return min(grace_seconds, self._timing.unheard_seconds)
        return grace_seconds

    def _evict(
        self, planned: PlannedEviction, victim: LiveAttempt, *, now: float, hit: bool
    ) -> None:
        """Evict the victim. The signal comes first, so that the moment is not missed."""
        target = victim.aim(planned.node)
        if not planned.notice and not planned.overlap:
            victim.kill()
        elif planned.notice:
            victim.process = target.process_name()
            victim.handling = target.terminate()
            if victim.handling is SigtermHandling.DEFAULT and victim.hears is not None:
                # Its handler has been removed, so it may be about to exit.
                victim.handling = SigtermHandling.UNKNOWN
        victim.evicted_at = now
        victim.planned = planned
        victim.hit = hit
        victim.in_start_up = victim.ready is None or (
            hit and planned.moment is EvictionMoment.START_UP
        )
        victim.cut_at_save = planned.moment is EvictionMoment.LAST_SAVE
        # A node that overlaps its replacement gets no signal until it is killed.
        if planned.notice or planned.overlap:
            victim.kill_at = now + self._grace_of(victim)
        self._evicted_at = now
        self._on_evict(victim)
