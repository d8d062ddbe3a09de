"""One run of the job in a drill: its nodes from their start to the end, evicted by a schedule.

A single thread waits for the next event: the end of a node, a change in the folder, a time that is
due. However the run ends, including by an exception, no node outlives it.
"""

import math
import select
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from outlast.drills.compare.formats import torn_among
from outlast.drills.run import events, outputs, records
from outlast.drills.run.controller import JobController, JobRules, PodEnd
from outlast.drills.run.evictor import Evictor, JobTiming, LiveAttempt
from outlast.drills.run.evidence import node_log_path
from outlast.drills.run.file_activity import FileActivity, FileActivityRecorder
from outlast.drills.run.folder_watch import SaveDetector
from outlast.drills.run.node import Isolation, NodeEnd, SimulatedNode, await_ends
from outlast.drills.run.records import Attempt, AttemptEnd, Eviction, JobRunEnd, SigtermHandling
from outlast.drills.run.schedule import Clock, JobClocks, Schedule
from outlast.drills.run.world import SimulatedWorld, SurvivorLimits

_TICK_SECONDS = 0.1
_LOOK_SECONDS = 0.02
_LOOK_SECONDS_MAX = 0.5
_LOOK_SHARE = 0.1
_CLEAR_SECONDS_MAX = 1.5
_READY_BY_SECONDS = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class JobSetup:
    """Where and how the command runs.

    `environs` returns the variables of each node of an attempt by its number. `is_done` returns
    whether the work is done, given the number of the attempt and the seconds of work of all
    attempts so far; None if unknown. It is called when a node exits with 0 after a notice, and when
    several nodes exit after an eviction.
    `on_activity` gets the number of an attempt and what it did with files. With `survivors`, an
    attempt runs on several nodes that start and end together. Until `is_open` is true for the
    number of an attempt, it is still starting, even if it has printed something.
    """

    name: str
    command: tuple[str, ...]
    folder: Path
    logs: Path
    environs: Callable[[int], Sequence[Mapping[str, str]]]
    workers: int
    isolation: Isolation
    timing: JobTiming
    is_done: Callable[[int, float], bool | None]
    on_activity: Callable[[int, FileActivity | None], None]
    is_open: Callable[[int], bool] = lambda _: True
    expected_seconds: float | None = None
    survivors: SurvivorLimits | None = None


def run_job(
    setup: JobSetup,
    schedule: Schedule,
    rules: JobRules,
    *,
    deadline: float,
    listener: events.Listener,
) -> records.JobRun:
    """Run the job to its end, or to the deadline, and return what happened.

    If killed: the nodes end too where the system ties them to the drill; the logs remain.
    """
    runner = _JobLoop(setup, schedule, rules, deadline=deadline, listener=listener)
    try:
        return runner.run()
    finally:
        runner.clear()


