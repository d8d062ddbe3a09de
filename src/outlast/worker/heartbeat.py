"""Two background threads of a worker: one extends the lease, one watches for calls that hang."""

import threading
import time
from collections.abc import Callable

from outlast._base.logs import get_logger
from outlast.queue.errors import QueueUnavailable
from outlast.worker.leased_chunk import FunctionCall, LeasedChunk

log = get_logger(__name__)

_JOIN_SECONDS_MAX = 0.5


class Heartbeat:
    """Extends the lease after each third of its duration, while the block runs."""

    def __init__(self, leased: LeasedChunk, *, lease_seconds: float) -> None:
        self._leased = leased
        self._lease_seconds = lease_seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="outlast-heartbeat", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        # Not joined: it may be waiting for a server that does not respond.
        self._thread.join(_JOIN_SECONDS_MAX)

    def _run(self) -> None:
        wait_seconds = self._lease_seconds / 3
        while not self._ended.wait(wait_seconds):
            try:
                wait_seconds = self._leased.beat()
            except QueueUnavailable as error:
                wait_seconds = self._lease_seconds / 12
                log.warning("Could not extend the lease: %s", error)
            except Exception:
                wait_seconds = self._lease_seconds / 12
                log.exception("Unexpected error while extending the lease.")


class Watchdog:
    """Calls `on_overdue` once, when a call has exceeded its timeout."""

    def __init__(
        self,
        leased: LeasedChunk,
        *,
        timeout_seconds: float,
        on_overdue: Callable[[FunctionCall], object],
    ) -> None:
        self._leased = leased
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
            call = self._leased.call
            wait_seconds = self._timeout_seconds
            if call is not None:
                wait_seconds = call.started + self._timeout_seconds - time.monotonic()
                if wait_seconds <= 0:
                    self._on_overdue(call)
                    return
