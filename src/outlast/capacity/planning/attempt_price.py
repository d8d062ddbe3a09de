"""The price of a run whose attempts may have used different tiers and machines. Pure.

Each attempt is priced by its own tier and machine. What is not known gives bounds, never a guess.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from outlast.capacity.planning.run_price import machine_price
from outlast.capacity.planning.tier_rules import choose_tier_by_rule
from outlast.capacity.pricing.prices import Price
from outlast.capacity.vocabulary import Tier

if TYPE_CHECKING:
    from outlast.capacity.workload.spec import WorkloadSpec

_BOUGHT = (Tier.SPOT, Tier.FLEX_START, Tier.ON_DEMAND)
_ATTACHABLE = "n1-"
"""Accelerators are attached to these machines, and their type does not show which."""

_CENT = Decimal("0.01")
_LISTED_MAX = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptUse:
    """What an attempt used, as far as known. `seconds` is how long it had a machine."""

    attempt: int
    seconds: float
    tier: str | None = None
    machine: str | None = None
    location: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunPrice:
    """The mean price of a node for an hour, over all attempts of a run.

    It is between `low` and `high`, which are equal if everything is known; `high` is None if there
    is no upper bound. `shares` is how much of the cost each tier has, empty unless it is known.
    `rows` are the prices that were used, and `notes` say what is uncertain.
    """

    low: Decimal
    high: Decimal | None
    currency: str
    shares: tuple[tuple[Tier, Fraction], ...] = ()
    rows: tuple[Price, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def exact(self) -> Decimal | None:
        return self.low if self.high == self.low else None


@dataclass(frozen=True, kw_only=True, slots=True)
class _PricedUse:
    use: AttemptUse
    prices: tuple[Price, ...]
    is_complete: bool
    """Whether the price is certainly among these."""
    notes: tuple[str, ...] = ()

    @property
    def low(self) -> Decimal:
        return min((one.amount for one in self.prices), default=Decimal(0))

    @property
    def high(self) -> Decimal | None:
        return max(one.amount for one in self.prices) if self.is_complete else None


def price_attempts(
    uses: Sequence[AttemptUse], workload: "WorkloadSpec | None" = None, *, tier: Tier | None = None
) -> RunPrice | None:
    """The price of a run, None if nothing is known of it.

    What an attempt states takes precedence over the workload file, and `tier` over both.
    """
    priced = [_priced(use, workload, tier) for use in uses]
    rows = [row for one in priced for row in one.prices]
    currencies = {row.currency for row in rows}
    if not rows or len(currencies) > 1:
        return None
    low = _mean([(one.use.seconds, one.low) for one in priced])
    highs = [(one.use.seconds, high) for one in priced if (high := one.high) is not None]
    return RunPrice(
        low=low,
        high=_mean(highs) if len(highs) == len(priced) else None,
        currency=currencies.pop(),
        shares=_shares(priced),
        rows=tuple({row.key: row for row in rows}.values()),
        notes=tuple(dict.fromkeys(_notes(priced))),
    )


def unpriced_notes(
    uses: Sequence[AttemptUse], workload: "WorkloadSpec | None" = None, *, tier: Tier | None = None
) -> tuple[str, ...]:
    """Why there is no price."""
    notes = (note for use in uses for note in _priced(use, workload, tier).notes)
    return tuple(dict.fromkeys(notes))


def split_amount(total: Decimal, shares: Sequence[tuple[Tier, Fraction]]) -> dict[Tier, Decimal]:
    """An amount by tier, in cents that add up to it."""
    found: dict[Tier, Decimal] = {}
    share, given = Fraction(0), Decimal(0)
    for tier, own in shares:
        share += own
        until = _decimal(share * Fraction(total)).quantize(_CENT, rounding=ROUND_HALF_EVEN)
        found[tier] = until - given
        given = until
    return found


def _priced(use: AttemptUse, workload: "WorkloadSpec | None", tier: Tier | None) -> _PricedUse:
    machine = use.machine or (workload.machine_type if workload else None)
    location = use.location or (workload.cluster.location if workload else None)
    if machine is None or location is None:
        return _PricedUse(use=use, prices=(), is_complete=False)
    is_own = workload is not None and machine == workload.machine_type
    attached = workload.attached if workload is not None and is_own else None
    tiers, are_stated = _tiers(use, workload, tier)
    found = [machine_price(machine, location, one, attached=attached) for one in tiers]
    rows = tuple(one.row for one in found if one.row is not None)
    # Of all tiers there are, those without a price are not sold; a stated one must have a price.
    is_complete = bool(rows) and (not are_stated or len(rows) == len(tiers))
    if machine.startswith(_ATTACHABLE) and not is_own:
        is_complete = False
    notes = tuple(note for one in found for note in one.notes if one.row or are_stated or not rows)
    return _PricedUse(use=use, prices=rows, is_complete=is_complete, notes=notes)


def _tiers(
    use: AttemptUse, workload: "WorkloadSpec | None", tier: Tier | None
) -> tuple[tuple[Tier, ...], bool]:
    """The tiers that an attempt may have used, and whether someone has stated them."""
    if tier in _BOUGHT:
        return (tier,), True
    known = next((one for one in _BOUGHT if one.value == use.tier), None)
    if known is not None:
        return (known,), True
    if workload is None:
        return _BOUGHT, False
    chosen = choose_tier_by_rule(workload).tier if tier is None else tier
    if chosen is Tier.AUTO:
        chosen = choose_tier_by_rule(workload).tier
    return (_hybrid_tiers(workload) if chosen is Tier.HYBRID else (chosen,)), True


def _hybrid_tiers(workload: "WorkloadSpec") -> tuple[Tier, ...]:
    """The tiers of a hybrid that its machine is sold on."""
    order = workload.hybrid.order
    return tuple(one for one in order if one is not Tier.FLEX_START or workload.has_flex_start)


def _mean(pairs: Sequence[tuple[float, Decimal]]) -> Decimal:
    """The mean of the prices by time. Exact if all are equal."""
    prices = {price for _, price in pairs}
    if len(prices) == 1:
        return prices.pop()
    seconds = sum(Fraction(one) for one, _ in pairs)
    if not seconds:
        return min(prices)
    total = sum(Fraction(one) * Fraction(price) for one, price in pairs)
    return _decimal(total / seconds)


def _decimal(number: Fraction) -> Decimal:
    return Decimal(number.numerator) / Decimal(number.denominator)


def _shares(priced: Sequence[_PricedUse]) -> tuple[tuple[Tier, Fraction], ...]:
    if any(len(one.prices) != 1 or not one.is_complete for one in priced):
        return ()
    costs: dict[Tier, Fraction] = {}
    for one in priced:
        tier, amount = Tier(one.prices[0].tier), Fraction(one.low)
        costs[tier] = costs.get(tier, Fraction(0)) + Fraction(one.use.seconds) * amount
    total = sum(costs.values())
    return tuple((tier, cost / total) for tier, cost in costs.items()) if total else ()


def _notes(priced: Sequence[_PricedUse]) -> Iterator[str]:
    unknown = [one for one in priced if len(one.prices) > 1]
    if unknown:
        tiers = dict.fromkeys(row.tier for one in unknown for row in one.prices)
        yield (
            f"The tier of {_listed(unknown)} is not known: priced from the cheapest to the most "
            f"expensive of {', '.join(tiers)}."
        )
    unbounded = [one for one in priced if not one.is_complete]
    if unbounded:
        yield f"The price of {_listed(unbounded)} is not fully known, so the cost is a minimum."
    for one in priced:
        yield from one.notes


def _listed(priced: Sequence[_PricedUse]) -> str:
    numbers = sorted({one.use.attempt for one in priced})
    if len(numbers) > _LISTED_MAX:
        return f"{len(numbers):,} attempts"
    word = "attempt" if len(numbers) == 1 else "attempts"
    return f"{word} {', '.join(map(str, numbers))}"
