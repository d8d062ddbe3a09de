"""Cost against time: which tiers are worth considering, and what each saved unit costs in time.

Pure. A tier is on the frontier if no other one is both faster and cheaper. One that is faster only
by a moment is beaten too. Finish times are medians, costs are expected values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import NamedTuple

from outlast._base.durations import format_duration
from outlast.capacity.planning.options import TierOption
from outlast.capacity.vocabulary import Tier

VALUE_OF_TIME = Decimal(10)
"""Assumed value of finishing one hour earlier, in the currency of the prices."""

# Shorter delays are within the accuracy of the assumptions.
_DELAY_MIN = timedelta(minutes=5)
_DELAY_SHARE_MIN = 0.005
_CENT = Decimal("0.01")


@dataclass(frozen=True, kw_only=True, slots=True)
class FrontierPoint:
    """A tier on the frontier. The saving and the delay compare it with the next faster one.

    `saved_per_hour` is the saving per hour of delay; all three are None for the fastest tier.
    """

    tier: Tier
    cost: Decimal
    finish: timedelta
    saved: Decimal | None = None
    delay: timedelta | None = None
    saved_per_hour: Decimal | None = None
    is_estimate: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ValueOfTime:
    """What finishing one hour earlier is worth. `is_given` is false for the default."""

    per_hour: Decimal = VALUE_OF_TIME
    is_given: bool = False

    def of(self, span: timedelta) -> Decimal:
        return self.per_hour * _hours(span)


class _Timed(NamedTuple):
    finish: timedelta
    cost: Decimal
    tier: Tier
    is_estimate: bool


def cost_time_frontier(options: Sequence[TierOption]) -> tuple[FrontierPoint, ...]:
    """The tiers that no other tier beats in both cost and time, fastest first."""
    timed = [
        _Timed(option.finish.p50, option.cost.expected, option.tier, option.is_estimate)
        for option in options
        if option.is_possible and option.cost is not None and option.finish is not None
    ]
    points: list[FrontierPoint] = []
    for finish, cost, tier, is_estimate in _unbeaten(sorted(timed)):
        saved, delay = None, None
        if points:
            saved, delay = points[-1].cost - cost, finish - points[-1].finish
        points.append(
            FrontierPoint(
                tier=tier,
                cost=cost,
                finish=finish,
                saved=saved,
                delay=delay,
                saved_per_hour=None if saved is None or delay is None else _rate(saved, delay),
                is_estimate=is_estimate,
            )
        )
    return tuple(points)


def _unbeaten(timed: Sequence[_Timed]) -> list[_Timed]:
    """Those that no cheaper one beats, of a list that starts with the fastest."""
    kept: list[_Timed] = []
    for one in timed:
        if kept and one.cost >= kept[-1].cost:
            continue
        while kept and one.finish - kept[-1].finish < min(
            _DELAY_MIN, one.finish * _DELAY_SHARE_MIN
        ):
            kept.pop()
        kept.append(one)
    return kept


def best_for(options: Sequence[TierOption], value: ValueOfTime) -> TierOption | None:
    """The option with the lowest cost plus value of the time; None if none can be compared."""
    return min(
        filter(_is_comparable, options),
        key=lambda option: _cost_and_time(option, value),
        default=None,
    )


def expensive_delay(
    chosen: TierOption, options: Sequence[TierOption], value: ValueOfTime
) -> str | None:
    """A sentence if the chosen tier saves less than its delay is worth; None if it is worth it.

    Options with an estimated price are not considered: the plan asks for the price instead.
    """
    if not _is_comparable(chosen):
        return None
    faster = [
        option
        for option in options
        if _is_comparable(option)
        and not option.is_estimate
        and delay_of(chosen, option) >= _DELAY_MIN
    ]
    best = best_for([chosen, *faster], value)
    if best is None or best is chosen or not (best.cost and chosen.cost):
        return None
    delay, saved = delay_of(chosen, best), best.cost.expected - chosen.cost.expected
    currency = chosen.cost.currency
    origin = "" if value.is_given else ", an assumption; set value_of_time to change it"
    saving = f"saves {saved:,} {currency}" if saved > 0 else "saves nothing"
    return (
        f"{chosen.tier.capitalize()} {saving} compared with {best.tier}, but finishes "
        f"{format_duration(delay.total_seconds())} later: {_rate(max(saved, Decimal(0)), delay):,} "
        f"{currency} per hour, less than the value of time ({value.per_hour:,} {currency} per hour"
        f"{origin})."
    )


def delay_of(option: TierOption, other: TierOption) -> timedelta:
    """How much later than the other one it finishes."""
    if option.finish is None or other.finish is None:
        return timedelta(0)
    return option.finish.p50 - other.finish.p50


def _cost_and_time(option: TierOption, value: ValueOfTime) -> Decimal:
    assert option.cost is not None and option.finish is not None
    return option.cost.expected + value.of(option.finish.p50)


def _is_comparable(option: TierOption) -> bool:
    return option.is_possible and option.cost is not None and option.finish is not None


def _rate(saved: Decimal, delay: timedelta) -> Decimal:
    hours = _hours(delay)
    return (saved / hours if hours else saved).quantize(_CENT, rounding=ROUND_HALF_EVEN)


def _hours(span: timedelta) -> Decimal:
    return Decimal(repr(span.total_seconds())) / 3600
