"""Which tier, what it costs, will it be done in time: the recommendation and its reasons.

Pure: a workload and prices in, a plan out; the same input and seed give the same plan.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches

from outlast._base.durations import format_duration
from outlast.capacity.assumptions import Assumptions, Figure, PlanError, assume
from outlast.capacity.cautions import cautions
from outlast.capacity.interruptions import Lifetimes
from outlast.capacity.options import Option, Terms, outlives_lease, undisturbed_seconds, weigh
from outlast.capacity.price import (
    Price,
    PriceTable,
    PriceUnknown,
    built_in_prices,
    check_currency,
    region_of,
)
from outlast.capacity.recommendation import recommend
from outlast.capacity.regions import REGIONS
from outlast.capacity.spec import WorkloadSpec
from outlast.capacity.tier import has_flex_start
from outlast.capacity.vocabulary import Kind, Tier

RUNS = 10_000

_UNPRICED = re.compile(r"(e2|[cn][1-4][ad]?|t2[ad]|m[1-4]|h3|h4d|z3|x4)-[a-z0-9-]+", re.ASCII)
"""Families of machines that exist, but have no built-in price."""

TIERS = (Tier.SPOT, Tier.FLEX_START, Tier.ON_DEMAND, Tier.HYBRID)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """A recommendation. `options` holds every tier, with its figures and what stands against it.

    `crews` is how many Pods work side by side, each on its own; a training run is one.
    """

    workload: str
    tier: Tier
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    options: tuple[Option, ...]
    figures: tuple[Figure, ...]
    deadline: timedelta | None
    crews: int
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
    spot_wait: timedelta | None = None,
    runs: int = RUNS,
    seed: int = 0,
) -> Plan:
    """Compare the tiers for a workload and recommend one.

    `now` is what a deadline with a date is counted from. `bucket_location` is where the checkpoints
    are, if known. `lifetimes` is the law of Spot nodes, if it is not random, and `spot_wait` the
    mean wait for one, in place of what the workload says. Raises `PlanError`, or `PriceUnknown` for
    a machine or place that nobody knows.
    """
    if seed < 0:
        raise PlanError(f"The seed is {seed!r}; a whole number from 0 is expected.")
    wait_seconds = spot_wait.total_seconds() if spot_wait is not None else None
    assumptions = assume(workload, lifetimes=lifetimes, spot_wait_seconds=wait_seconds)
    deadline = _deadline(workload, assumptions, now or datetime.now(UTC))
    deadline_seconds = deadline.total_seconds() if deadline else None
    table = prices if prices is not None else built_in_prices()
    options = tuple(
        weigh(assumptions, terms, deadline_seconds=deadline_seconds, runs=runs, seed=seed)
        for terms in _all_terms(workload, assumptions, table)
    )
    if workload.kind is Kind.SERVING:
        options = tuple(replace(option, finish=None, finish_spread=None) for option in options)
    tier, reasons = recommend(workload, assumptions, options, deadline)
    chosen = next(option for option in options if option.tier is tier)
    return Plan(
        workload=workload.name,
        tier=tier,
        reasons=tuple(reasons),
        warnings=tuple(
            cautions(workload, assumptions, chosen, options, bucket_location=bucket_location)
        ),
        options=options,
        figures=assumptions.figures,
        deadline=deadline,
        crews=assumptions.crews,
        runs=runs,
        seed=seed,
    )


def _deadline(workload: WorkloadSpec, assumptions: Assumptions, now: datetime) -> timedelta | None:
    if now.utcoffset() is None:
        raise PlanError(
            f"now is {now!r}, a time without its zone.", hint="Give one such as datetime.now(UTC)."
        )
    deadline = workload.deadline
    if deadline is None or workload.kind is Kind.SERVING:
        return None
    left = deadline if isinstance(deadline, timedelta) else deadline - now
    left_seconds = max(0.0, left.total_seconds())
    least_seconds = undisturbed_seconds(assumptions, Tier.ON_DEMAND)
    if left_seconds >= least_seconds:
        return left
    if left_seconds < assumptions.work_seconds:
        needed_seconds, words = assumptions.work_seconds, "the work alone"
    else:
        needed_seconds, words = least_seconds, "the work with its start and its saves"
    raise PlanError(
        f"The deadline {_when(left)}, and {words} takes {format_duration(needed_seconds)}: "
        f"{format_duration(needed_seconds - left_seconds)} too long.",
        hint="Move the deadline, or spread the work over more nodes or Pods.",
    )


def _when(left: timedelta) -> str:
    span = format_duration(abs(left.total_seconds()))
    return f"was {span} ago" if left < timedelta(0) else f"is in {span}"


def _all_terms(
    workload: WorkloadSpec, assumptions: Assumptions, table: PriceTable
) -> Iterator[Terms]:
    found: dict[Tier, Price | None] = {
        tier: _price(workload, table, tier) for tier in TIERS if tier is not Tier.HYBRID
    }
    check_currency(price for price in found.values() if price is not None)
    check_currency(price for price in found.values() if price is not None)
    is_unpriced = all(price is None for price in found.values())
    for tier in TIERS:
        first, fallback = (tier, None) if tier is not Tier.HYBRID else _mixed(workload, found)
        terms = Terms(
            tier=tier,
            first=first,
            fallback=fallback,
            lease_seconds=workload.max_run.total_seconds(),
            price=found[first],
            fallback_price=found[fallback] if fallback else None,
        )
        why_not = _why_not(workload, assumptions, terms)
        if why_not is None and not is_unpriced and not terms.is_priced:
            missing = fallback if fallback and terms.price is not None else first
            why_not = _not_sold(workload, missing)
        yield replace(terms, why_not=why_not)


def _mixed(workload: WorkloadSpec, found: dict[Tier, Price | None]) -> tuple[Tier, Tier | None]:
    """Where a hybrid's nodes come from, and what it turns to when there are none.

    On-demand nodes are taken to be there always. What is not sold is passed over.
    """
    order = [
        tier
        for tier in workload.hybrid.order
        if tier is not Tier.FLEX_START or has_flex_start(workload)
    ] or list(workload.hybrid.order)
    if order[0] is Tier.ON_DEMAND:
        return Tier.ON_DEMAND, None
    lasting = [tier for tier in (Tier.ON_DEMAND, Tier.FLEX_START) if tier in order[1:]]
    sold = [tier for tier in lasting if found[tier] is not None]
    return order[0], next(iter(sold or lasting), None)


def _price(workload: WorkloadSpec, table: PriceTable, tier: Tier) -> Price | None:
    """The price of a tier; None if it is not sold, or the machine is a kind with no prices here."""
    machine, location = workload.machine_type, workload.cluster.location
    try:
        return table.find(machine, location, tier)
    except PriceUnknown:
        known = any(table.has(machine, location, other) for other in TIERS)
        is_unpriced = machine not in table.machines and _UNPRICED.fullmatch(machine)
        if not known and not is_unpriced:
            raise
    if not known:
        _check_region(location, table)
    return None


def _check_region(location: str, table: PriceTable) -> None:
    """Refuse a place that nobody knows, where no price of the machine would tell."""
    places = sorted({*REGIONS, *table.locations})
    if location in places or region_of(location) in places:
        return
    near = get_close_matches(region_of(location), places, n=3, cutoff=0.5)
    raise PriceUnknown(
        f"{location!r} is no region that is known here.",
        hint=f"Did you mean {', '.join(map(repr, near))}?" if near else "Such as us-central1.",
    )


def _why_not(workload: WorkloadSpec, assumptions: Assumptions, terms: Terms) -> str | None:
    """What forbids a tier, whatever it costs."""
    if terms.first is Tier.ON_DEMAND:
        return None
    if workload.kind is Kind.SERVING:
        return "Requests wait for no node."
    if terms.first is Tier.SPOT:
        if not workload.resumable:
            return "It cannot resume, so every eviction would start it anew."
        if not workload.interruptible:
            return "It must not be preempted."
    if terms.first is Tier.FLEX_START and not has_flex_start(workload):
        return "Flex-start has accelerators and h4d machines only."
    if outlives_lease(assumptions, terms):
        lease = format_duration(terms.lease_seconds)
        return f"It cannot resume, and takes longer than a flex-start node lives: {lease}."
    return None


def _not_sold(workload: WorkloadSpec, tier: Tier) -> str:
    place = workload.cluster.location
    return f"No {tier} price is known for {workload.machine_type} in {place}: it may not be sold."
