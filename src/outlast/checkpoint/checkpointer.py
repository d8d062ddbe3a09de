"""Checkpoints for loops that drive themselves: resume, tick after each step, save, wait."""

import math
import os
from collections.abc import Callable, MutableMapping
from types import TracebackType
from typing import Any, Self, Unpack

from outlast._base.options import takes_options
from outlast.checkpoint.session import CheckpointSession
from outlast.checkpoint.settings import CheckpointOptions
from outlast.journal.events import FinalChoice


class Checkpointer:
    """Saves `state` under `url` and resumes it, in a loop of your own. See also `outlast.Run`.

    `step` is the number of completed steps, so `save(0)` saves the state before the first step.
    Without `every_steps` and `every_seconds`, the interval follows from the measured cost of saves.
    `final_seconds` is the time that a final save will have; if none fits, saves are more frequent.

    `may_pickle` names parts of the state, by path such as "sampler" or "model.extra", that may be
    pickled, and unpickled at resume. Never resume such a run from a place where others can write,
    unless it is signed.
    """

    @takes_options(CheckpointOptions)
    def __init__(
        self,
        url: str | os.PathLike[str],
        state: MutableMapping[str, Any],
        *,
        final_seconds: float = math.inf,
        **options: Unpack[CheckpointOptions],
    ) -> None:
        self._session = CheckpointSession(url, state, options, final_seconds=final_seconds)

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
        """The number of this attempt; 0 before `resume`."""
        return self._session.attempt

    @property
    def url(self) -> str:
        """Where the run is stored, without secrets."""
        return self._session.url

    def resume(self) -> int:
        """Claim the next attempt, and fill the state from the newest checkpoint that verifies.

        Returns the number of completed steps; 0 if the run has never saved. Raises
        `UnsupportedState` or `StateMismatch` before anything is changed, `RestoreMismatch` if the
        restored state differs from the saved one, `NothingVerifies` if no checkpoint can be read,
        or `CheckpointsMissing` if all of them are gone.
        """
        return self._session.resume()

    def tick(self, step: int) -> None:
        """Report that `step` steps are completed. Saves if a save is due and none is in progress.

        With `every_steps`, a save that is due waits for the previous one instead of being late.
        Raises the error of an earlier save, or `UnresumableState` if a new process could not resume
        the state, unless `on_error="warn"`; always raises `Fenced`.
        """
        self._session.tick(step)

    def save(self, step: int) -> None:
        """Stage the state now and write it in the background. Waits for an earlier save first.

        If killed: the previous checkpoint stays the newest.
        """
        self._session.save(step)

    def wait(self) -> None:
        """Return once the staged state is durable. Raises the error of the save."""
        self._session.wait()

    def final_save(self, step: int, remaining: Callable[[], float]) -> FinalChoice:
        """Save as much as possible in the `remaining()` seconds before the process must exit.

        No save is started that cannot commit in time: either the current state is saved, or the
        one that is already staged, or the last checkpoint is kept. Returns which. Errors are
        logged, never raised, because the process exits anyway.
        """
        return self._session.final_save(step, remaining)

    def close(self, seconds_left: float = math.inf) -> None:
        """Finish what is being written, as far as `seconds_left` allows, and release everything.

        Does nothing in a forked child: the threads and the run belong to the parent.
        """
        self._session.close(seconds_left)
