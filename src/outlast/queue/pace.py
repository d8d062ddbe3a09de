"""How fast items are being done. Pure: it is given the time and keeps none."""

from typing import NamedTuple

_WINDOW_SECONDS = 60.0
_IDLE_SECONDS = 300.0


class Pace(NamedTuple):
    """Items counted in a window of a minute, and in the one before it.

    `since` is the start of the window on a clock of the backend's choice.
    """

    since: float = 0.0
    done: int = 0
    before_seconds: float = 0.0
    before_done: int = 0

    def counting(self, done: int, *, now: float) -> "Pace":
        """The pace after `done` more items."""
        window_seconds = now - self.since
        if 0 <= window_seconds < _WINDOW_SECONDS:
            if not done:
                return self
            return Pace(self.since, self.done + done, self.before_seconds, self.before_done)
        if 0 <= window_seconds < _IDLE_SECONDS:
            return Pace(now, done, window_seconds, self.done)
        return Pace(now, done)

    def per_second(self, *, now: float) -> float | None:
        """Items per second of late; None if nothing was going on."""
        seconds = now - self.since + self.before_seconds
        if not 0 < seconds < _IDLE_SECONDS + self.before_seconds:
            return None
        return (self.done + self.before_done) / seconds
