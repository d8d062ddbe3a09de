"""Time limits and retry limits of store operations.

There are two occasions: a routine save, which can wait out a short outage, and the final save
within the grace period, which must give up while there is still time to exit.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from outlast.storage.errors import StorageTimeout


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds of one store operation. `total_seconds_max` always holds."""

    connect_seconds_max: float
    request_seconds_max: float
    attempts_max: int
    total_seconds_max: float

    def __post_init__(self) -> None:
        seconds = (self.connect_seconds_max, self.request_seconds_max, self.total_seconds_max)
        if min(seconds) <= 0:
            raise ValueError("Time limits must be above 0.")
        if self.attempts_max < 1:
            raise ValueError("attempts_max must be at least 1.")


ROUTINE = Limits(
    connect_seconds_max=4.0,
    request_seconds_max=64.0,
    attempts_max=6,
    total_seconds_max=2048.0,
)
"""For saves and reads without a deadline."""

SMALL_OBJECTS = Limits(
    connect_seconds_max=4.0, request_seconds_max=30.0, attempts_max=4, total_seconds_max=60.0
)
"""For results and ledger pages: their callers retry on their own."""

_FINAL_SECONDS_MIN = 0.05
# A client may get up to a third less time for a request than its limits say.
_HALF_USED_MAX = 2 / 3


def final(seconds_left: float, *, needed_seconds: float = 0.0) -> Limits:
    """Limits for an operation that must end within `seconds_left`, successful or not.

    `needed_seconds` is how long it takes on this store, as far as that is known.
    """
    # An operation that starts too late times out at once, instead of raising ValueError.
    total = max(seconds_left, _FINAL_SECONDS_MIN)
    # Half the time for one request leaves room for a second one, if that could still end in time.
    half = max(5.0, total / 2)
    return Limits(
        connect_seconds_max=min(2.0, total),
        request_seconds_max=min(total, half if needed_seconds <= _HALF_USED_MAX * half else total),
        attempts_max=3,
        total_seconds_max=total,
    )


class Countdown:
    """The time left for one operation."""

    def __init__(
        self, limits: Limits, doing: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._doing = doing
        self._now = now
        self._end = now() + limits.total_seconds_max

    def seconds_left(self) -> float:
        """Above zero; raises `StorageTimeout` once the time is up."""
        left = self._end - self._now()
        if left <= 0:
            raise self.timeout()
        return left

    def allows(self, pause_seconds: float) -> bool:
        """Whether there would be time left after a pause."""
        return self._now() + pause_seconds < self._end

    def limits_left(self) -> Limits:
        """The limits for another operation within the same time."""
        return replace(self._limits, total_seconds_max=self.seconds_left())

    def timeout(self) -> StorageTimeout:
        return StorageTimeout(
            f"{self._doing} took longer than the {self._limits.total_seconds_max:.1f} s allowed.",
            hint="If this happens again, check the network or the disk. "
            "A write may still have taken effect.",
        )
