"""How long things usually take here. Keeps a few measurements and decides nothing by itself."""

import statistics
from collections import deque

_KEPT = 32


class Pace:
    """The median of the last measurements, per item."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float, items: int = 1) -> None:
        self._seconds.append(seconds / items)

    def usual_seconds(self, items: int = 1) -> float | None:
        """How long so many items usually take; None before the first."""
        # A copy, because another thread may be adding.
        seen = list(self._seconds)
        return statistics.median(seen) * items if seen else None


def fits(usual_seconds: float | None, *, elapsed_seconds: float, left_seconds: float) -> bool:
    """Whether a call that began a while ago should end in what is left.

    A call that was never measured is given the benefit of the doubt: until the deadline it may
    return, and at the deadline its items are released anyway.
    """
    if usual_seconds is None:
        return left_seconds > 0
    return usual_seconds - elapsed_seconds <= left_seconds
