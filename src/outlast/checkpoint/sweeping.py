"""Delete what no checkpoint needs any more, behind the writer, which does not wait for it.

What goes was decided before, right after a commit, so nothing that is written meanwhile is touched.
If killed: some garbage stays, and goes at the next time.
"""

import logging
import threading
from collections.abc import Callable

from outlast.checkpoint.catalogue import Garbage, remove
from outlast.checkpoint.priority import lower_priority
from outlast.storage import StorageError, Store

log = logging.getLogger(__name__)


class Sweeper:
    """Deletes one lot of garbage at a time. `stop` is asked before each pack."""

    def __init__(self, store: Store, *, stop: Callable[[], bool]) -> None:
        self._store = store
        self._stop = stop
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, garbage: Garbage) -> None:
        assert not self.busy, "What is being deleted would be deleted twice."
        self._thread = threading.Thread(
            target=self._sweep, args=(garbage,), name="outlast-sweeper", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Wait for what is being deleted."""
        if self._thread is not None:
            self._thread.join()

    def _sweep(self, garbage: Garbage) -> None:
        lower_priority()
        try:
            remove(self._store, garbage, stop=self._stop)
        except StorageError as error:
            log.warning("Old checkpoints could not be cleaned up: %s", error)
