"""Retry calls to an unavailable queue or sink, within bounds, and stop when interrupted."""

import time
from collections.abc import Callable
from typing import TypeVar

from outlast._base.backoff import backoff_seconds
from outlast._base.logs import get_logger
from outlast.errors import Interrupted
from outlast.interruption.guard import Guard
from outlast.queue.errors import QueueUnavailable
from outlast.results.errors import SinkUnavailable

log = get_logger(__name__)

_RETRY_SECONDS = (0.1, 5.0)

T = TypeVar("T")


class UnavailableRetry:
    """Retries a call for up to `seconds` while the queue or the sink is unavailable."""

    def __init__(self, guard: Guard, *, seconds: float) -> None:
        self._guard = guard
        self._seconds = seconds

    def opening(self, act: Callable[[], T]) -> T:
        """As `repeat`, but raises a permanent error, such as a wrong password, at once.

        Once the queue or sink has been open, even a permanent error is retried: someone may be
        repairing it.
        """
        return self._repeat(act, is_opening=True)

    def repeat(self, act: Callable[[], T]) -> T:
        """Call until it succeeds or the time is up. Raises `Interrupted` after a notice."""
        return self._repeat(act, is_opening=False)

    def raise_if_interrupted(self) -> None:
        if self._guard.interrupted:
            raise Interrupted(self._guard.exit_code)

    def _repeat(self, act: Callable[[], T], *, is_opening: bool) -> T:
        give_up_at = time.monotonic() + self._seconds
        tries = 0
        while True:
            try:
                return act()
            except (QueueUnavailable, SinkUnavailable) as error:
                if time.monotonic() >= give_up_at or (is_opening and error.permanent):
                    raise
                seconds = backoff_seconds(tries, *_RETRY_SECONDS)
                what = "Queue" if isinstance(error, QueueUnavailable) else "Sink"
                log.warning("%s unavailable; retrying in %.1f s: %s", what, seconds, error)
            self._guard.wait(seconds)
            self.raise_if_interrupted()
            tries += 1