class _JobLoop:
    def __init__(
        self,
        setup: JobSetup,
        schedule: Schedule,
        rules: JobRules,
        *,
        deadline: float,
        listener: events.Listener,
    ) -> None:
        self._setup = setup
        self._planned = len(schedule.evictions)
        self._listener = listener
        self._deadline = deadline
        self._controller = JobController(rules)
        self._began = time.monotonic()
        self._began_at = datetime.now(UTC)
        self._clocks = JobClocks(now=self._began)
        self._changes = SaveDetector(setup.folder, self._on_save, began=self._began)
        self._activity = FileActivityRecorder(setup.folder)
        self._evictor = Evictor(schedule, self._clocks, setup.timing, self._on_evict)
        self._live_attempts: list[LiveAttempt] = []
        self._replacements: list[tuple[float, int]] = []
        self._attempts: list[Attempt] = []
        self._evictions: list[Eviction] = []
        self._next_number = 1
        self._looked_at = 0.0
        self._kept_bounded_at = 0.0

    def run(self) -> records.JobRun:
        self._emit(
            events.JobRunStarted,
            evictions_planned=self._planned,
            expected_seconds=self._setup.expected_seconds,
        )
        for worker in range(self._setup.workers):
            self._start(worker)
        while True:
            self._turn()
            if (end := self._end()) is not None:
                break
            self._wait()
        self._stop_all()
        job_run = records.JobRun(
            name=self._setup.name,
            began=self._began_at,
            seconds=time.monotonic() - self._began,
            work_seconds=self._clocks.seconds(Clock.WORK),
            end=end,
            attempts=tuple(sorted(self._attempts, key=lambda one: one.number)),
            evictions=tuple(sorted(self._evictions, key=lambda one: one.number)),
            saves=tuple(self._changes.saves),
        )
        self._emit(events.JobRunFinished, record=job_run)
        return job_run

    def clear(self) -> None:
        """Kill all nodes that are still running, and wait for their end."""
        for live in self._live_attempts:
            live.kill_all()
        await_ends([live.node for live in self._live_attempts], _CLEAR_SECONDS_MAX)
        self._live_attempts.clear()
        self._changes.close()
        self._activity.close()

    def _end(self) -> JobRunEnd | None:
        if self._controller.failed:
            return JobRunEnd.CRASH_LOOP
        if self._controller.succeeded and not self._live_attempts:
            return JobRunEnd.COMPLETE
        return JobRunEnd.TIMED_OUT if time.monotonic() >= self._deadline else None

    def _turn(self) -> None:
        now = time.monotonic()
        # The flags describe the time since the last turn, because nothing else changes them.
        self._clocks.advance(
            now,
            alive=any(live.is_up for live in self._live_attempts),
            working=any(live.works for live in self._live_attempts),
        )
        saving = self._look(now)
        was_waiting = self._evictor.waits_for_save
        self._evictor.evict_if_due(self._live_attempts, now=now, saving=saving)
        if self._evictor.waits_for_save and not was_waiting:
            # Earlier writes must not trigger it.
            self._changes.look(now=now)
        self._kill_due(now, saving=saving)
        for live in list(self._live_attempts):
            if (end := live.node.ended()) is not None:
                self._live_attempts.remove(live)
                self._on_end(live, end)
        self._see_who_is_ready(now)
        self._start_replacements(now)

    def _look(self, now: float) -> bool:
        """Whether a save is in progress. Programs write a lot, so it looks only when it matters."""
        if not self._is_watchful and now - self._looked_at < _TICK_SECONDS:
            return False
        self._looked_at = now
        if now - self._kept_bounded_at >= _TICK_SECONDS:
            self._kept_bounded_at = now
            for live in self._live_attempts:
                live.lines_cut += outputs.keep_bounded(live.log)
                for log in live.other_logs:
                    outputs.keep_bounded(log)
            self._activity.collect()
        return self._changes.look(now=now)

    @property
    def _is_watchful(self) -> bool:
        return (
            self._evictor.waits_for_save
            or any(live.cut_at_save for live in self._live_attempts)
            or (self._is_alone and self._live_attempts[0].ready is None)
        )

    @property
    def _is_alone(self) -> bool:
        """Whether there is one node, so that every change in the folder is its own."""
        return len(self._live_attempts) == 1

    def _kill_due(self, now: float, *, saving: bool) -> None:
        for live in self._live_attempts:
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
        for live in self._live_attempts:
            if live.sign is None:
                wrote = self._is_alone and self._changes.found_any
                live.sign = now if wrote or outputs.has_output(live.log) else None
            if live.hears is None and live.node.handling() is SigtermHandling.CAUGHT:
                live.hears = now
            if live.ready is None and self._is_ready(live, now):
                live.ready = now
                self._evictor.started_up(now - live.started)
                self._emit(events.AttemptReady, attempt=live.number)

    def _is_ready(self, live: LiveAttempt, now: float) -> bool:
        timing = self._setup.timing
        shown = (live.sign is not None or not timing.needs_sign) and (
            live.hears is not None or not timing.needs_handler
        )
        # The baseline waits for a real sign, because it measures the startup.
        late = now - live.started > 2 * timing.start_up_seconds + _READY_BY_SECONDS
        # Nodes that wait for each other during their startup need not hear about an eviction, so
        # its end must be certain.
        is_ready = shown or bool(late and self._planned and self._setup.survivors is None)
        return is_ready and self._setup.is_open(live.number)

    def _start(self, worker: int) -> None:
        number = self._next_number
        self._next_number += 1
        environs = self._setup.environs(number)
        log, *others = (
            node_log_path(self._setup.logs, number, node) for node in range(len(environs))
        )
        self._activity.begin(alone=not self._live_attempts)
        live = LiveAttempt(
            number=number,
            worker=worker,
            node=self._started(environs, [log, *others]),
            log=log,
            other_logs=tuple(others),
            started=time.monotonic(),
        )
        self._live_attempts.append(live)
        self._emit(events.AttemptStarted, attempt=number, worker=worker)

    def _started(
        self, environs: Sequence[Mapping[str, str]], logs: Sequence[Path]
    ) -> SimulatedNode | SimulatedWorld:
        setup = self._setup
        if setup.survivors is not None:
            return SimulatedWorld(
                setup.command,
                isolation=setup.isolation,
                folder=setup.folder,
                environs=environs,
                logs=logs,
                limits=setup.survivors,
            )
        return SimulatedNode(
            setup.command,
            isolation=setup.isolation,
            folder=setup.folder,
            environ=environs[0],
            log=logs[0],
        )

    def _start_replacements(self, now: float) -> None:
        due = [one for one in self._replacements if one[0] <= now]
        self._replacements = [one for one in self._replacements if one[0] > now]
        for _, worker in due:
            self._start(worker)

    def _on_evict(self, live: LiveAttempt) -> None:
        planned = live.planned
        assert planned is not None, "It was evicted by a planned eviction."
        self._emit(
            events.EvictionSent,
            number=planned.number,
            attempt=live.number,
            notice=planned.notice,
            moment=planned.moment,
            overlap=planned.overlap,
            grace_seconds=self._setup.timing.grace_seconds,
            node=planned.node,
        )
        if isinstance(live.node, SimulatedWorld) and not live.in_start_up:
            live.node.expect_end(notice=planned.notice, now=time.monotonic())
        if planned.overlap and not self._controller.succeeded:
            live.replaced = True
            self._replace(live, self._controller.replacement_seconds())

    def _on_end(self, live: LiveAttempt, end: NodeEnd) -> None:
        now = time.monotonic()
        # Its last writes must not count for its successor, nor what the drill reads from now on.
        self._changes.look(now=now)
        self._setup.on_activity(live.number, self._activity.end())
        if live.killed:
            live.writing = self._changes.recent(now=now)
            live.torn = torn_among(self._setup.folder, live.writing)
        left_done: bool | None = True
        is_evicted_world = isinstance(live.node, SimulatedWorld) and live.planned is not None
        if live.heard if end.exit_code == 0 else is_evicted_world:
            left_done = self._setup.is_done(live.number, self._clocks.seconds(Clock.WORK))
        attempt = live.attempt(end, now=now, began=self._began)
        eviction = live.eviction(end, now=now, began=self._began, left_done=left_done)
        self._attempts.append(attempt)
        if eviction is not None:
            self._evictions.append(eviction)
        self._after(live, attempt)
        self._emit(events.AttemptEnded, attempt=attempt, eviction=eviction)

    def _after(self, live: LiveAttempt, attempt: Attempt) -> None:
        """React to the end of an attempt as a Job does: replace it, or stop the other nodes."""
        if attempt.ended is AttemptEnd.STOPPED:
            return
        seconds = self._controller.pod_ended(_pod_end(attempt))
        if self._controller.succeeded:
            self._replacements.clear()
            if self._setup.workers == 1:
                self._stop_rest()
        elif seconds is not None and not live.replaced:
            self._replace(live, seconds)

    def _replace(self, live: LiveAttempt, seconds: float) -> None:
        outage_seconds = live.planned.outage_seconds if live.planned is not None else 0.0
        seconds = max(seconds, outage_seconds)
        self._replacements.append((time.monotonic() + seconds, live.worker))

    def _stop_rest(self) -> None:
        """The job is complete: terminate the other nodes, as a Job does."""
        for live in self._live_attempts:
            live.stopping = True
            live.aim(None).terminate()
            live.kill_at = live.kill_at or time.monotonic() + self._setup.timing.grace_seconds

    def _stop_all(self) -> None:
        for live in self._live_attempts:
            live.stopping = True
            live.cpu_seconds = live.node.cpu_seconds()
            live.kill_all()
        await_ends([live.node for live in self._live_attempts], _CLEAR_SECONDS_MAX)
        for live in list(self._live_attempts):
            if (end := live.node.ended()) is not None:
                self._live_attempts.remove(live)
                self._on_end(live, end)

    def _wait(self) -> None:
        """Sleep until something may have happened."""
        now = time.monotonic()
        times = [self._deadline - now, _TICK_SECONDS]
        times += [due - now for due, _ in self._replacements]
        times += [
            live.kill_at - now for live in self._live_attempts if live.kill_at and not live.killed
        ]
        times.append(self._evictor.seconds_to_next(self._live_attempts, now=now))
        waiting = [
            one.started for one in self._live_attempts if None in (one.sign, one.hears, one.ready)
        ]
        if waiting:
            share = (now - max(waiting)) * _LOOK_SHARE
            times.append(min(max(_LOOK_SECONDS, share), _LOOK_SECONDS_MAX))
        fds = [live.node.fd for live in self._live_attempts]
        if self._is_watchful:
            fds.append(self._changes.fd)
        if None in fds:
            times.append(_LOOK_SECONDS)
        poll = select.poll()
        for fd in fds:
            if fd is not None:
                poll.register(fd, select.POLLIN)
        # The call counts in milliseconds; rounding down would wake it too early, repeatedly.
        poll.poll(math.ceil(max(0.0, min(times)) * 1000))

    def _on_save(self, path: str) -> None:
        self._emit(events.SaveSeen, path=path)

    def _emit(self, kind: Callable[..., events.DrillEvent], **fields: object) -> None:
        at_seconds = time.monotonic() - self._began
        self._listener(kind(job_run=self._setup.name, at_seconds=at_seconds, **fields))


def _pod_end(attempt: Attempt) -> PodEnd:
    if attempt.exit_code == 0:
        return PodEnd.SUCCEEDED
    return PodEnd.DISRUPTED if attempt.ended is AttemptEnd.EVICTED else PodEnd.FAILED
