"""The training loop that resumes: guard, checkpoints and journal in one.

    with outlast.Run("gs://runs/tiny", {"model": model, "optimizer": optimizer}) as run:
        for step in run.steps(10_000):
            train_one_step(model, optimizer)

If killed at any moment: the next attempt resumes from the newest checkpoint that verifies.
"""

import os
from collections.abc import Iterable, Iterator, MutableMapping
from types import TracebackType
from typing import Annotated, Any, NoReturn, Self, Unpack

from outlast._base.logs import get_logger
from outlast._base.options import takes_options
from outlast.checkpoint.errors import Fenced, RanksLost
from outlast.checkpoint.position import Position
from outlast.checkpoint.runs.bucket_location import warn_if_far
from outlast.checkpoint.session import CheckpointSession
from outlast.checkpoint.settings import CheckpointOptions
from outlast.checkpoint.state.randomness import random_states
from outlast.checkpoint.state.step_hashes import VARIABLE, StepHashes
from outlast.checkpoint.team import LOST_EXIT_SECONDS
from outlast.errors import Interrupted, OutlastError
from outlast.interruption.exec_settings import EXIT_CODE, GRACE
from outlast.interruption.exit_codes import claims_success
from outlast.interruption.guard import Guard
from outlast.interruption.machine import google_metadata_host
from outlast.interruption.settings import METADATA_HOST
from outlast.journal import events
from outlast.metrics.exporter import Exporter, Metric, expiry_metric
from outlast.run.loops import TrainingLoops
from outlast.run.place import url_for

log = get_logger(__name__)


class RunOptions(CheckpointOptions, total=False):
    """The options of `Run`. None means the variable or else the default."""

    grace_seconds: Annotated[float | None, GRACE]
    exit_code: Annotated[int | None, EXIT_CODE]


