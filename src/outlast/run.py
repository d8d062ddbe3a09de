"""The training loop that resumes: guard, checkpoints and journal as one.

    with outlast.Run("gs://runs/tiny", {"model": model, "optimizer": optimizer}) as run:
        for step in run.steps(10_000):
            train_one_step(model, optimizer)

Each step is counted when the loop asks for the next one. If killed at any moment: the next attempt
resumes from the newest checkpoint that verifies.
"""

import logging
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from types import TracebackType
from typing import Any, NoReturn, Self

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import Fenced
from outlast.checkpoint.position import Position
from outlast.checkpoint.prints import VARIABLE, Prints
from outlast.checkpoint.randomness import random_states
from outlast.checkpoint.region import warn_if_far
from outlast.checkpoint.settings import RUN_URL
from outlast.errors import Interrupted, OutlastError, SettingError
from outlast.interruption.guard import Guard
from outlast.interruption.machine import google_metadata_host
from outlast.interruption.settings import METADATA_HOST
from outlast.journal import events
from outlast.metrics.exporter import Exporter, Metric
from outlast.metrics.figures import expiry_metric

log = logging.getLogger(__name__)


class Run:
    """A run that can be interrupted anywhere and ends with the same bits.

    `url` is a folder or a URL; without one, `OUTLAST_RUN_URL` or `CHECKPOINT_DIR`. An indexed Job
    appends its index. `state` is read afresh at each save and written at resume. Leaving the block
    normally means that the run is finished; by an exception, that it is not.

    Raises `StateMismatch` or `NothingVerifies` on entering, `Interrupted` from the loop after a
    notice, and `Fenced` once a newer attempt of the same run has started.
    """

    def __init__(
        self,
        url: str | os.PathLike[str] | None,
        state: MutableMapping[str, Any],
        *,
        every_steps: int | None = None,
        every_seconds: float | None = None,
        keep_last: int | None = None,
        keep_every: int | None = None,
        grace_seconds: float | None = None,
        exit_code: int | None = None,
        on_error: str | None = None,
        memory_bytes_max: int | None = None,
        floor_seconds: float | None = None,
        ceiling_seconds: float | None = None,
        prior_mean_seconds: float | None = None,
        prior_unannounced_share: float | None = None,
        prior_weight: float | None = None,
        may_pickle: Collection[str] = (),
    ) -> None:
        self.state = state
        self._guard = Guard(grace_seconds=grace_seconds, exit_code=exit_code)
        self._position = Position()
        self._progress: dict[str, Any] = {"finished": False, "steps": 0, "epochs": 0}
        self._checkpointer = Checkpointer(
            url_for(url, os.environ),
            state,
            every_steps=every_steps,
            every_seconds=every_seconds,
            keep_last=keep_last,
            keep_every=keep_every,
            on_error=on_error,
            memory_bytes_max=memory_bytes_max,
            floor_seconds=floor_seconds,
            ceiling_seconds=ceiling_seconds,
            prior_mean_seconds=prior_mean_seconds,
            prior_unannounced_share=prior_unannounced_share,
            prior_weight=prior_weight,
            final_seconds=self._guard.budget_seconds,
            may_pickle=may_pickle,
            extras={"position": self._position, "progress": self._progress},
        )
        self._exporter = Exporter(self._metrics())
        self._resumed_at = 0
        self._prints: Prints | None = None
        self._done = 0
        self._in_step = False
        self._looping = False
        self._save_wanted = False

    def __enter__(self) -> Self:
        self._guard.__enter__()
        try:
            self._done = self._resumed_at = self._checkpointer.resume()
            if path := os.environ.get(VARIABLE):
                self._prints = Prints(path, self._parts)
                self._prints.note(self._done, always=True)
        except BaseException:
            self._guard.__exit__(None, None, None)
            raise
        if self._done:
            log.info("Resumed at step %d in attempt %d.", self._done, self._checkpointer.attempt)
        host = METADATA_HOST.read().value or google_metadata_host()
        warn_if_far(self._checkpointer.url, metadata_host=host)
        self._exporter.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self._finish()
                self._checkpointer.close(self._guard.remaining())
            else:
                self._give_up(error)
        finally:
            self._exporter.__exit__(kind, error, trace)
            if self._prints is not None:
                self._prints.close()
            self._guard.__exit__(kind, error, trace)

    @property
    def guard(self) -> Guard:
        """The guard of this run, for callbacks and other threads."""
        return self._guard

    @property
    def step(self) -> int:
        """How many steps are done."""
        return self._done

    def steps(self, count: int, *, accumulate: int = 1) -> Iterator[int]:
        """The numbers of the steps that are left of so many; saves when due, and leaves in time.

        With `accumulate=k`, only every k-th step ends an update of the optimizer, and only there
        the state is saved or the loop left.
        """
        _check_accumulate(accumulate)
        with _Loop(self):
            if not self._is_left_to_do("steps", count):
                return
            while self._done < count:
                if self._done % accumulate == 0:
                    self._boundary()
                self._in_step = True
                yield self._done
                self._end_of_step()
            self._boundary(leaves=False)

    def batches(
        self, loader: Iterable[Any], *, epochs: int = 1, accumulate: int = 1
    ) -> Iterator[Any]:
        """The batches that are left of so many epochs, in the order of an undisturbed run.

        Takes a loader with `state_dict` and `load_state_dict`, a torch `DataLoader`, or anything
        that can be iterated over again and again in the same order. `accumulate` is as in `steps`.
        """
        _check_accumulate(accumulate)
        if epochs > 1 and isinstance(loader, Iterator):
            raise TypeError(
                f"{type(loader).__qualname__} can be iterated over only once, not {epochs} times."
            )
        with _Loop(self):
            if not self._is_left_to_do("epochs", epochs):
                return
            if self._guard.interrupted:
                self._leave(at_boundary=True)
            for batch in self._position.batches(loader, epochs):
                self._in_step = True
                yield batch
                self._end_of_step(batch)
                if self._done % accumulate == 0:
                    self._boundary()

    def check(self) -> None:
        """Leave if there is a notice: for evaluations and other long stretches within a step.

        Within a step the state is between two steps' worth, so nothing new is saved: call `save()`
        at the end of the step before a long stretch.
        """
        if self._guard.interrupted:
            self._leave(at_boundary=not self._in_step)

    def save(self) -> None:
        """Save at the end of the current step, or now if there is none."""
        if self._in_step:
            self._save_wanted = True
        else:
            self._checkpointer.save(self._done)

    def log(self, **metrics: float | int | str | bool | None) -> None:
        """Put figures into the journal, with the step they belong to."""
        self._checkpointer.record(
            events.Metrics(at=events.utc_now(), step=self._done, values=metrics)
        )

    def _metrics(self) -> list[Metric]:
        return [
            Metric(
                name="outlast_progress_total",
                kind="counter",
                meaning="Steps that this process has finished.",
                read=lambda: self._done - self._resumed_at,
            ),
            Metric(
                name="outlast_checkpoint_timestamp_seconds",
                kind="gauge",
                meaning="When the newest checkpoint became durable.",
                read=lambda: self._checkpointer.durable_at,
            ),
            expiry_metric(self._guard),
        ]

    def _parts(self) -> dict[str, object]:
        states = random_states()
        return {**self.state, **{f"random.{name}": state for name, state in states.items()}}

    def _is_left_to_do(self, what: str, count: int) -> bool:
        """Whether a loop over so many has anything to do; a finished run must have grown."""
        if self._progress["finished"] and count <= self._progress[what]:
            return False
        self._progress |= {"finished": False, what: count}
        return True

    def _end_of_step(self, batch: object = None) -> None:
        self._in_step = False
        self._done += 1
        if self._prints is not None:
            self._prints.note(self._done, batch=batch)

    def _boundary(self, *, leaves: bool = True) -> None:
        """Between two steps: leave if told to, else save if due."""
        if self._guard.interrupted and leaves:
            self._leave(at_boundary=True)
        if self._save_wanted or self._guard.save_requested:
            self._save_wanted = False
            self._guard.save_started()
            self._checkpointer.save(self._done)
        self._checkpointer.tick(self._done)

    def _leave(self, *, at_boundary: bool) -> NoReturn:
        notice = self._guard.notice
        assert notice is not None, "There is a notice, or nobody would leave."
        remaining = self._guard.remaining
        self._checkpointer.record(
            events.NoticeArrived(
                at=events.utc_now(),
                source=notice.source.value,
                reason=notice.reason,
                seconds_left=remaining(),
            )
        )
        self._checkpointer.final_save(self._done, remaining, at_boundary=at_boundary)
        code = self._guard.exit_code
        now = events.utc_now()
        self._checkpointer.record(events.Interrupted(at=now, step=self._done, reason=notice.reason))
        self._checkpointer.record(events.Left(at=now, exit_code=code, step=self._done))
        raise Interrupted(code)

    def _finish(self) -> None:
        if self._in_step:
            # The loop was left by `break`: its last step counts.
            self._end_of_step()
        if not self._progress["finished"]:
            self._progress["finished"] = True
            self._checkpointer.save(self._done)
            self._checkpointer.wait()
        now = events.utc_now()
        self._checkpointer.record(events.Finished(at=now, step=self._done))
        self._checkpointer.record(events.Left(at=now, exit_code=0, step=self._done))

    def _give_up(self, error: BaseException) -> None:
        """Leave by an error, which nothing that goes wrong here may hide."""
        if not isinstance(error, Interrupted):
            self._checkpointer.record(self._failure(error))
        try:
            self._checkpointer.close(self._guard.remaining())
        except OutlastError as other:
            log.warning("While leaving: %s", other)

    def _failure(self, error: BaseException) -> events.Event:
        now = events.utc_now()
        if isinstance(error, Fenced):
            return events.Fenced(at=now, step=self._done, newer_attempt=error.newer_attempt)
        return events.Failed(at=now, step=self._done, error=f"{type(error).__name__}: {error}")


