"""One leg of a drill: a Job's nodes from their start to the end of the job, evicted by a schedule.

A single thread waits for whatever comes next: the end of a node, a change in the folder, a time
that is up. Whichever way the leg is left, by an exception too, no node outlives it.
"""

import math
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from outlast.drill import events, outputs, records
from outlast.drill.changes import Changes
from outlast.drill.clocks import Clocks
from outlast.drill.controller import Job, JobRules, PodEnd
from outlast.drill.evictor import Evictor, Habits
from outlast.drill.formats import torn_among
from outlast.drill.isolation import Isolation
from outlast.drill.live import Live
from outlast.drill.node import Node, NodeEnd, await_ends
from outlast.drill.records import Attempt, Ended, Eviction, Handling, LegEnd
from outlast.drill.schedule import Clock, Schedule

_TICK_SECONDS = 0.1
_LOOK_SECONDS = 0.02
_LOOK_SECONDS_MAX = 0.5
_LOOK_SHARE = 0.1
_CLEAR_SECONDS_MAX = 1.5
_READY_BY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """Where and how the command runs in this leg.

    `environ` gives the variables of an attempt by its number. `is_done` says whether the work is
    done, given the seconds of work of all attempts so far and of the last; None if nothing shows
    it. It is asked when a node leaves with 0 after a notice.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    logs: Path
    environ: Callable[[int], Mapping[str, str]]
    workers: int
    isolation: Isolation
    habits: Habits
    is_done: Callable[[float, float], bool | None]
    expected_seconds: float | None = None


def run_leg(
    stage: Stage,
    schedule: Schedule,
    rules: JobRules,
    *,
    deadline: float,
    listener: events.Listener,
) -> records.Leg:
    """Run the job to its end, or to the deadline, and tell what happened.

    If killed: the nodes vanish too where the system ties them to us; the logs stay.
    """
    runner = _Runner(stage, schedule, rules, deadline=deadline, listener=listener)
    try:
        return runner.run()
    finally:
        runner.clear()


class _Runner:
    def __init__(
        self,
        stage: Stage,
        schedule: Schedule,
        rules: JobRules,
        *,
        deadline: float,
        listener: events.Listener,
    ) -> None:
        self._stage = stage
        self._planned = len(schedule.evictions)
        self._listener = listener
        self._deadline = deadline
        self._job = Job(rules)
        self._began = time.monotonic()
        self._began_at = datetime.now(UTC)
        self._clocks = Clocks(now=self._began)
        self._changes = Changes(stage.folder, self._on_save, began=self._began)
        self._evictor = Evictor(schedule, self._clocks, stage.habits, self._on_strike)
        self._lives: list[Live] = []
        self._replacements: list[tuple[float, int]] = []
        self._attempts: list[Attempt] = []
        self._evictions: list[Eviction] = []
        self._next_number = 1
        self._looked_at = 0.0

    def run(self) -> records.Leg:
        self._emit(
            events.LegStarted,
            evictions_planned=self._planned,
            expected_seconds=self._stage.expected_seconds,
        )
        for worker in range(self._stage.workers):
            self._start(worker)
        while True:
            self._turn()
            if (end := self._end()) is not None:
                break
            self._wait()
        self._stop_all()
        leg = records.Leg(
            name=self._stage.name,
            began=self._began_at,
            seconds=time.monotonic() - self._began,
            work_seconds=self._clocks.seconds(Clock.WORK),
            end=end,
            attempts=tuple(sorted(self._attempts, key=lambda one: one.number)),
            evictions=tuple(sorted(self._evictions, key=lambda one: one.number)),
            saves=tuple(self._changes.saves),
        )
        self._emit(events.LegFinished, record=leg)
        return leg

    def clear(self) -> None:
        """Let every node vanish that is still there, and wait for it."""
        for live in self._lives:
            live.kill()
        await_ends([live.node for live in self._lives], _CLEAR_SECONDS_MAX)
        self._lives.clear()
        self._changes.close()

    def _end(self) -> LegEnd | None:
        if self._job.failed:
            return LegEnd.CRASH_LOOP
        if self._job.succeeded and not self._lives:
            return LegEnd.COMPLETE
        return LegEnd.TIMED_OUT if time.monotonic() >= self._deadline else None

    def _turn(self) -> None:
        now = time.monotonic()
        # The flags are those of the time since the last turn, because nothing else changes them.
        self._clocks.advance(
            now,
            alive=any(live.is_up for live in self._lives),
            working=any(live.works for live in self._lives),
        )
        saving = self._look(now)
        was_waiting = self._evictor.waits_for_save
        self._evictor.strike_if_due(self._lives, now=now, saving=saving)
        if self._evictor.waits_for_save and not was_waiting:
            # What was written before is none of its business.
            self._changes.look(now=now)
        self._kill_due(now, saving=saving)
        for live in list(self._lives):
            if (end := live.node.ended()) is not None:
                self._lives.remove(live)
                self._on_end(live, end)
        self._see_who_is_ready(now)
        self._start_replacements(now)

    def _look(self, now: float) -> bool:
        """Whether a save is seen. Programs write a lot, so it looks only when it matters."""
        if not self._is_watchful and now - self._looked_at < _TICK_SECONDS:
            return False
        if now - self._looked_at >= _TICK_SECONDS:
            for live in self._lives:
                live.lines_cut += outputs.keep_bounded(live.log)
        self._looked_at = now
        return self._changes.look(now=now)

    @property
    def _is_watchful(self) -> bool:
        return (
            self._evictor.waits_for_save
            or any(live.cut_at_save for live in self._lives)
            or (self._is_alone and self._lives[0].ready is None)
        )

    @property
    def _is_alone(self) -> bool:
        """Between several nodes, a change in the folder cannot be told apart."""
        return len(self._lives) == 1

    def _kill_due(self, now: float, *, saving: bool) -> None:
        for live in self._lives:
            if live.kill_at is None or live.killed:
                continue
            cut_short = (live.cut_at_save and saving) or (
                live.cannot_hear_yet and live.ready is not None
            )
            if now < live.kill_at and not cut_short:
                continue
            live.kill()
            live.hit = live.hit and now < live.kill_at if live.cut_at_save else live.hit
            if not live.stopping:
                self._emit(events.Killed, attempt=live.number)

    def _see_who_is_ready(self, now: float) -> None:
        for live in self._lives:
            if live.sign is None:
                wrote = self._is_alone and self._changes.found_any
                live.sign = now if wrote or outputs.has_output(live.log) else None
            if live.hears is None and live.node.handling() is Handling.CAUGHT:
                live.hears = now
            if live.ready is None and self._is_ready(live, now):
                live.ready = now
                self._emit(events.AttemptReady, attempt=live.number)

    def _is_ready(self, live: Live, now: float) -> bool:
        habits = self._stage.habits
        shown = (live.sign is not None or not habits.needs_sign) and (
            live.hears is not None or not habits.needs_handler
        )
        # The baseline waits for a true sign, because it is there to learn from.
        late = now - live.started > 2 * habits.start_up_seconds + _READY_BY_SECONDS
        return shown or bool(late and self._planned)

    def _start(self, worker: int) -> None:
        number = self._next_number
        self._next_number += 1
        log = self._stage.logs / f"attempt-{number:04}.log"
        node = Node(
            self._stage.command,
            isolation=self._stage.isolation,
            folder=self._stage.folder,
            environ=self._stage.environ(number),
            log=log,
        )
        live = Live(number=number, worker=worker, node=node, log=log, started=time.monotonic())
        self._lives.append(live)
        self._emit(events.AttemptStarted, attempt=number, worker=worker)

    def _start_replacements(self, now: float) -> None:
        due = [one for one in self._replacements if one[0] <= now]
        self._replacements = [one for one in self._replacements if one[0] > now]
        for _, worker in due:
            self._start(worker)

    def _on_strike(self, live: Live) -> None:
        planned = live.planned
        assert planned is not None, "It was struck by an eviction."
        self._emit(
            events.EvictionSent,
            number=planned.number,
            attempt=live.number,
            notice=planned.notice,
            moment=planned.moment,
            overlap=planned.overlap,
            grace_seconds=self._stage.habits.grace_seconds,
        )
        if planned.overlap and not self._job.succeeded:
            live.replaced = True
            self._replace(live, self._job.replacement_seconds())

    def _on_end(self, live: Live, end: NodeEnd) -> None:
        now = time.monotonic()
        # What it wrote last is its own, not its successor's.
        self._changes.look(now=now)
        if live.killed:
            live.writing = self._changes.recent(now=now)
            live.torn = torn_among(self._stage.folder, live.writing)
        left_done: bool | None = True
        if live.heard and end.exit_code == 0:
            own_seconds = now - live.ready if live.ready is not None else 0.0
            left_done = self._stage.is_done(self._clocks.seconds(Clock.WORK), own_seconds)
        attempt = live.attempt(end, now=now, began=self._began)
        eviction = live.eviction(end, now=now, began=self._began, left_done=left_done)
        self._attempts.append(attempt)
        if eviction is not None:
            self._evictions.append(eviction)
        seconds = self._after(live, attempt)
        self._emit(
            events.AttemptEnded, attempt=attempt, eviction=eviction, replaced_in_seconds=seconds
        )

    def _after(self, live: Live, attempt: Attempt) -> float | None:
        """What the Job does about the end of an attempt: replace it, or stop what is left."""
        if attempt.ended is Ended.STOPPED:
            return None
        seconds = self._job.pod_ended(_pod_end(attempt))
        if self._job.succeeded:
            self._replacements.clear()
            if self._stage.workers == 1:
                self._stop_rest()
            return None
        if seconds is None or live.replaced:
            return None
        return self._replace(live, seconds)

    def _replace(self, live: Live, seconds: float) -> float:
        outage_seconds = live.planned.outage_seconds if live.planned is not None else 0.0
        seconds = max(seconds, outage_seconds)
        self._replacements.append((time.monotonic() + seconds, live.worker))
        return seconds

    def _stop_rest(self) -> None:
        """The job is complete: whoever is left is told to stop, as a Job does."""
        for live in self._lives:
            live.stopping = True
            live.node.terminate()
            live.kill_at = live.kill_at or time.monotonic() + self._stage.habits.grace_seconds

    def _stop_all(self) -> None:
        for live in self._lives:
            live.stopping = True
            live.kill()
        await_ends([live.node for live in self._lives], _CLEAR_SECONDS_MAX)
        for live in list(self._lives):
            if (end := live.node.ended()) is not None:
                self._lives.remove(live)
                self._on_end(live, end)

    def _wait(self) -> None:
        """Sleep until something can have happened."""
        now = time.monotonic()
        times = [self._deadline - now, _TICK_SECONDS]
        times += [due - now for due, _ in self._replacements]
        times += [live.kill_at - now for live in self._lives if live.kill_at and not live.killed]
        times.append(self._evictor.seconds_to_next(self._lives, now=now))
        waiting = [one.started for one in self._lives if None in (one.sign, one.hears, one.ready)]
        if waiting:
            share = (now - max(waiting)) * _LOOK_SHARE
            times.append(min(max(_LOOK_SECONDS, share), _LOOK_SECONDS_MAX))
        fds = [live.node.fd for live in self._lives]
        if self._is_watchful:
            fds.append(self._changes.fd)
        if None in fds:
            times.append(_LOOK_SECONDS)
        poll = select.poll()
        for fd in fds:
            if fd is not None:
                poll.register(fd, select.POLLIN)
        # A millisecond is the unit of the call; less would wake it too early, again and again.
        poll.poll(math.ceil(max(0.0, min(times)) * 1000))

    def _on_save(self, path: str) -> None:
        self._emit(events.SaveSeen, path=path)

    def _emit(self, kind: Callable[..., events.DrillEvent], **fields: object) -> None:
        at_seconds = time.monotonic() - self._began
        self._listener(kind(leg=self._stage.name, at_seconds=at_seconds, **fields))


def _pod_end(attempt: Attempt) -> PodEnd:
    if attempt.exit_code == 0:
        return PodEnd.SUCCEEDED
    return PodEnd.DISRUPTED if attempt.ended is Ended.EVICTED else PodEnd.FAILED
