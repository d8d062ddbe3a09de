"""The money and the finish of a run, as values. Imports nothing that is slow to import."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True, kw_only=True, slots=True)
class Money:
    """Amounts in `currency`. `on_demand` is for the same steps without interruptions.

    The cost is between `spent` and `spent_max`, which are equal if all is known of it; without an
    upper bound `spent_max` is None. `by_tier` adds up to `spent`; it is empty if only one tier was
    used, or which ones is not known.
    """

    spent: Decimal
    spent_max: Decimal | None
    on_demand: Decimal | None
    currency: str
    by_tier: tuple[tuple[str, Decimal], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_exact(self) -> bool:
        return self.spent == self.spent_max

    @property
    def saved_share(self) -> float | None:
        """The share saved against on-demand, None if the cost is not exactly known."""
        return self.saved_share_max if self.is_exact else None

    @property
    def saved_share_min(self) -> float | None:
        return self._share(self.spent_max)

    @property
    def saved_share_max(self) -> float | None:
        return self._share(self.spent)

    def _share(self, spent: Decimal | None) -> float | None:
        if spent is None or self.on_demand is None or self.on_demand <= 0:
            return None
        return float(1 - spent / self.on_demand)


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishTimes:
    """The estimate as times. `chance` is that of the deadline, None without one."""

    p10: datetime
    p50: datetime
    p90: datetime
    deadline: datetime | None
    chance: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class NoEstimate:
    """Why there is no estimate, as a sentence for the user."""

    why: str
