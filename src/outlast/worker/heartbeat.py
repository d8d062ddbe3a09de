"""Two threads beside the loop: one holds on to the lease, one watches a call that may not return.

Both are there before they are needed, and neither computes anything.
"""

import logging
import threading
import time
from collections.abc import Callable

from outlast.queue.errors import QueueUnavailable
from outlast.worker.holding import Call, Holding

log = logging.getLogger(__name__)

_JOIN_SECONDS_MAX = 0.5


class Heartbeat:
    """Extends the lease at a third of its time, while the block lasts."""

    def __init__(self, holding: Holding, *, lease_seconds: float) -> None:
        self._holding = holding
        self._lease_seconds = lease_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outlast-heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        # It may sit in a server's silence, and has nothing to say any more.
        self._thread.join(_JOIN_SECONDS_MAX)

    def _run(self) -> None:
        wait_seconds = self._lease_seconds / 3
        while not self._ended.wait(wait_seconds):
            try:
                wait_seconds = self._holding.beat()
            except QueueUnavailable as error:
                wait_seconds = self._lease_seconds / 12
                log.warning("The lease could not be extended: %s", error)
            except Exception:
                wait_seconds = self._lease_seconds / 12
                log.exception("The heartbeat stumbled.")


class Watchdog:
    """Tells when a call has taken longer than it may, once."""

    def __init__(
        self, holding: Holding, *, timeout_seconds: float, on_overdue: Callable[[Call], object]
    ) -> None:
        self._holding = holding
        self._timeout_seconds = timeout_seconds
        self._on_overdue = on_overdue
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outlast-watchdog", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def _run(self) -> None:
        wait_seconds = self._timeout_seconds
        while not self._ended.wait(wait_seconds):
            call = self._holding.call
            wait_seconds = self._timeout_seconds
            if call is not None:
                wait_seconds = call.started + self._timeout_seconds - time.monotonic()
                if wait_seconds <= 0:
                    self._on_overdue(call)
                    return
