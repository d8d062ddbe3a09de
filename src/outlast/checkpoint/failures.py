"""What a failed save means for the loop: an error, or a warning and a line in the journal."""

import contextlib
from collections.abc import Callable, Iterator

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import CheckpointError, Fenced, UnsupportedState
from outlast.checkpoint.saving.memory import is_lack_of_memory
from outlast.checkpoint.settings import OnError
from outlast.errors import OutlastError
from outlast.journal import events
from outlast.storage import StorageError

log = get_logger(__name__)


class FailureHandler:
    """Raises or logs failed saves, as `on_error` says, and records all of them."""

    def __init__(self, on_error: OnError, record: Callable[[events.Event], object]) -> None:
        self._on_error = on_error
        self._record = record

    @contextlib.contextmanager
    def handled(self, step: Callable[[], int]) -> Iterator[None]:
        """Handle a failed save of `step()`. Anything else is raised unchanged."""
        try:
            yield
        except (Fenced, UnsupportedState):
            raise
        except Exception as error:
            failure = _as_failure(error)
            if failure is None:
                raise
            if self._on_error is OnError.WARN:
                self._warn(step(), failure)
                return
            self._record_failure(step(), failure)
            if failure is error:
                raise
            raise failure from error

    def note(self, step: int, error: BaseException) -> None:
        """Record and log a failed save without raising it."""
        self._warn(step, (_as_failure(error) if isinstance(error, Exception) else None) or error)

    def _warn(self, step: int, error: BaseException) -> None:
        self._record_failure(step, error)
        log.warning("Saving step %d failed; earlier checkpoints are intact. %s", step, error)

    def _record_failure(self, step: int, error: BaseException) -> None:
        self._record(events.SaveFailed(at=events.utc_now(), step=step, error=str(error)))


def _as_failure(error: Exception) -> OutlastError | None:
    """The error as a failed save; None if it is something else."""
    if isinstance(error, (StorageError, CheckpointError)):
        return error
    if not is_lack_of_memory(error):
        return None
    reason = str(error).rstrip(".") or type(error).__name__
    return CheckpointError(
        f"There is not enough memory to save the state: {reason}.",
        hint="Raise the memory limit of the process (`ulimit -v`) or of its container. A save "
        "needs room for a copy of the largest array and for a few threads.",
    )
