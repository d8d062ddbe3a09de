"""Measure how many items are done per second. Pure: the time is an argument."""

from typing import NamedTuple

_WINDOW_SECONDS = 60.0
_IDLE_SECONDS = 300.0


class Throughput(NamedTuple):
    """Items counted in the current one-minute window and in the one before it.

    `since` is the start of the current window, on a clock of the backend's choice.
    """

    since: float = 0.0
    done: int = 0
    before_seconds: float = 0.0
    before_done: int = 0

    def counting(self, done: int, *, now: float) -> "Throughput":
        """The throughput after `done` more items."""
        window_seconds = now - self.since
        if 0 <= window_seconds < _WINDOW_SECONDS:
            if not done:
                return self
            return Throughput(self.since, self.done + done, self.before_seconds, self.before_done)
        if 0 <= window_seconds < _IDLE_SECONDS:
            return Throughput(now, done, window_seconds, self.done)
        return Throughput(now, done)

    def per_second(self, *, now: float) -> float | None:
        """Items per second in the last minutes; None if there was no activity."""
        seconds = now - self.since + self.before_seconds
        if not 0 < seconds < _IDLE_SECONDS + self.before_seconds:
            return None
        return (self.done + self.before_done) / seconds
