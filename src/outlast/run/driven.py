"""A run whose loop belongs to a framework, which reports each step."""

from outlast._base.logs import get_logger
from outlast.checkpoint.position import Position
from outlast.run.run import Run

log = get_logger(__name__)


class DrivenRun(Run):
    """A run for integrations: the framework loops, and calls `advance` after each step.

    Between two calls the state counts as inconsistent, and is not saved.
    """

    @property
    def position(self) -> Position:
        """Where the program is in its data, for a loader that the framework goes through."""
        return self._loops.position

    def begin(self, steps: int | None = None, *, completed: int = 0) -> bool:
        """Start the loop, which is to complete `steps` steps in all; False if the run has finished.

        Exits if a notice has already arrived. None if the number of steps is unknown. `completed`:
        a run without checkpoints starts with a state after this number of steps.
        """
        return self._loops.begin_driven(steps, completed)

    def warn_finished(self) -> None:
        """Nothing is left to do. The result may be another program's, given this URL by mistake."""
        log.warning(
            "The run in %s had already finished at step %d: its result is restored, and nothing is "
            "trained. For another training, use another URL.",
            self._session.url,
            self.step,
        )

    def remember_restored(self) -> None:
        """Note the state as it was restored: the program may change it before the first step."""
        self._loops.remember_restored()

    def undo_changes(self) -> None:
        """Restore the state once more if it has changed since `remember_restored`.

        For code that runs at the start of each process, but ran before in the process that saved.
        """
        self._loops.undo_changes()

    def advance(self, steps: int = 1, *, batch: object = None, may_exit: bool = True) -> None:
        """Report completed steps, at a moment at which the state is consistent.

        Saves if a save is due. After a notice, saves and raises `Interrupted`, unless `may_exit`
        is False, as after the last step: the run then ends normally. Every rank calls it for the
        same steps.
        """
        self._loops.advance(steps, batch, may_exit=may_exit)
