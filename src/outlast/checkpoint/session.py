"""The checkpoints of one attempt: resume, save when due, save once more before exiting.

Joins the saver, the schedule, the fence, the journal and the other ranks. The loop's thread only
stages; everything else happens in the background, and its errors are raised at the next `tick`.

With several ranks, all of them save, stop or raise at one step, on which they agree. Rank 0 decides
when a save is due, and is the only one with a journal.
"""

import math
import os
import time
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import CheckpointError, RanksLost
from outlast.checkpoint.failures import FailureHandler
from outlast.checkpoint.forks import watch_forks
from outlast.checkpoint.format.keys import load_hashings, warn_of_open_key_file
from outlast.checkpoint.growth import GrowthCheck
from outlast.checkpoint.ranks import RankGroup, current_group
from outlast.checkpoint.restoring.resume import StateFiller
from outlast.checkpoint.runs.catalog import mark_signed
from outlast.checkpoint.saving.saver import Saver, SaveReport
from outlast.checkpoint.saving.schedule import EXIT_SECONDS, SaveSchedule
from outlast.checkpoint.settings import CheckpointOptions, OnError, SaveSettings
from outlast.checkpoint.starting import StartedAttempt, start_attempt
from outlast.checkpoint.state.randomness import derive_for_rank, generators
from outlast.checkpoint.state.step_hashes import hash_of_all
from outlast.checkpoint.state.tree import capture, check_can_be_filled
from outlast.checkpoint.team import RankTeam
from outlast.errors import OutlastError
from outlast.interruption.guard import Guard
from outlast.journal import events
from outlast.journal.signs import sign_pause
from outlast.ranks.agreement import Order, OrderKind
from outlast.ranks.world import current_world
from outlast.storage import StorageError, final, open_store
from outlast.storage.objects.retrying import hurried

log = get_logger(__name__)

_PROGRESS_SECONDS_MAX = 10.0
_FENCE_SECONDS = 30.0
_WARM_SECONDS_MAX = 30.0


