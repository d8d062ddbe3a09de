"""Checkpoints for loops that drive themselves: resume, tick after each step, save, wait.

Joins the saver, the interval, the fence and the journal. The loop's thread only stages; everything
else happens behind it, and what goes wrong there is raised at the next `tick`.
"""

import logging
import math
import os
import socket
import time
from collections.abc import Callable, Collection, Mapping, MutableMapping
from types import TracebackType
from typing import Any, Self

from outlast._base.interval import COSTS_KEPT, Observed, SaveCost
from outlast.checkpoint import fence
from outlast.checkpoint.errors import CheckpointError, Fenced, UnsupportedState
from outlast.checkpoint.pace import LEAVE_SECONDS, Pace
from outlast.checkpoint.randomness import generators
from outlast.checkpoint.resume import Resumption, resume_newest
from outlast.checkpoint.saver import Saver, SaveReport
from outlast.checkpoint.settings import OnError, SaveSettings
from outlast.checkpoint.tree import capture
from outlast.errors import OutlastError
from outlast.journal import events
from outlast.journal.derive import summarise
from outlast.journal.reader import AttemptRecord, read_journal
from outlast.journal.writer import JournalWriter
from outlast.storage import StorageError, final, open_store

log = logging.getLogger(__name__)

_PROGRESS_SECONDS = 10.0
_FENCE_SECONDS = 30.0