class Run:
    """A training run that can be interrupted at any moment and still ends with the same bits.

    `url` is a folder or a URL; without one, `OUTLAST_RUN_URL` or `CHECKPOINT_DIR` is used. An
    indexed Job appends its index. `state` is read at each save and filled at resume. A normal exit
    from the block means that the run is finished; an exception means that it is not. A process
    that is forked inside the block may exit from it, which does not affect the run, but it cannot
    continue the loop.

    With torch.distributed or jax.distributed, every rank opens the run with the same URL, after the
    process group is initialized. The ranks save, stop and resume at the same step. `elastic=True`
    resumes with another number of ranks, without the same bits.

    Raises `StateMismatch` or `NothingVerifies` on entry, `Interrupted` from the loop after a
    notice, and `Fenced` once a newer attempt of the same run has started.
    """

    @takes_options(RunOptions)
    def __init__(
        self,
        url: str | os.PathLike[str] | None,
        state: MutableMapping[str, Any],
        **options: Unpack[RunOptions],
    ) -> None:
        self.state = state
        self._guard = Guard(
            grace_seconds=options.get("grace_seconds"), exit_code=options.get("exit_code")
        )
        position = Position()
        self._progress: dict[str, Any] = {"finished": False, "steps": 0, "epochs": 0}
        self._session = CheckpointSession(
            url_for(url, os.environ),
            state,
            options,
            final_seconds=self._guard.budget_seconds,
            extras={"position": position, "progress": self._progress},
            guard=self._guard,
        )
        self._loops = TrainingLoops(
            self._session,
            self._guard,
            position,
            self._progress,
            leave=self._exit,
        )
        self._exporter = Exporter(self._metrics())
        self._step_hashes: StepHashes | None = None
        self._may_pickle = options.get("may_pickle") or ()

    def __enter__(self) -> Self:
        self._guard.__enter__()
        try:
            self._loops.done = self._loops.resumed_at = self._session.resume()
            if path := os.environ.get(VARIABLE):
                path = f"{path}.{self._session.rank}" if self._session.rank else path
                self._step_hashes = StepHashes(path, self._parts, may_pickle=self._may_pickle)
                self._step_hashes.note(self.step, always=True)
                self._loops.on_step = self._step_hashes.note
        except RanksLost as error:
            log.warning("The run cannot start because the other ranks are gone: %s", error)
            self._guard.announce_peer(str(error), LOST_EXIT_SECONDS)
            self._guard.wait()
            code = self._guard.exit_code
            self._guard.__exit__(None, None, None)
            raise Interrupted(code) from error
        except BaseException:
            self._guard.__exit__(None, None, None)
            raise
        if self._session.is_recut:
            self._loops.restart_pass()
        if self.step:
            log.info("Resumed at step %d in attempt %d.", self.step, self._session.attempt)
        if self._session.rank == 0:
            host = METADATA_HOST.read().value or google_metadata_host()
            warn_if_far(self._session.url, metadata_host=host)
            self._exporter.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._session.is_forked:
            # The store, the threads and the files belong to the parent process.
            self._guard.__exit__(kind, error, trace)
            return
        try:
            if error is None:
                self._end()
            else:
                self._fail(error)
        finally:
            if self._session.rank == 0:
                self._exporter.__exit__(kind, error, trace)
            if self._step_hashes is not None:
                self._step_hashes.close()
            self._guard.__exit__(kind, error, trace)

    @property
    def guard(self) -> Guard:
        """The guard of this run, for callbacks and other threads."""
        return self._guard

    @property
    def step(self) -> int:
        """The number of completed steps. In `epochs`, the end of each epoch counts as one."""
        return self._loops.done

    @property
    def batch(self) -> int:
        """The number of completed batches of the current epoch.

        Unlike a number from `enumerate`, it does not start at 0 again after a resume.
        """
        return self._loops.batch

    def epochs(self, count: int) -> Iterator[int]:
        """Yield the remaining epoch numbers up to `count`, each for one loop inside.

        Inside, loop over `batches(loader)` or `steps(n)`. Code after that loop is part of the
        epoch: evaluate, step the scheduler, or `break` to finish early. A saved state contains all
        of its effects or none. After a resume within an epoch, the code before the inner loop runs
        again, and its changes to the state are undone.
        """
        return self._loops.epochs(count)

    def steps(self, count: int, *, accumulate: int = 1) -> Iterator[int]:
        """Yield the remaining step numbers up to `count`. Saves when due, and exits in time.

        Inside `epochs`, the numbers start at 0 in each epoch. With `accumulate=k`, only every k-th
        step completes an optimizer update, and the state is saved, or the loop exits, only after
        such a step.
        """
        return self._loops.steps(count, accumulate)

    def batches(
        self, loader: Iterable[Any], *, epochs: int = 1, accumulate: int = 1
    ) -> Iterator[Any]:
        """Yield the remaining batches of all epochs, in the order of an uninterrupted run.

        Accepts a torch `DataLoader`, a loader with `state_dict` and `load_state_dict`, or any
        iterable. Restores the random generators and counters that the loader shuffles with. Calls
        `set_epoch` of samplers that have it, unless the program does, and shields the loader's
        worker processes from signals. Inside `Run.epochs`, goes over the loader once per epoch.
        `accumulate` works as in `steps`.

        Raises `StateMismatch` if the loader returns a different order after a resume, and
        `UnsupportedState` if it draws from `random.SystemRandom` or keeps a running iterator.
        """
        return self._loops.batches(loader, epochs, accumulate)

    def check(self) -> None:
        """Exit if a notice has arrived. Call it in evaluations and other long parts of a step.

        Within a step the state is inconsistent, so it is not saved: call `save()` at the end of the
        step before a long part.
        """
        self._loops.check()

    def save(self) -> None:
        """Save at the end of the current step, or now if no step is in progress."""
        self._loops.save()

    def log(self, **metrics: float | int | str | bool | None) -> None:
        """Write metrics to the journal, with the current step."""
        self._session.record(events.Metrics(at=events.utc_now(), step=self.step, values=metrics))

    def _metrics(self) -> list[Metric]:
        return [
            Metric(
                name="outlast_progress_total",
                kind="counter",
                meaning="Steps that this process has completed.",
                read=lambda: self.step - self._loops.resumed_at,
            ),
            Metric(
                name="outlast_checkpoint_timestamp_seconds",
                kind="gauge",
                meaning="Unix time at which the newest checkpoint became durable.",
                read=lambda: self._session.durable_at,
            ),
            expiry_metric(self._guard),
        ]

    def _parts(self) -> dict[str, object]:
        states = random_states()
        return {**self.state, **{f"random.{name}": state for name, state in states.items()}}

    def _exit(self, at_boundary: bool, is_agreed: bool) -> NoReturn:
        self._stop(at_boundary=at_boundary, is_agreed=is_agreed)
        raise Interrupted(self._guard.exit_code)

    def _stop(self, *, at_boundary: bool, is_agreed: bool = False) -> None:
        """Save what is possible in the time that is left, and record the end of this attempt."""
        # Another rank's notice is announced before its order arrives, but by another thread.
        self._guard.wait()
        notice = self._guard.notice
        assert notice is not None, "Only a notice ends the loop early."
        remaining = self._guard.remaining
        self._session.record(
            events.NoticeArrived(
                at=events.utc_now(),
                source=notice.source.value,
                reason=notice.reason,
                seconds_left=remaining(),
            )
        )
        self._session.final_save(self.step, remaining, at_boundary=at_boundary, is_agreed=is_agreed)
        code = self._guard.exit_code
        now = events.utc_now()
        self._session.record(
            events.AttemptInterrupted(at=now, step=self.step, reason=notice.reason)
        )
        self._session.record(events.AttemptExited(at=now, exit_code=code, step=self.step))

    def _end(self) -> None:
        """Record that the run is finished, and close it."""
        try:
            self._finish()
        except OutlastError as error:
            if self._session.has_ranks:
                self._fail(error)
            raise
        self._session.close(self._guard.remaining())

    def _finish(self) -> None:
        self._loops.end_what_was_left()
        if not self._progress["finished"]:
            self._progress["finished"] = True
            self._session.save(self.step)
            self._session.wait()
        now = events.utc_now()
        self._session.record(events.RunFinished(at=now, step=self.step))
        self._session.record(events.AttemptExited(at=now, exit_code=0, step=self.step))

    def _fail(self, error: BaseException) -> None:
        """Close after an error, which no other error may hide."""
        is_ended_by_peers = False
        if not isinstance(error, Interrupted):
            if claims_success(error):
                self._guard.catch_up()
            if claims_success(error) and self._guard.notice is not None:
                # A framework, or the program, has exited because of the notice.
                is_alone = not self._session.has_ranks
                self._stop(at_boundary=is_alone and not self._loops.in_step)
            elif is_ended_by_peers := self._session.is_ended_by_peers(error):
                log.warning("A collective failed because the other ranks are gone: %s", error)
                self._stop(at_boundary=False)
            else:
                self._session.record(self._failure(error))
                self._session.report_failure(error)
        try:
            self._session.close(self._guard.remaining())
        except OutlastError as other:
            log.warning("Could not close the run properly: %s", other)
        if is_ended_by_peers:
            raise Interrupted(self._guard.exit_code) from error

    def _failure(self, error: BaseException) -> events.Event:
        now = events.utc_now()
        if isinstance(error, Fenced):
            return events.AttemptFenced(at=now, step=self.step, newer_attempt=error.newer_attempt)
        return events.AttemptFailed(
            at=now, step=self.step, error=f"{type(error).__name__}: {error}"
        )