class CheckpointSession:
    """Saves a state under a URL and resumes it, within one attempt.

    `final_seconds` is the time that a final save will have. `extras` are saved with the state. With
    several ranks, the `guard` hears of the notices of the others, and they of its own.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        state: MutableMapping[str, Any],
        options: CheckpointOptions,
        *,
        final_seconds: float = math.inf,
        extras: Mapping[str, object] | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._guard = guard
        self._team: RankTeam | None = None
        self._filler: StateFiller | None = None
        self._final_bytes = 0
        # Refuses ranks that are not connected, before any work is done.
        current_world()
        self._group: RankGroup | None = None
        self._settings = SaveSettings.read(options)
        self._may_pickle = frozenset(
            f"state{path}" if path.startswith("[") else f"state.{path}"
            for path in options.get("may_pickle") or ()
        )
        if load_hashings():
            warn_of_open_key_file()
        self._store = open_store(url)
        self._state: dict[str, object] = {
            "state": state,
            "random": generators(),
            **(extras or {}),
        }
        self._growth: GrowthCheck | None = None
        self._saver: Saver | None = None
        self._started: StartedAttempt | None = None
        self._failures = FailureHandler(self._settings.on_error, self.record)
        self._schedule = SaveSchedule(self._settings.policy, final_seconds=final_seconds)
        self._step = 0
        self.attempt = 0
        """The number of this attempt; 0 before `resume`."""
        self.is_forked = False
        """True in a child of the process that resumed: it must not use the run."""
        self.durable_at: float | None = None
        """Unix time of the newest checkpoint; None without one."""
        self._is_warm = False
        self._warned_unchanged = False
        # Until one of these is reached, `tick` returns at once. The writer sets the alarm.
        self._alarm = False
        self._due_step = math.inf
        self._due_at = -math.inf
        self._progress_at = -math.inf
        self._progress_pause = 0.0
        self._begun_at = time.monotonic()
        self._fence_at = 0.0

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def rank(self) -> int:
        """Which of several ranks this process is; 0 for a single one."""
        return self._group.rank if self._group is not None else 0

    @property
    def has_ranks(self) -> bool:
        """Whether several ranks save this run together."""
        return self._group is not None

    @property
    def is_recut(self) -> bool:
        """Whether another number of ranks had saved the state that was resumed."""
        started = self._started
        found = started.resumption if started is not None else None
        return found is not None and found.is_recut

    @property
    def has_resumed(self) -> bool:
        """Whether `resume` has claimed an attempt."""
        return self._saver is not None

    @property
    def saver(self) -> Saver:
        """The saver. Raises in a forked child, and before `resume`."""
        self.refuse_in_child()
        if self._saver is None:
            raise RuntimeError("Call resume() first: it claims the attempt that saves belong to.")
        return self._saver

    def resume(self) -> int:
        """See `Checkpointer.resume`."""
        if self._saver is not None:
            raise RuntimeError("This checkpointer has already resumed.")
        self._group = current_group()
        if self._group is None:
            return self._resume(None)
        self._team = RankTeam(self._group, self._guard, self._seconds_needed)
        self._team.start()
        try:
            return self._resume(self._group)
        except BaseException as error:
            try:
                self._end_start(error, self._group, self._team)
            finally:
                self._team.close()
            raise

    def _end_start(self, error: BaseException, group: RankGroup, team: RankTeam) -> None:
        """Let the other ranks know why this one does not start. Raises if they are the reason."""
        is_ended_by_peers = not isinstance(error, RanksLost) and team.is_ended_by_peers(error)
        if not group.raises_together:
            team.report_failure(error)
        if is_ended_by_peers:
            raise RanksLost(f"The other ranks are gone: {error}") from error

    def _resume(self, group: RankGroup | None) -> int:
        # An unsupported state should be reported now, not after an hour of work.
        check_can_be_filled(self._state["state"])
        fresh = capture(self._state, may_pickle=self._may_pickle).without_arrays()
        self._growth = GrowthCheck(
            fresh,
            self._may_pickle,
            raises=self._settings.on_error is OnError.RAISE,
            alarm=self._raise_alarm,
        )
        self._filler = StateFiller(
            self._store,
            self._state,
            fresh=fresh,
            may_pickle=self._may_pickle,
            compares=self._settings.compare_restored,
            rank=self.rank,
            size=group.size if group is not None else 1,
            is_elastic=self._settings.elastic,
        )
        started = start_attempt(self._store, self._filler, group)
        self._started, self.attempt = started, started.attempt
        if self.is_recut:
            self._continue_recut(started)
        self._begin(started)
        self.saver.discard(started.outdated)
        return self._schedule.saved_step

    def fingerprint(self) -> str:
        """A hash of the program's state. Reads all of it; what is pickled does not count."""
        return hash_of_all({"state": self._state["state"]}, self._may_pickle)

    def undo_changes(self, since: str) -> None:
        """Restore the checkpoint that was resumed from again, unless the state is still the same.

        `since` is the fingerprint of what was restored.
        """
        started = self._started
        if started is None or started.resumption is None or self._filler is None:
            raise RuntimeError("There is nothing to undo: this attempt resumed from no checkpoint.")
        if self.fingerprint() != since or self._may_pickle:
            self._filler.fill(started.resumption.manifest)

    def tick(self, step: int) -> Order | None:
        """See `Checkpointer.tick`. Returns the order to stop at this step, if the ranks agreed."""
        if self._team is None:
            self._tick(step)
            return None
        order = self._team.boundary(step)
        if order is not None and order.kind is not OrderKind.SAVE:
            return order
        try:
            if order is None:
                self._tick(step)
            else:
                self.save(step)
        except Exception as error:
            if self.is_forked:
                raise
            # A rank that raises alone would leave the others waiting for it.
            if self._team.hold(error):
                # They may save once more before all raise, and must not wait for this rank.
                self.saver.skip(error)
        return None

    def call_save(self, step: int) -> None:
        """Save now or, with several ranks, at the next step that all of them can still reach."""
        if self._team is None:
            self.save(step)
        else:
            self._team.call_save()

    def save(self, step: int) -> None:
        """See `Checkpointer.save`. With several ranks, all of them save the same step."""
        saver = self.saver
        try:
            with self._failures.handled(self._saved_step):
                saver.wait()
        except BaseException as error:
            saver.skip(error)
            raise
        self._schedule.start(step, now=time.monotonic())
        with self._failures.handled(self._saved_step):
            saver.save(step)
        self._is_warm = True
        self._schedule.staged(now=time.monotonic())
        self._plan_next()

    def _tick(self, step: int) -> None:
        self._step = step
        if step < self._due_step and not self._alarm and time.monotonic() < self._due_at:
            return
        saver, now = self.saver, time.monotonic()
        assert self._growth is not None, "A session with a saver has resumed."
        self._growth.raise_pending()
        if saver.busy and not self._schedule.is_exact:
            return
        is_due = self._schedule.is_due(step, now=now)
        if is_due and not self._schedule.is_exact:
            if self.rank > 0:
                is_due = False
            # Better to save a little later than to wait for memory; but not much later.
            elif saver.is_warming and now < self._schedule.next_due()[1] + _WARM_SECONDS_MAX:
                return
        if saver.busy and not is_due:
            return
        self._alarm = False
        with self._failures.handled(self._saved_step):
            saver.wait()
        if is_due and self._schedule.is_exact:
            self.save(step)
        elif is_due:
            self.call_save(step)
        elif step > self._schedule.saved_step and not self._is_warm:
            # By now the optimizer has created its moments: get memory before the first save.
            self._is_warm = True
            saver.warm_up()
        self._note_progress(step)

    def wait(self) -> None:
        """See `Checkpointer.wait`."""
        with self._failures.handled(self._saved_step):
            self.saver.wait_durable()

    def final_save(
        self,
        step: int,
        remaining: Callable[[], float],
        *,
        at_boundary: bool = True,
        is_agreed: bool = False,
    ) -> events.FinalChoice:
        """See `Checkpointer.final_save`.

        Within a step (not `at_boundary`) the state is inconsistent, and only a state that is
        already staged can be saved. `is_agreed`: all ranks save this step.
        """
        with hurried():
            saver = self.saver
            saver.hurry(lambda: final(remaining(), needed_seconds=self._seconds_needed()))
            staged_step = saver.pending_step
            self._contain(saver.wait, remaining)
            choice = self._decide(
                step, remaining(), staged_step, at_boundary=at_boundary, is_agreed=is_agreed
            )
            if choice is events.FinalChoice.FULL:
                self._schedule.start(step, now=time.monotonic())
                self._contain(lambda _: saver.save(step), remaining)
                self._contain(saver.wait_durable, remaining)
            return choice

    def record(self, event: events.Event) -> None:
        """Write an event to the journal of this attempt, if this process has it."""
        if self._started is not None and self._started.journal is not None:
            self._started.journal.record(event)

    def report_failure(self, error: BaseException) -> None:
        """Let the other ranks know that this one has failed, if there are any."""
        if self._team is not None:
            self._team.report_failure(error)

    def is_ended_by_peers(self, error: BaseException) -> bool:
        """Whether an error comes from another rank that is gone, not from this one."""
        return self._team is not None and self._team.is_ended_by_peers(error)

    def close(self, seconds_left: float = math.inf) -> None:
        """See `Checkpointer.close`."""
        if self._saver is None or self.is_forked:
            return
        try:
            self._close(self._saver, seconds_left)
        finally:
            if self._team is not None:
                self._team.close()

    def _close(self, saver: Saver, seconds_left: float) -> None:
        self._saver = None
        if self._growth is not None:
            self._growth.log_pending()
        try:
            if math.isinf(seconds_left):
                try:
                    with self._failures.handled(self._saved_step):
                        saver.wait()
                finally:
                    saver.close()
        finally:
            journal = self._started.journal if self._started is not None else None
            if journal is not None and math.isinf(seconds_left):
                journal.close()
            elif journal is not None:
                journal.close(limits=final(seconds_left))

    def refuse_in_child(self) -> None:
        """Raise `CheckpointError` in a child forked from the process that resumed."""
        if self.is_forked:
            raise CheckpointError(
                f"This process was forked while the run in {self.url} was open, so it cannot "
                "continue or save that run. Only the process that opened the run can.",
                hint="Leave the loop in the child with `break`, or start worker processes with "
                "multiprocessing's 'spawn' method.",
            )

    def disown(self) -> None:
        """In a forked child: make the next `tick` look closely, and refuse."""
        self.is_forked = self._alarm = True

    def _seconds_needed(self) -> float:
        return self._schedule.needed_seconds(self._final_bytes)

    def _continue_recut(self, started: StartedAttempt) -> None:
        """Continue what another number of ranks has saved."""
        assert started.resumption is not None, "Only what was resumed is divided again."
        manifest = started.resumption.manifest
        if self.rank >= manifest.world_size:
            derive_for_rank(self.rank, manifest.step)
        log.warning(
            "Step %d was saved by %d ranks and is continued by %d. The arrays that the ranks share "
            "are exact, but the results will not be bit-identical to those of an uninterrupted "
            "run.",
            manifest.step,
            manifest.world_size,
            self._group.size if self._group is not None else 1,
        )

    def _begin(self, started: StartedAttempt) -> None:
        found, history = started.resumption, started.history
        self._schedule.use_history(history.observed, history.costs, history.bytes_last)
        self._saver = Saver(
            self._store,
            self._state,
            self.attempt,
            retention=self._settings.retention,
            memory_bytes_max=self._settings.memory_bytes_max,
            may_pickle=self._may_pickle,
            run_id=mark_signed(self._store) if load_hashings() else None,
            group=self._group.connect() if self._group is not None else None,
            world_id=started.world_id,
            after_commit=self._after_commit,
            after_failure=self._raise_alarm,
            after_giving_up=self._record_given_up,
        )
        if found is not None:
            self._saver.start_from(found.manifest, found.chunks)
            self.durable_at = found.manifest.created.timestamp()
        self._fence_at = time.monotonic()
        self._schedule.begin(found.manifest.step if found else 0, now=self._fence_at)
        watch_forks(self)
        # Touching the memory of a large state takes seconds, which no save should wait for.
        self._saver.warm_up()
        if self._group is not None:
            self._final_bytes = self._saver.size_now()
        self._plan_next()

    def _saved_step(self) -> int:
        return self._schedule.saved_step

    def _raise_alarm(self) -> None:
        self._alarm = True

    def _plan_next(self) -> None:
        """Set when `tick` must look at more than one number and the clock."""
        self._due_step, due_at = self._schedule.next_due()
        self._due_at = min(due_at, self._progress_at + self._progress_pause)
        if not self._is_warm:
            self._due_step = self._schedule.saved_step + 1

    def _note_progress(self, step: int) -> None:
        now = time.monotonic()
        if now >= self._progress_at + self._progress_pause:
            self._progress_at = now
            # As often as the journal is written, so that a kill leaves few steps unrecorded.
            self._progress_pause = min(sign_pause(now - self._begun_at), _PROGRESS_SECONDS_MAX)
            self.record(events.Progress(at=events.utc_now(), step=step))
        if now >= self._fence_at + _FENCE_SECONDS and self.rank == 0:
            self._fence_at = now
            self.saver.look_for_newer()
        self._plan_next()

    def _decide(
        self,
        step: int,
        left: float,
        staged_step: int | None,
        *,
        at_boundary: bool,
        is_agreed: bool,
    ) -> events.FinalChoice:
        """Choose what to save in the time that is left, and record why."""
        saver = self.saver
        size = saver.size_now()
        needed = self._schedule.needed_seconds(size)
        is_newer = at_boundary and step > saver.committed_step
        is_guarded_group = self._group is not None and self._guard is not None
        fits = is_agreed if is_guarded_group else needed <= left
        if not saver.busy and is_newer and fits:
            choice = events.FinalChoice.FULL
        elif staged_step is not None and saver.committed_step == staged_step:
            choice = events.FinalChoice.STAGED
        else:
            choice = events.FinalChoice.KEEP
        numbers = {
            "seconds_left": left,
            "seconds_needed": needed,
            "bytes_total": float(size),
            "saves_measured": float(self._schedule.saves_measured),
        }
        log.info(
            "Final save at step %d: %s. %s",
            step,
            choice.value,
            ", ".join(f"{name} {number:.3g}" for name, number in numbers.items()),
        )
        self.record(
            events.FinalDecision(at=events.utc_now(), step=step, choice=choice, numbers=numbers)
        )
        return choice

    def _contain(self, work: Callable[[float], object], remaining: Callable[[], float]) -> None:
        """Do something within the time that is left; a failure is logged and recorded."""
        saver = self.saver
        step = saver.pending_step if saver.pending_step is not None else self._schedule.saved_step
        try:
            work(max(0.0, remaining() - EXIT_SECONDS))
        except (OutlastError, OSError, MemoryError, RuntimeError) as error:
            self._failures.note(step, error)
            return
        if saver.pending_step is not None and remaining() <= EXIT_SECONDS:
            self._failures.note(step, TimeoutError("It was not durable in time."))

    def _after_commit(self, report: SaveReport) -> None:
        """In the writer thread: record what the save took."""
        manifest = report.manifest
        self.durable_at = manifest.created.timestamp()
        self._final_bytes = manifest.size_bytes
        cost = self._schedule.commit(
            stall_seconds=report.stall_seconds,
            durable_seconds=report.durable_seconds,
            size_bytes=manifest.size_bytes,
            step=self._step,
            now=time.monotonic(),
        )
        self.record(
            events.Saved(
                at=events.utc_now(),
                step=manifest.step,
                stall_seconds=report.stall_seconds,
                seconds=report.durable_seconds,
                bytes_total=report.size_bytes,
                bytes_new=report.new_bytes,
                slow_seconds=cost.slow_seconds,
                final=report.final,
            )
        )
        if report.unchanged and not self._warned_unchanged:
            self._warned_unchanged = True
            log.warning(
                "The state did not change between two saves. Check that the loop updates the "
                "state, for example with state['params'] = ..., and not only a local variable."
            )
        assert self._growth is not None, "A session with a saver has resumed."
        self._growth.check(manifest)

    def _record_given_up(self, step: int, checkpoint: str, error: StorageError) -> None:
        """In the writer thread: record what was deleted to make room."""
        self.record(
            events.CheckpointGivenUp(
                at=events.utc_now(), step=step, checkpoint=checkpoint, reason=str(error)
            )
        )
