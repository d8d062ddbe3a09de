"""Which tier, what it costs, will it be done in time: the recommendation and its reasons.

Pure: a workload and prices in, a plan out; the same input and seed give the same plan. The hard
rules come first. Where the arithmetic contradicts them it says so and wins, but never on the
strength of an estimated price: that is only mentioned.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from outlast._base.durations import format_duration
from outlast.capacity.assumptions import Assumptions, Figure, PlanError, assume
from outlast.capacity.cautions import cautions
from outlast.capacity.interruptions import Lifetimes
from outlast.capacity.options import Option, Terms, weigh
from outlast.capacity.price import Price, PriceTable, PriceUnknown, built_in_prices
from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.tier import choose_tier_by_rule
from outlast.capacity.vocabulary import Kind, Tier

RUNS = 10_000
CHANCE_MIN = 0.9
"""A tier that meets the deadline less often than this is left for a safer one."""

_UNPRICED = re.compile(r"(e2|[cn][1-4][ad]?|t2[ad]|m[1-4]|h3|h4d|z3|x4)-[a-z0-9-]+", re.ASCII)
"""Families of machines that exist, but have no built-in price."""

TIERS = (Tier.SPOT, Tier.FLEX_START, Tier.ON_DEMAND, Tier.HYBRID)
_SAFETY = {Tier.SPOT: 0, Tier.HYBRID: 1, Tier.FLEX_START: 2, Tier.ON_DEMAND: 3}
# A difference below this is within what the assumptions are good for.
_CHEAPER = Decimal("0.99")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A recommendation. `options` holds every tier, with its figures and what stands against it."""

    workload: str
    tier: Tier
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    options: tuple[Option, ...]
    figures: tuple[Figure, ...]
    deadline: timedelta | None
    runs: int
    seed: int

    @property
    def chosen(self) -> Option:
        return next(option for option in self.options if option.tier is self.tier)

    @property
    def cost_expected(self) -> Decimal | None:
        """Of the recommended tier; None if no price is known."""
        return self.chosen.cost.expected if self.chosen.cost else None

    @property
    def save_every(self) -> timedelta | None:
        """The work between two saves on the recommended tier; None if nothing is saved."""
        return self.chosen.save_every

    @property
    def prices(self) -> tuple[Price, ...]:
        """The prices that the plan rests on."""
        pairs = ((option.price, option.fallback_price) for option in self.options)
        found = {price.key: price for pair in pairs for price in pair if price is not None}
        return tuple(found.values())


def plan(
    workload: WorkloadSpec,
    *,
    prices: PriceTable | None = None,
    now: datetime | None = None,
    bucket_location: str | None = None,
    lifetimes: Lifetimes | None = None,
    runs: int = RUNS,
    seed: int = 0,
) -> Plan:
    """Compare the tiers for a workload and recommend one.

    `now` is what a deadline with a date is counted from. `bucket_location` is where the checkpoints
    are, if known. `lifetimes` is the law of Spot nodes, if it is not random. Raises `PlanError`, or
    `PriceUnknown` for a machine or place that nobody knows.
    """
    assumptions = assume(workload, lifetimes=lifetimes)
    deadline = _deadline(workload, assumptions, now or datetime.now(UTC))
    deadline_seconds = deadline.total_seconds() if deadline else None
    table = prices if prices is not None else built_in_prices()
    options = tuple(
        weigh(assumptions, terms, deadline_seconds=deadline_seconds, runs=runs, seed=seed)
        for terms in _all_terms(workload, assumptions, table)
    )
    tier, reasons = _recommend(workload, options, deadline)
    chosen = next(option for option in options if option.tier is tier)
    return Plan(
        workload=workload.name,
        tier=tier,
        reasons=tuple(reasons),
        warnings=tuple(cautions(workload, assumptions, chosen, bucket_location=bucket_location)),
        options=options,
        figures=assumptions.figures,
        deadline=deadline,
        runs=runs,
        seed=seed,
    )


def _deadline(workload: WorkloadSpec, assumptions: Assumptions, now: datetime) -> timedelta | None:
    deadline = workload.deadline
    if deadline is None or workload.kind is Kind.SERVING:
        return None
    left = deadline if isinstance(deadline, timedelta) else deadline - now
    if left.total_seconds() < assumptions.work_seconds:
        shown = f"in {format_duration(max(0.0, left.total_seconds()))}"
        work = format_duration(assumptions.work_seconds)
        raise PlanError(
            f"The deadline is {shown}, and the work alone takes {work}.",
            hint="Move the deadline, or spread the work over more nodes or Pods.",
        )
    return left


