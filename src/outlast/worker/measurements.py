"""What a worker counts and measures: what became of its items, and how long calls take."""

import statistics
from collections import deque
from dataclasses import dataclass

_KEPT = 32


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSummary:
    """How many items one run of a worker handled, by result.

    `done` were computed and stored. `skipped` already had a result. `failed` counts failures, so an
    item that failed twice counts twice; `dead` of them were moved to the dead letters. `lost` were
    computed here but not stored, because the lease had ended and another worker's result is there.
    `refused` were computed here but not stored, because the sink holds newer results for their
    keys, from another queue or version; they are included in `dead`.
    """

    done: int = 0
    skipped: int = 0
    failed: int = 0
    dead: int = 0
    lost: int = 0
    refused: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.done:,} done, {self.skipped:,} skipped, {self.failed:,} failed, "
            f"{self.dead:,} dead, {self.lost:,} lost"
            + (f", {self.refused:,} refused" if self.refused else "")
            + f" in {self.seconds:.1f} s"
        )


class TypicalDuration:
    """The median duration per item over the last measurements."""

    def __init__(self) -> None:
        self._seconds: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float, items: int = 1) -> None:
        self._seconds.append(seconds / items)

    def expected_seconds(self, items: int = 1) -> float | None:
        """How long this many items should take; None before the first measurement."""
        # A copy, because another thread may be adding.
        seen = list(self._seconds)
        return statistics.median(seen) * items if seen else None


def fits(expected_seconds: float | None, *, elapsed_seconds: float, left_seconds: float) -> bool:
    """Whether a call that has been running for a while should finish in the time left.

    A call that was never measured gets the benefit of the doubt: it may return before the deadline,
    and at the deadline its items are released anyway.
    """
    if expected_seconds is None:
        return left_seconds > 0
    return expected_seconds - elapsed_seconds <= left_seconds
