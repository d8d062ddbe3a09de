"""Notice that a rank has died or frozen, or never came, while the others wait for it.

Every rank sets its heartbeat and watches that of the next rank, so that each one, rank 0 too, is
watched by another. Time is counted in the watcher's own turns: a process that was paused itself
does not conclude that all others are lost.
"""

import math

from outlast.ranks.channel import Channel
from outlast.ranks.world import World

_CLOSED = b"closed"


class Pulse:
    """For how long something has not changed, in turns of which none counts more than `most`."""

    def __init__(self, most_seconds: float) -> None:
        self._most_seconds = most_seconds
        self._last: object = None
        self._turned_at: float | None = None
        self.silent_seconds = 0.0

    def note(self, value: object, *, now: float) -> float:
        """Take note of the current value. Returns the seconds since it changed."""
        if value != self._last or self._turned_at is None:
            self.silent_seconds = 0.0
        else:
            self.silent_seconds += min(now - self._turned_at, self._most_seconds)
        self._last, self._turned_at = value, now
        return self.silent_seconds


class BeatWatch:
    """Which rank to watch, and whether it is lost. Pure. A limit of 0 seconds is none."""

    def __init__(
        self, world: World, *, beat_seconds: float, lost_seconds: float, join_seconds: float
    ) -> None:
        self._world = world
        self._turn_seconds_max = 2 * beat_seconds
        self._lost_seconds = lost_seconds or math.inf
        self._join_seconds = join_seconds or math.inf
        self._pulse = Pulse(self._turn_seconds_max)
        self.watched: int | None = (world.rank + 1) % world.size

    def note(self, beat: bytes | None, *, now: float) -> str | None:
        """Take note of the watched rank's heartbeat. Returns a reason if the rank is lost.

        A rank that has not started yet has more time. Once a rank has closed, the next one is
        watched instead.
        """
        if self.watched is None:
            return None
        if beat == _CLOSED:
            following = (self.watched + 1) % self._world.size
            self.watched = following if following != self._world.rank else None
            self._pulse = Pulse(self._turn_seconds_max)
            return None
        silent_seconds = self._pulse.note(beat, now=now)
        if silent_seconds < (self._join_seconds if beat is None else self._lost_seconds):
            return None
        what = "opened the run" if beat is None else "responded"
        return f"rank {self.watched} has not {what} for {silent_seconds:.0f} s"


class Heartbeat:
    """Sets this rank's heartbeat, and reads that of the watched rank."""

    def __init__(self, world: World, watch: BeatWatch) -> None:
        self._rank = world.rank
        self._count = 0
        self._watch = watch

    def beat(self, channel: Channel, *, now: float) -> str | None:
        """Returns a reason if the watched rank is lost."""
        self._count += 1
        channel.set(_key(self._rank), str(self._count).encode())
        if self._watch.watched is None:
            return None
        return self._watch.note(channel.get(_key(self._watch.watched)), now=now)

    def close(self, channel: Channel) -> None:
        """Tell the rank that watches this one not to expect another heartbeat."""
        channel.set(_key(self._rank), _CLOSED)


def _key(rank: int) -> str:
    return f"beat/{rank}"