class _Loop:
    """Makes sure that a run has one loop at a time."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> None:
        if self._run._looping:  # noqa: SLF001 - the other half of this class
            raise RuntimeError("A run has one loop at a time, and this one is inside another.")
        self._run._looping = True  # noqa: SLF001
        if self._run._in_step:  # noqa: SLF001
            # The loop before was left by `break`: its last step counts.
            self._run._end_of_step()  # noqa: SLF001

    def __exit__(self, *_: object) -> None:
        self._run._looping = False  # noqa: SLF001


def _check_accumulate(accumulate: int) -> None:
    if accumulate < 1:
        raise ValueError(f"accumulate is {accumulate}, but it counts steps from 1.")


def url_for(given: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> str:
    """The URL of this run: the one given, or from the environment, with an indexed Job's index."""
    text = os.fspath(given) if given is not None else RUN_URL.read(environ=environ).value
    text = text or environ.get("CHECKPOINT_DIR", "")
    if not text:
        raise SettingError(
            "There is nowhere to keep the checkpoints.",
            hint="Give a URL, or set OUTLAST_RUN_URL or CHECKPOINT_DIR.",
            source="variable OUTLAST_RUN_URL",
        )
    index = environ.get("JOB_COMPLETION_INDEX", "")
    return f"{text.rstrip('/')}/{index}" if index.isdecimal() else text
