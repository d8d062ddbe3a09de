"""What can go wrong with a checkpoint."""

from outlast.errors import OutlastError


class CheckpointError(OutlastError):
    """A checkpoint could not be saved or resumed from."""


class UnsupportedState(CheckpointError, TypeError):
    """The state holds something that cannot be written without running code at resume."""


class StateMismatch(CheckpointError):
    """The checkpoint does not fit the state. `differences` lists every place."""

    def __init__(self, message: str, *, differences: tuple[str, ...]) -> None:
        super().__init__(
            "\n  ".join([message, *differences]),
            hint="Build the same state as the run that saved it, or give this run another URL.",
        )
        self.differences = differences


class CheckpointCorrupt(CheckpointError):
    """Bytes of a checkpoint are missing or not what was written."""


class NothingVerifies(CheckpointError):
    """There are checkpoints, but none of them can be read back whole."""


class Fenced(CheckpointError):
    """The attempt `newer_attempt` of this run has started, so this one must stop."""

    def __init__(self, message: str, *, hint: str, newer_attempt: int) -> None:
        super().__init__(message, hint=hint)
        self.newer_attempt = newer_attempt
