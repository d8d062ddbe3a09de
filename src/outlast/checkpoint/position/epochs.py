"""Where a run is in `Run.epochs`: how many epochs are complete, and what the current one has done.

An epoch is the code before its loop, the loop over batches or steps, and the code after it. Between
two steps of the loop and between two epochs the state is consistent and may be saved; the code
before the loop belongs to its first step, and the code after it is a step of its own. So a state
that was saved contains either all or nothing of what the end of an epoch does.
"""

from enum import Enum
from typing import Any

from outlast.checkpoint.state.randomness import generators


class Phase(Enum):
    """What the program runs, as far as the run knows."""

    OUTSIDE = "outside"
    BEFORE_LOOP = "before the loop"
    IN_LOOP = "in the loop"
    AFTER_LOOP = "after the loop"


class EpochProgress:
    """Counts epochs. Saved with the position; the phase is known by running the program again."""

    def __init__(self) -> None:
        self.done = 0
        """The number of complete epochs."""
        self.first_step: int | None = None
        """The completed steps when the current epoch began; None between two epochs."""
        self.passes_before = 0
        """The passes over loaders that were complete when the first epoch began."""
        self.phase = Phase.OUTSIDE
        # The global generators as they were when the current epoch began.
        self._random: Any = None

    def state_dict(self) -> dict[str, Any] | None:
        """What to save; None for a run that has never used epochs."""
        if not self.is_used:
            return None
        return {
            "done": self.done,
            "first_step": self.first_step,
            "passes_before": self.passes_before,
            "random": self._random,
        }

    def load_state_dict(self, state: dict[str, Any] | None) -> None:
        if state is not None:
            self.done = state["done"]
            self.first_step = state["first_step"]
            self.passes_before = state["passes_before"]
            self._random = state["random"]

    @property
    def is_used(self) -> bool:
        return self.done > 0 or self.first_step is not None

    def is_begun(self, step: int) -> bool:
        """Whether the current epoch has completed steps, here or in an earlier process."""
        return self.first_step is not None and step > self.first_step

    def begin(self, step: int, *, passes: int) -> None:
        """An epoch begins, or goes on in a new process."""
        if not self.is_used:
            self.passes_before = passes
        if self.first_step is None:
            self.first_step = step
            self._random = generators().get()
        else:
            # What the code before the loop draws, it has drawn before.
            generators().set(self._random)
        self.phase = Phase.BEFORE_LOOP

    def enter_loop(self) -> None:
        """Its loop begins. Raises `RuntimeError` if it has had one."""
        if self.phase is Phase.AFTER_LOOP:
            raise RuntimeError(
                f"Epoch {self.done + 1} has had its loop: an epoch of run.epochs has one loop "
                "of run.batches or run.steps. Iterate over other data, such as a validation set, "
                "without run.batches."
            )
        self.phase = Phase.IN_LOOP

    def steps_done(self, step: int) -> int:
        """The completed steps of the current epoch."""
        assert self.first_step is not None, "Only an epoch that has begun has steps."
        return step - self.first_step

    def end(self) -> None:
        """The code at the end of the epoch has run."""
        self.done += 1
        self.first_step = self._random = None
        self.phase = Phase.OUTSIDE
