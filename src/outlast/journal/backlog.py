"""Lines that wait to be written, in order, within a bound. Touches no store and starts nothing."""

from collections import deque
from typing import NamedTuple

LINE_BYTES_MAX = 64 * 1024
"""A longer line is dropped: nothing that long is an event."""


class _Line(NamedTuple):
    number: int
    data: bytes


class Backlog:
    """Not for several threads at once. When it is full, the oldest minor lines go first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._minor: deque[_Line] = deque()
        self._major: deque[_Line] = deque()
        self._bytes = 0
        self._added = 0
        self.dropped = 0

    def __len__(self) -> int:
        return len(self._minor) + len(self._major)

    def add(self, data: bytes, *, minor: bool) -> None:
        if len(data) > LINE_BYTES_MAX:
            self.dropped += 1
            return
        self._added += 1
        (self._minor if minor else self._major).append(_Line(self._added, data))
        self._bytes += len(data)
        while self._bytes > self._bytes_max:
            oldest = (self._minor or self._major).popleft()
            self._bytes -= len(oldest.data)
            self.dropped += 1

    def take(self) -> list[bytes]:
        """All lines, in the order in which they came. It begins anew, with none dropped."""
        lines = sorted([*self._minor, *self._major])
        self._minor.clear()
        self._major.clear()
        self._bytes = 0
        self.dropped = 0
        return [line.data for line in lines]