def _all_terms(
    workload: WorkloadSpec, assumptions: Assumptions, table: PriceTable
) -> Iterator[Terms]:
    found = {tier: _price(workload, table, tier) for tier in TIERS if tier is not Tier.HYBRID}
    is_unpriced = all(price is None for price in found.values())
    for tier in TIERS:
        why_not = _why_not(workload, assumptions, tier)
        if tier is Tier.HYBRID:
            order = workload.hybrid.order
            dearer = (found[one] for one in (Tier.ON_DEMAND, Tier.FLEX_START) if one in order)
            fallback = next((price for price in dearer if price is not None), None)
            if why_not is None and not is_unpriced and (found[Tier.SPOT] is None or not fallback):
                why_not = _not_sold(workload, tier)
            yield Terms(tier=tier, price=found[Tier.SPOT], fallback_price=fallback, why_not=why_not)
            continue
        if why_not is None and not is_unpriced and found[tier] is None:
            why_not = _not_sold(workload, tier)
        lease = workload.max_run.total_seconds() if tier is Tier.FLEX_START else math.inf
        yield Terms(tier=tier, price=found[tier], lease_seconds=lease, why_not=why_not)


def _price(workload: WorkloadSpec, table: PriceTable, tier: Tier) -> Price | None:
    """The price of a tier; None if it is not sold, or the machine is a kind with no prices here."""
    machine, location = workload.machine_type, workload.cluster.location
    try:
        return table.find(machine, location, tier)
    except PriceUnknown:
        known = any(table.has(machine, location, other) for other in TIERS)
        if known or (machine not in table.machines and _UNPRICED.fullmatch(machine)):
            return None
        raise


def _why_not(workload: WorkloadSpec, assumptions: Assumptions, tier: Tier) -> str | None:
    """What forbids a tier, whatever it costs."""
    if tier is Tier.ON_DEMAND:
        return None
    if workload.kind is Kind.SERVING:
        return "Requests wait for no node."
    if tier is not Tier.FLEX_START:
        if not workload.resumable:
            return "It cannot resume, so every eviction would start it anew."
        return None if workload.interruptible else "It must not be preempted."
    if workload.accelerator is None and not workload.machine_type.startswith("h4d"):
        return "Flex-start has accelerators and h4d machines only."
    lease_seconds = workload.max_run.total_seconds()
    if not workload.resumable and assumptions.work_seconds > lease_seconds:
        lease = format_duration(lease_seconds)
        return f"It cannot resume, and takes longer than a flex-start node lives: {lease}."
    return None


def _not_sold(workload: WorkloadSpec, tier: Tier) -> str:
    place = workload.cluster.location
    return f"No {tier} price is known for {workload.machine_type} in {place}: it may not be sold."


def _recommend(
    workload: WorkloadSpec, options: Sequence[Option], deadline: timedelta | None
) -> tuple[Tier, list[str]]:
    """The tier and the reasons: the rule, what the arithmetic says to it, and the figures."""
    by_tier = {option.tier: option for option in options}
    rule = choose_tier_by_rule(workload)
    reasons = [rule.reason]
    chosen = by_tier[rule.tier]
    if workload.tier is not Tier.AUTO:
        if chosen.why_not is not None:
            reasons.append(f"But something stands against it: {chosen.why_not}")
    else:
        better, why = _overturn(chosen, options)
        if better is not None:
            reasons.append(f"But the arithmetic says {better.tier}, not {chosen.tier}: {why}")
            chosen = better
    reasons += _figures_told(workload, chosen, by_tier, deadline)
    reasons += _mentions(chosen, options)
    return chosen.tier, reasons


