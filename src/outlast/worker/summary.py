"""What one run of a worker has done, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """Counts of items, by what became of them here.

    `done` were computed and stored. `skipped` had a result already. `failed` counts failures, so an
    item that failed twice counts twice; `dead` are those among them that were given up. `lost` were
    computed here but not stored, because the lease had ended: they are computed again elsewhere.
    """

    done: int = 0
    skipped: int = 0
    failed: int = 0
    dead: int = 0
    lost: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.done:,} done, {self.skipped:,} skipped, {self.failed:,} failed, "
            f"{self.dead:,} given up, {self.lost:,} lost in {self.seconds:.1f} s"
        )