class Checkpointer:
    """Saves `state` under `url` and resumes it. See `outlast.Run` for loops that can hand over.

    `step` counts the steps that are done, so `save(0)` is the state before the first one. Neither
    `every_steps` nor `every_seconds` means that the interval is found from what saves cost.
    `final_seconds` is what a final save will have: if none fits, the interval is shorter.
    `may_pickle` names the parts of the state, by their path such as "sampler" or "model.extra",
    that may be pickled, and unpickled at resume; never resume such a run from a place that others
    can write to.
    """

    def __init__(
        self,
        url: str | os.PathLike[str],
        state: MutableMapping[str, Any],
        *,
        every_steps: int | None = None,
        every_seconds: float | None = None,
        keep_last: int | None = None,
        keep_every: int | None = None,
        on_error: str | None = None,
        memory_bytes_max: int | None = None,
        floor_seconds: float | None = None,
        ceiling_seconds: float | None = None,
        prior_mean_seconds: float | None = None,
        prior_unannounced_share: float | None = None,
        prior_weight: float | None = None,
        final_seconds: float = math.inf,
        may_pickle: Collection[str] = (),
        extras: Mapping[str, object] | None = None,
    ) -> None:
        _refuse_many_ranks()
        self._settings = SaveSettings.read(
            {
                "every_steps": every_steps,
                "every_seconds": every_seconds,
                "keep_last": keep_last,
                "keep_every": keep_every,
                "on_error": on_error,
                "memory_bytes_max": memory_bytes_max,
                "floor_seconds": floor_seconds,
                "ceiling_seconds": ceiling_seconds,
                "prior_mean_seconds": prior_mean_seconds,
                "prior_unannounced_share": prior_unannounced_share,
                "prior_weight": prior_weight,
            }
        )
        self._may_pickle = frozenset(
            f"state{path}" if path.startswith("[") else f"state.{path}" for path in may_pickle
        )
        self._store = open_store(url)
        self._whole: dict[str, object] = {
            "state": state,
            "random": generators(),
            **(extras or {}),
        }
        self._saver: Saver | None = None
        self._journal: JournalWriter | None = None
        self._attempt = 0
        self._pace = Pace(self._settings.policy, final_seconds=final_seconds)
        self._step = 0
        self.durable_at: float | None = None
        """Unix time at which the newest checkpoint was made; None without one."""
        self._is_warm = False
        self._warned_unchanged = False
        # Until one of these is reached, a tick looks no further. Set by the writer on a failure.
        self._alarm = False
        self._due_step = math.inf
        self._due_at = -math.inf
        self._progress_at = -math.inf
        self._fence_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def attempt(self) -> int:
        """The number of this life of the run; 0 before `resume`."""
        return self._attempt

    @property
    def url(self) -> str:
        return self._store.url

    def resume(self) -> int:
        """Claim the next attempt, fill the state from the newest checkpoint that verifies, and
        return how many steps are done; 0 if there is no checkpoint.

        Raises `UnsupportedState` or `StateMismatch` before anything is changed, or
        `NothingVerifies`.
        """
        if self._saver is not None:
            raise RuntimeError("This checkpointer has resumed already.")
        # What cannot be saved should show now, not after an hour of work.
        capture(self._whole, may_pickle=self._may_pickle)
        self._attempt = fence.claim(self._store)
        self._look_back()
        self._journal = JournalWriter(self._store, self._attempt)
        self.record(
            events.AttemptStarted(
                at=events.utc_now(),
                attempt=self._attempt,
                host=socket.gethostname(),
                pid=os.getpid(),
            )
        )
        try:
            found = resume_newest(self._store, self._whole, may_pickle=self._may_pickle)
        except BaseException as error:
            what = f"{type(error).__name__}: {error}"
            self.record(events.Failed(at=events.utc_now(), step=0, error=what))
            self._journal.close()
            raise
        self._begin(found)
        return self._pace.saved_step

    def tick(self, step: int) -> None:
        """Say that `step` steps are done; saves if one is due and none is being written.

        With `every_steps`, one that is due waits for the one before instead of coming late. Raises
        what went wrong with an earlier save, unless `on_error="warn"`; `Fenced` always.
        """
        self._step = step
        if step < self._due_step and not self._alarm and time.monotonic() < self._due_at:
            return
        saver = self._opened()
        if saver.busy and not self._pace.is_exact:
            return
        is_due = self._pace.is_due(step, now=time.monotonic())
        if saver.busy and not is_due:
            return
        self._alarm = False
        self._heed(saver.wait)
        if is_due:
            self.save(step)
        elif step > self._pace.saved_step and not self._is_warm:
            # By now the optimizer has made its moments: memory for them before the first save.
            self._is_warm = True
            saver.warm_up()
        self._note_progress(step)

    def save(self, step: int) -> None:
        """Stage the state now and write it in the background. Waits for an earlier save first."""
        saver = self._opened()
        self._heed(saver.wait)
        self._pace.start(step, now=time.monotonic())
        self._heed(lambda: saver.save(step))
        self._is_warm = True
        self._pace.go_on(now=time.monotonic())
        self._plan_next()

    def wait(self) -> None:
        """Return once what was staged is durable. Raises what went wrong."""
        self._heed(self._opened().wait_durable)

    def final_save(
        self, step: int, remaining: Callable[[], float], *, at_boundary: bool = True
    ) -> events.FinalChoice:
        """Save what fits into the seconds that `remaining()` gives, and say what that was.

        Nothing is started that cannot commit in time: a full save, else what is staged already,
        else the last checkpoint stays. Off a boundary the state is between two steps, and only
        what is staged can be saved. A failure is logged, never raised: the process leaves anyway.
        """
        saver = self._opened()
        saver.hurry(lambda: final(remaining()))
        staged_step = saver.pending_step
        self._settle(saver.wait, remaining)
        size = saver.size_now()
        needed, left = self._pace.needed_seconds(size), remaining()
        numbers = {
            "seconds_left": left,
            "seconds_needed": needed,
            "bytes_total": float(size),
            "saves_measured": float(self._pace.saves_measured),
        }
        is_newer = at_boundary and step > saver.committed_step
        if not saver.busy and is_newer and needed <= left:
            choice = events.FinalChoice.FULL
        elif staged_step is not None and saver.committed_step == staged_step:
            choice = events.FinalChoice.STAGED
        else:
            choice = events.FinalChoice.KEEP
        log.info(
            "Final save at step %d: %s. %s",
            step,
            choice.value,
            ", ".join(f"{name} {number:.3g}" for name, number in numbers.items()),
        )
        self.record(
            events.FinalDecision(at=events.utc_now(), step=step, choice=choice, numbers=numbers)
        )
        if choice is events.FinalChoice.FULL:
            self._pace.start(step, now=time.monotonic())
            self._settle(lambda _: bool(saver.save(step)), remaining)
            self._settle(saver.wait_durable, remaining)
        return choice

    def record(self, event: events.Event) -> None:
        """Put an event into the journal of this attempt."""
        if self._journal is not None:
            self._journal.record(event)

    def close(self, seconds_left: float = math.inf) -> None:
        """Finish what is being written, as far as `seconds_left` allows, and let go of it all."""
        if self._saver is None:
            return
        saver, self._saver = self._saver, None
        try:
            if math.isinf(seconds_left):
                try:
                    self._heed(saver.wait)
                finally:
                    saver.close()
        finally:
            if self._journal is not None:
                if math.isinf(seconds_left):
                    self._journal.close()
                else:
                    self._journal.close(limits=final(seconds_left))

    def _begin(self, found: Resumption | None) -> None:
        self._saver = Saver(
            self._store,
            self._whole,
            self._attempt,
            retention=self._settings.retention,
            memory_bytes_max=self._settings.memory_bytes_max,
            may_pickle=self._may_pickle,
            after_commit=self._after_commit,
            after_failure=self._raise_alarm,
        )
        if found is not None:
            self._saver.start_from(found.manifest)
            self.durable_at = found.manifest.created.timestamp()
            passed_over = tuple(
                events.PassedOver(checkpoint=name, reason=reason)
                for name, reason in found.passed_over
            )
            self.record(
                events.Resumed(
                    at=events.utc_now(),
                    step=found.manifest.step,
                    seconds=found.seconds,
                    bytes_read=found.manifest.size_bytes,
                    passed_over=passed_over,
                )
            )
        self._fence_at = time.monotonic()
        self._pace.begin(found.manifest.step if found else 0, now=self._fence_at)
        # Touching the memory of a large state takes seconds, which no save should wait for.
        self._saver.warm_up()
        self._plan_next()

    def _opened(self) -> Saver:
        if self._saver is None:
            raise RuntimeError("Call resume() first: it claims the attempt that saves belong to.")
        return self._saver

    def _raise_alarm(self) -> None:
        self._alarm = True

    def _plan_next(self) -> None:
        """When `tick` must look more closely than at one number and the clock."""
        self._due_step, due_at = self._pace.next_due()
        self._due_at = min(due_at, time.monotonic() + _PROGRESS_SECONDS)
        if not self._is_warm:
            self._due_step = self._pace.saved_step + 1

    def _note_progress(self, step: int) -> None:
        now = time.monotonic()
        if now >= self._progress_at + _PROGRESS_SECONDS:
            self._progress_at = now
            self.record(events.Progress(at=events.utc_now(), step=step))
        if now >= self._fence_at + _FENCE_SECONDS:
            self._fence_at = now
            self._opened().look_for_newer()
        self._plan_next()

    def _after_commit(self, report: SaveReport) -> None:
        """In the thread that writes: note what the save took."""
        manifest = report.manifest
        self.durable_at = manifest.created.timestamp()
        self._pace.commit(
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
                bytes_total=manifest.size_bytes,
                bytes_new=manifest.new_bytes,
                final=report.final,
            )
        )
        if report.unchanged and not self._warned_unchanged:
            self._warned_unchanged = True
            log.warning(
                "Nothing in the state changed between two saves. Was a local name rebound instead "
                "of what the state holds? Write state['params'] = ... in the loop."
            )

    def _settle(self, work: Callable[[float], bool], remaining: Callable[[], float]) -> None:
        """Do something within the time that is left; a failure is noted and no more."""
        saver = self._opened()
        step = saver.pending_step if saver.pending_step is not None else self._pace.saved_step
        try:
            work(max(0.0, remaining() - LEAVE_SECONDS))
        except (OutlastError, OSError, MemoryError) as error:
            self._note_failure(step, error)
            return
        if saver.pending_step is not None and remaining() <= LEAVE_SECONDS:
            self._note_failure(step, TimeoutError("It was not durable in time."))

    def _heed(self, work: Callable[[], object]) -> None:
        """Do something that may raise what went wrong behind the loop."""
        try:
            work()
        except (Fenced, UnsupportedState):
            raise
        except (StorageError, CheckpointError) as error:
            if self._settings.on_error is OnError.RAISE:
                self._record_failure(self._pace.saved_step, error)
                raise
            self._note_failure(self._pace.saved_step, error)

    def _note_failure(self, step: int, error: BaseException) -> None:
        self._record_failure(step, error)
        log.warning("The save of step %d failed; earlier ones stand. %s", step, error)

    def _record_failure(self, step: int, error: BaseException) -> None:
        self.record(events.SaveFailed(at=events.utc_now(), step=step, error=str(error)))

    def _look_back(self) -> None:
        """Learn from earlier attempts. An unreadable journal is no reason to stop."""
        try:
            records = read_journal(self._store)
            summary = summarise(records)
        except OutlastError as error:
            log.warning("The journal could not be read: %s", error)
            return
        observed = Observed(
            running_seconds=summary.running_seconds,
            announced=summary.interruptions_announced - summary.interruptions_missed,
            missed=summary.interruptions_missed,
            unannounced=summary.interruptions_unannounced,
        )
        saves = [event for record in records for event in _saves_of(record)][-COSTS_KEPT:]
        costs = [
            SaveCost(stall_seconds=save.stall_seconds, durable_seconds=save.seconds)
            for save in saves
        ]
        self._pace.look_back(observed, costs, saves[-1].bytes_total if saves else None)


def _saves_of(record: AttemptRecord) -> list[events.Saved]:
    """The saves of an attempt whose times can be believed."""
    saves = [event for event in record.events if isinstance(event, events.Saved)]
    return [
        save
        for save in saves
        if 0 <= save.stall_seconds < math.inf and 0 <= save.seconds < math.inf
    ]


def _refuse_many_ranks() -> None:
    world_size = os.environ.get("WORLD_SIZE", "1")
    if world_size not in ("", "1"):
        raise CheckpointError(
            f"WORLD_SIZE is {world_size}, and a run of more than one rank cannot be saved yet.",
            hint="Run on one rank, or save with torch.distributed.checkpoint.",
        )