def _overturn(chosen: Option, options: Sequence[Option]) -> tuple[Option | None, str]:
    """The option that the arithmetic prefers to the rule's, and why; None if it agrees.

    Only safer options whose price is no estimate can win, unless the rule's is not possible at all.
    """
    possible = [option for option in options if option.is_possible and option is not chosen]
    possible.sort(key=lambda option: (option.is_estimate, _amount(option)))
    if chosen.why_not is not None:
        return (possible[0], chosen.why_not) if possible else (None, "")
    others = [
        option
        for option in possible
        if not option.is_estimate and _SAFETY[option.tier] > _SAFETY[chosen.tier]
    ]
    if not others:
        return None, ""
    if chosen.chance is not None and chosen.chance < CHANCE_MIN:
        surer = [other for other in others if (other.chance or 0) > chosen.chance + 0.05]
        if surer:
            return surer[0], (
                f"it meets the deadline in {surer[0].chance:.0%} of all runs, {chosen.tier} in "
                f"{chosen.chance:.0%}."
            )
    cheapest = others[0]
    if cheapest.cost and chosen.cost and _amount(cheapest) < _amount(chosen) * _CHEAPER:
        return cheapest, (
            f"it is expected to cost {_money(cheapest)}, and {chosen.tier} {_money(chosen)}."
        )
    return None, ""


def _figures_told(
    workload: WorkloadSpec,
    chosen: Option,
    by_tier: dict[Tier, Option],
    deadline: timedelta | None,
) -> Iterator[str]:
    """The figures of the chosen tier, in sentences."""
    is_serving = workload.kind is Kind.SERVING
    if chosen.cost is not None:
        span = "30 days are" if is_serving else "It is"
        spread = f"; 19 of 20 runs cost at most {chosen.cost.p95} {chosen.cost.currency}"
        is_sure = chosen.cost.p95 == chosen.cost.expected
        yield f"{span} expected to cost {_money(chosen)}{'' if is_sure else spread}."
        on_demand = by_tier[Tier.ON_DEMAND]
        if chosen.tier is not Tier.ON_DEMAND and on_demand.cost is not None:
            yield _compared(chosen, on_demand)
    if chosen.finish is not None and not is_serving:
        yield (
            f"It is done after {_span(chosen.finish.p50)} in half of all runs, and after "
            f"{_span(chosen.finish.p95)} in 19 of 20."
        )
    if chosen.chance is not None and deadline is not None:
        met = f"{chosen.chance:.1%}"
        yield f"The deadline, {_span(deadline)} from now, is met in {met} of all runs."
    if chosen.waste is not None and chosen.interruptions is not None and not is_serving:
        waste = chosen.waste
        yield (
            f"About {chosen.interruptions:.1f} interruptions are expected. In the mean "
            f"{waste.redone_hours:.1f} h of work are done again, {waste.restart_hours:.1f} h go "
            f"into starting, {waste.wait_hours:.1f} h into waiting."
        )
    if chosen.save_every is not None and chosen.waste is not None:
        yield (
            f"It saves after every {_span(chosen.save_every)} of work, which takes "
            f"{chosen.waste.save_hours:.1f} h in all."
        )


def _compared(chosen: Option, on_demand: Option) -> str:
    assert chosen.cost is not None and on_demand.cost is not None
    saved = 1 - chosen.cost.expected / on_demand.cost.expected
    word = "saves" if saved >= 0 else "costs more by"
    return f"On-demand would cost {_money(on_demand)}: {chosen.tier} {word} {abs(saved):.0%}."


def _mentions(chosen: Option, options: Sequence[Option]) -> Iterator[str]:
    """What else a reader should know before deciding: cheaper options that did not win, and why."""
    for option in options:
        if option.tier is chosen.tier or not option.is_possible or not option.cost:
            continue
        if not chosen.cost or _amount(option) >= _amount(chosen) * _CHEAPER:
            continue
        if option.is_estimate:
            yield (
                f"{option.tier} may be cheaper still, about {_money(option)}; but its price is an "
                "estimate, so it decides nothing. Put in the real one with --prices."
            )
        elif _SAFETY[option.tier] < _SAFETY[chosen.tier]:
            chance = (
                "" if option.chance is None else f", in time in {option.chance:.1%} of all runs"
            )
            yield f"{option.tier} would be cheaper, {_money(option)}{chance}, but less sure."


def _amount(option: Option) -> Decimal:
    return option.cost.expected if option.cost else Decimal("Infinity")


def _money(option: Option) -> str:
    assert option.cost is not None
    return f"{option.cost.expected} {option.cost.currency}"


def _span(duration: timedelta) -> str:
    return format_duration(duration.total_seconds())
