"""The loops of a run: count steps and epochs, save and exit only where the state is consistent.

A step counts as completed when the loop asks for the next one. The code before the loop inside an
epoch belongs to the first step of that loop, and the code after it is a step of its own: a state
that is saved contains either all or nothing of what the end of an epoch does.
"""

from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

from outlast.checkpoint.position import Phase, Position
from outlast.checkpoint.session import CheckpointSession
from outlast.interruption.guard import Guard
from outlast.journal.events import StepsPlanned, utc_now


class _OnStep(Protocol):
    def __call__(self, step: int, *, batch: object) -> None: ...


class TrainingLoops:
    """Drives the loops of one run. `progress` is saved with the position.

    `leave` saves what it can and raises. Its first argument says whether the state is consistent,
    the second whether all ranks save this step.
    """

    def __init__(
        self,
        session: CheckpointSession,
        guard: Guard,
        position: Position,
        progress: dict[str, Any],
        *,
        leave: Callable[[bool, bool], NoReturn],
    ) -> None:
        self._session = session
        self._guard = guard
        self._position = position
        self._progress = progress
        self._leave = leave
        self.done = 0
        """The number of completed steps."""
        self.resumed_at = 0
        """The number of steps that earlier processes completed."""
        self.in_step = False
        """Whether the program is in the middle of a step, so that its state is inconsistent."""
        self._looping = False
        self._in_epochs = False
        # Whether the program, and not this class, has the loop.
        self._is_driven = False
        # The fingerprint of a state that was restored within an epoch, until its loop goes on.
        self._restored: str | None = None
        self._save_wanted = False
        self.on_step: _OnStep | None = None
        """What to call after each step."""
        self.is_complete: Callable[[], bool] = _always
        """Whether the steps so far end with an optimizer update, for frameworks that know."""

    @property
    def position(self) -> Position:
        """See `DrivenRun.position`."""
        return self._position

    @property
    def batch(self) -> int:
        """See `Run.batch`. The position counts the batch that is in progress, too."""
        return max(0, self._position.batch - self._looping)

    def epochs(self, count: int) -> Iterator[int]:
        """See `Run.epochs`."""
        epochs = self._position.epochs
        with self._epoch_loop():
            if not self._is_left_to_do("epochs", count):
                return
            if self._has_just_resumed:
                self._position.restore_random()
            while epochs.done < count:
                if self.is_complete():
                    self._boundary()
                self._begin_epoch()
                yield epochs.done
                self._end_epoch()
            self._boundary(may_exit=False)

    def steps(self, count: int, accumulate: int) -> Iterator[int]:
        """See `Run.steps`."""
        _check_accumulate(accumulate)
        with self._loop():
            if self._in_epochs:
                yield from self._steps_of_epoch(count, accumulate)
                return
            if not self._is_left_to_do("steps", count):
                return
            self._note_plan(count)
            while self.done < count:
                if self.done % accumulate == 0 and self.is_complete():
                    self._boundary()
                self.in_step = True
                yield self.done
                self._end_of_step()
            self._boundary(may_exit=False)

    def batches(self, loader: Iterable[Any], epochs: int, accumulate: int) -> Iterator[Any]:
        """See `Run.batches`."""
        _check_accumulate(accumulate)
        if epochs > 1 and isinstance(loader, Iterator):
            raise TypeError(
                f"{type(loader).__qualname__} can be iterated over only once, not {epochs} times."
            )
        with self._loop():
            for batch in self._batches_left(loader, epochs):
                self.in_step = True
                yield batch
                self._end_of_step(batch)
                done = self._position.batch if self._in_epochs else self.done
                if done % accumulate == 0 and self.is_complete():
                    self._boundary()

    def begin_driven(self, count: int | None, completed: int) -> bool:
        """See `DrivenRun.begin`."""
        self._is_driven = True
        if self.done == 0:
            self.done = self.resumed_at = completed
        if count is None:
            self._progress["finished"] = False
        has_work = count is None or self._is_left_to_do("steps", count)
        if has_work and count is not None:
            self._note_plan(count)
        self._exit_before_loop()
        self.in_step = has_work
        return has_work

    def advance(self, steps: int, batch: object, *, may_exit: bool) -> None:
        """See `DrivenRun.advance`."""
        for _ in range(steps):
            self._end_of_step(batch)
        self._boundary(may_exit=may_exit)
        self.in_step = True

    def check(self) -> None:
        """See `Run.check`."""
        if self._guard.interrupted:
            # With several ranks, the others are somewhere else.
            self._leave(not self.in_step and not self._session.has_ranks, False)

    def save(self) -> None:
        """See `Run.save`."""
        if self.in_step:
            self._save_wanted = True
        else:
            self._session.call_save(self.done)

    def remember_restored(self) -> None:
        """See `DrivenRun.remember_restored`."""
        self._restored = self._session.fingerprint()

    def undo_changes(self) -> bool:
        """Undo what the code before the loop did, if it ran before in this epoch. Returns that."""
        if self._restored is None:
            return False
        restored, self._restored = self._restored, None
        progress = dict(self._progress)
        self._session.undo_changes(since=restored)
        self._progress.update(progress)
        self._position.restore_random()
        return True

    def restart_pass(self) -> None:
        """Start the current epoch again: other ranks had saved the position in it."""
        self._position.restart_pass()

    def end_what_was_left(self) -> None:
        """Count the step, or the epoch, in which a loop was left with `break`."""
        if self._is_driven:
            self.in_step = False
        elif self._position.epochs.phase is not Phase.OUTSIDE:
            self._end_epoch()
        elif self.in_step:
            self._end_of_step()

    def _is_left_to_do(self, what: str, count: int) -> bool:
        """Whether there is anything left to do. A finished run must have been extended."""
        if self._progress["finished"] and count <= self._progress[what]:
            return False
        self._progress |= {"finished": False, what: count}
        return True

    def _note_plan(self, steps: int) -> None:
        self._session.record(StepsPlanned(at=utc_now(), steps=steps))

    def _batches_left(self, loader: Iterable[Any], passes: int) -> Iterator[Any]:
        if self._in_epochs:
            return self._batches_of_epoch(loader, passes)
        epochs = self._position.epochs
        if epochs.is_used and passes > epochs.passes_before:
            raise RuntimeError(
                "This run has used run.epochs, so run.batches can only be called inside its loop. "
                "Move the call into `for epoch in run.epochs(...)`."
            )
        if epochs.is_used or not self._is_left_to_do("epochs", passes):
            return iter(())
        if (length := _length(loader)) is not None:
            self._note_plan(passes * length)
        self._exit_before_loop()
        has_stepped = not self._has_just_resumed
        return self._position.batches(loader, passes, has_stepped=has_stepped)

    def _batches_of_epoch(self, loader: Iterable[Any], passes: int) -> Iterator[Any]:
        if passes != 1:
            raise ValueError(
                f"Inside run.epochs, run.batches goes over the loader once, not {passes} times: "
                "remove epochs=."
            )
        is_restored = self.undo_changes()
        passes = self._position.passes + 1
        # What the code before this loop has drawn stays drawn, unless it has run before.
        return self._position.batches(loader, passes, has_stepped=not is_restored)

    def _steps_of_epoch(self, count: int, accumulate: int) -> Iterator[int]:
        self.undo_changes()
        while (number := self._position.epochs.steps_done(self.done)) < count:
            self.in_step = True
            yield number
            self._end_of_step()
            if (number + 1) % accumulate == 0 and self.is_complete():
                self._boundary()

    @property
    def _has_just_resumed(self) -> bool:
        """Whether this process has completed no step yet."""
        return self.done == self.resumed_at

    def _begin_epoch(self) -> None:
        epochs = self._position.epochs
        if self._has_just_resumed and epochs.is_begun(self.done):
            self.remember_restored()
        epochs.begin(self.done, passes=self._position.passes)
        self.in_step = True

    def _end_epoch(self) -> None:
        """The code at the end of the epoch has run: it counts as a step."""
        self._position.end_pass()
        self._position.epochs.end()
        self._end_of_step()

    def _end_of_step(self, batch: object = None) -> None:
        if self._session.is_forked:
            self._session.refuse_in_child()
        self.in_step = False
        self.done += 1
        if self.on_step is not None:
            self.on_step(self.done, batch=batch)

    def _exit_before_loop(self) -> None:
        """Exit if a notice has arrived. For several ranks, this is the boundary before a step."""
        if self._session.has_ranks:
            self._boundary()
        elif self._guard.interrupted:
            self._leave(True, False)

    def _boundary(self, *, may_exit: bool = True) -> None:
        """Between two steps: exit after a notice, or save if due."""
        # Several ranks leave at the same step, on an order of theirs.
        if self._guard.interrupted and may_exit and not self._session.has_ranks:
            self._leave(True, False)
        if self._save_wanted or self._guard.save_requested:
            self._save_wanted = False
            self._guard.save_started()
            self._session.call_save(self.done)
        order = self._session.tick(self.done)
        if order is not None and may_exit:
            self._leave(True, order.is_full)

    @contextmanager
    def _epoch_loop(self) -> Iterator[None]:
        if self._in_epochs:
            raise RuntimeError("run.epochs cannot be called inside another loop of run.epochs.")
        self._refuse_inside_loop()
        self.end_what_was_left()
        self._in_epochs = True
        try:
            yield
        finally:
            self._in_epochs = False

    @contextmanager
    def _loop(self) -> Iterator[None]:
        """One loop at a time; in `epochs`, one in each epoch."""
        self._refuse_inside_loop()
        epochs = self._position.epochs
        if self._in_epochs:
            epochs.enter_loop()
        else:
            self.end_what_was_left()
        self._looping = True
        try:
            yield
            # The code after the inner loop is a step of its own.
            self.in_step = self._in_epochs
        finally:
            self._looping = False
            if self._in_epochs:
                epochs.phase = Phase.AFTER_LOOP

    def _refuse_inside_loop(self) -> None:
        self._session.refuse_in_child()
        if not self._session.has_resumed:
            raise RuntimeError("The run is not open. Open it with: with outlast.Run(...) as run:")
        if self._looping:
            raise RuntimeError("A run can have one loop at a time, but this one is inside another.")


def _length(loader: Iterable[Any]) -> int | None:
    """The number of batches of one pass, if the loader knows it for certain."""
    # torch warns later if the length of an iterable data set, once asked for, is wrong.
    if not isinstance(loader, Sized) or not hasattr(getattr(loader, "dataset", ()), "__getitem__"):
        return None
    try:
        return len(loader)
    except Exception:
        # It is only an estimate for people: a loader without a length is not an error.
        return None


def _always() -> bool:
    return True


def _check_accumulate(accumulate: int) -> None:
    if accumulate < 1:
        raise ValueError(f"accumulate must be at least 1, got {accumulate}.")
