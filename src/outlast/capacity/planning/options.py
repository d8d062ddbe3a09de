"""A tier as an option for a workload: its terms, and what `evaluation.py` found out about it.

Money is `Decimal`, to the cent.
"""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from outlast.capacity.pricing.prices import Price
from outlast.capacity.simulation.simulate import QuantileSketch
from outlast.capacity.vocabulary import Tier

CHANCE_MIN = 0.9
"""A tier that meets the deadline less often than this is rejected in favor of a safer one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CostEstimate:
    """Cost over all nodes: expected value and percentiles."""

    expected: Decimal
    p5: Decimal
    p50: Decimal
    p95: Decimal
    currency: str


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishTime:
    """Time to finish from now, including waiting."""

    p5: timedelta
    p50: timedelta
    p95: timedelta


@dataclass(frozen=True, kw_only=True, slots=True)
class WastedTime:
    """Mean hours not spent on lasting work, and their share of the total time.

    Values are per Pod if many Pods work in parallel; a training run on many nodes counts as one.
    """

    redone_hours: float
    save_hours: float
    restart_hours: float
    wait_hours: float
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class TierOption:
    """The evaluation of one tier. `why_not` is the reason if it is not possible.

    `primary` is the tier its nodes come from, and `fallback` what a hybrid uses if there are none.
    `interruptions` are per Pod, as in `WastedTime`; cost and finish time are for all Pods.
    """

    tier: Tier
    primary: Tier
    fallback: Tier | None
    why_not: str | None
    price: Price | None
    fallback_price: Price | None
    cost: CostEstimate | None = None
    finish: FinishTime | None = None
    chance: float | None = None
    waste: WastedTime | None = None
    save_every: timedelta | None = None
    saves: int | None = None
    interruptions: float | None = None
    fallback_share: float | None = None
    cost_distribution: QuantileSketch | None = None
    finish_distribution: QuantileSketch | None = None

    @property
    def is_possible(self) -> bool:
        return self.why_not is None

    @property
    def is_estimate(self) -> bool:
        """Whether the cost is based on an estimated price."""
        prices = (self.price, self.fallback_price)
        return any(price is not None and price.is_estimate for price in prices)


@dataclass(frozen=True, kw_only=True, slots=True)
class TierTerms:
    """How a tier is bought: its prices, if known, and why it is not possible, if so.

    `lease_seconds` is the maximum lifetime of a flex-start node.
    """

    tier: Tier
    primary: Tier
    lease_seconds: float
    fallback: Tier | None = None
    price: Price | None = None
    fallback_price: Price | None = None
    why_not: str | None = None

    @property
    def is_priced(self) -> bool:
        has_fallback_price = self.fallback is None or self.fallback_price is not None
        return self.price is not None and has_fallback_price
