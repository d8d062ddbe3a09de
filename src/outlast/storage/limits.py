"""How long a store may take, and how often it may try.

Two occasions: a routine save, which waits out a bad minute, and the final save inside the grace,
which must give up while there is still time to leave.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from outlast.storage.errors import StorageTimeout


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """Bounds on one call of a store. `total_seconds_max` holds whatever the server does."""

    connect_seconds_max: float
    request_seconds_max: float
    attempts_max: int
    total_seconds_max: float

    def __post_init__(self) -> None:
        seconds = (self.connect_seconds_max, self.request_seconds_max, self.total_seconds_max)
        if min(seconds) <= 0:
            raise ValueError("Limits in seconds are above 0.")
        if self.attempts_max < 1:
            raise ValueError("At least one attempt is needed.")


ROUTINE = Limits(
    connect_seconds_max=4.0,
    request_seconds_max=64.0,
    attempts_max=6,
    total_seconds_max=2048.0,
)
"""For saves and reads that no deadline presses."""

_FINAL_SECONDS_MIN = 0.05


def final(seconds_left: float) -> Limits:
    """Limits for a call that must be over in `seconds_left`, whether it succeeds or not."""
    # A call made too late still ends at once, by its timeout, instead of by a ValueError.
    total = max(seconds_left, _FINAL_SECONDS_MIN)
    return Limits(
        connect_seconds_max=min(2.0, total),
        # Half the time for one request leaves room for a second one, if there is much time.
        request_seconds_max=min(total, max(5.0, total / 2)),
        attempts_max=3,
        total_seconds_max=total,
    )


class Countdown:
    """The time that is left of one call."""

    def __init__(
        self, limits: Limits, doing: str, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._limits = limits
        self._doing = doing
        self._now = now
        self._end = now() + limits.total_seconds_max

    def seconds_left(self) -> float:
        """Above zero; raises `StorageTimeout` once the time is over."""
        left = self._end - self._now()
        if left <= 0:
            raise self.timeout()
        return left

    def limits_left(self) -> Limits:
        """The limits for a further call within the same time."""
        return replace(self._limits, total_seconds_max=self.seconds_left())

    def timeout(self) -> StorageTimeout:
        return StorageTimeout(
            f"{self._doing} took longer than the {self._limits.total_seconds_max:.1f} s allowed.",
            hint="If this repeats, check the network or the disk; "
            "a write may have taken effect nonetheless.",
        )
