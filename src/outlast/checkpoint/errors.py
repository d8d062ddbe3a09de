"""The errors of checkpoints."""

from outlast.errors import OutlastError


class CheckpointError(OutlastError):
    """A checkpoint could not be saved or resumed from."""


class UnsupportedState(CheckpointError, TypeError):
    """The state contains something that could only be restored by running stored code."""


class StateMismatch(CheckpointError):
    """The checkpoint does not match the state. `differences` lists all of them."""

    def __init__(
        self,
        message: str,
        *,
        differences: tuple[str, ...],
        hint: str = "Build the same state as the run that saved it, or use another URL.",
    ) -> None:
        super().__init__("\n  ".join([message, *differences]), hint=hint)
        self.differences = differences


class RestoreMismatch(CheckpointError):
    """The restored state differs from the saved one. `differences` lists all of them."""

    def __init__(self, message: str, *, differences: tuple[str, ...]) -> None:
        super().__init__(
            "\n  ".join([message, *differences]),
            hint="Use the same classes as the run that was saved, and make load_state_dict restore "
            "everything that state_dict returns. To resume anyway, set OUTLAST_COMPARE_RESTORED=0.",
        )
        self.differences = differences


class UnresumableState(CheckpointError):
    """The state has changed so that a new process cannot resume it. `differences` lists how."""

    def __init__(self, message: str, *, differences: tuple[str, ...]) -> None:
        super().__init__(
            "\n  ".join([message, *differences]),
            hint="Build the state with its final keys, shapes and types before the run starts, for "
            "example with jnp.asarray. Use None for values that are added later.",
        )
        self.differences = differences


class CheckpointCorrupt(CheckpointError):
    """A checkpoint is damaged, incomplete or not trusted."""


class NothingVerifies(CheckpointError):
    """There are checkpoints, but none of them can be read completely."""


class CheckpointsMissing(CheckpointError):
    """The run has saved checkpoints before, but all of them are gone."""


class RanksLost(CheckpointError):
    """The ranks that save a run together cannot reach each other."""


class Fenced(CheckpointError):
    """A newer attempt of this run, `newer_attempt`, has started, so this one must stop."""

    def __init__(self, message: str, *, hint: str, newer_attempt: int) -> None:
        super().__init__(message, hint=hint)
        self.newer_attempt = newer_attempt
