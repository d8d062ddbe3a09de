"""Plan a workload: which tier to use, what it costs and whether it meets its deadline.

Pure: a workload and prices in, a plan out. The same input and seed give the same plan.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from difflib import get_close_matches

from outlast._base.durations import format_duration
from outlast.capacity.google_cloud import REGIONS, region_of
from outlast.capacity.planning.assumptions import Assumptions, PlanError, PlanInput, assume
from outlast.capacity.planning.evaluation import (
    evaluate_tier,
    outlives_lease,
    uninterrupted_seconds,
)
from outlast.capacity.planning.frontier import FrontierPoint, ValueOfTime, cost_time_frontier
from outlast.capacity.planning.options import TierOption, TierTerms
from outlast.capacity.planning.plan_warnings import plan_warnings
from outlast.capacity.planning.recommendation import price_request, recommend
from outlast.capacity.pricing.prices import (
    Price,
    PriceTable,
    PriceUnknown,
    built_in_prices,
    check_currency,
)
from outlast.capacity.simulation.lifetimes import LifetimeDistribution
from outlast.capacity.vocabulary import Tier, WorkloadKind
from outlast.capacity.workload.spec import WorkloadSpec

RUNS = 10_000

_UNPRICED = re.compile(r"(e2|[cn][1-4][ad]?|t2[ad]|m[1-4]|h3|h4d|z3|x4)-[a-z0-9-]+", re.ASCII)
"""Machine families that exist but have no built-in price."""

TIERS = (Tier.SPOT, Tier.FLEX_START, Tier.ON_DEMAND, Tier.HYBRID)


@dataclass(frozen=True, kw_only=True, slots=True)
class CapacityPlan:
    """A recommended tier with its reasons. `options` has the evaluation of every tier.

    `replicas` is the number of Pods that work in parallel; a training run counts as one.
    """

    workload: str
    tier: Tier
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    options: tuple[TierOption, ...]
    inputs: tuple[PlanInput, ...]
    deadline: timedelta | None
    replicas: int
    runs: int
    seed: int
    value_of_time: ValueOfTime = field(default_factory=ValueOfTime)
    price_request: str | None = None
    """What to supply first, if the recommendation depends on an estimated price."""

    @property
    def frontier(self) -> tuple[FrontierPoint, ...]:
        """The tiers that no other tier beats in both cost and time, fastest first."""
        return cost_time_frontier(self.options)

    @property
    def chosen(self) -> TierOption:
        return next(option for option in self.options if option.tier is self.tier)

    @property
    def cost_expected(self) -> Decimal | None:
        """Expected cost of the recommended tier; None if no price is known."""
        return self.chosen.cost.expected if self.chosen.cost else None

    @property
    def save_every(self) -> timedelta | None:
        """The work between two saves on the recommended tier; None if nothing is saved."""
        return self.chosen.save_every

    @property
    def prices(self) -> tuple[Price, ...]:
        """The prices used by the plan."""
        pairs = ((option.price, option.fallback_price) for option in self.options)
        found = {price.key: price for pair in pairs for price in pair if price is not None}
        return tuple(found.values())


def plan(
    workload: WorkloadSpec,
    *,
    prices: PriceTable | None = None,
    now: datetime | None = None,
    bucket_location: str | None = None,
    lifetimes: LifetimeDistribution | None = None,
    spot_wait: timedelta | None = None,
    runs: int = RUNS,
    seed: int = 0,
) -> CapacityPlan:
    """Compare the tiers for a workload and recommend one.

    `now` is the reference for a deadline given as a date. `bucket_location` is the location of the
    checkpoint bucket, if known. `lifetimes` is the distribution of Spot node lifetimes (default:
    random losses), and `spot_wait` the mean wait for a Spot node; both override the workload.
    Raises `PlanError`, or `PriceUnknown` for an unknown machine type or location.
    """
    if seed < 0:
        raise PlanError(f"seed: expected a whole number of at least 0, got {seed!r}.")
    wait_seconds = spot_wait.total_seconds() if spot_wait is not None else None
    assumptions = assume(workload, lifetimes=lifetimes, spot_wait_seconds=wait_seconds)
    deadline = _deadline(workload, assumptions, now or datetime.now(UTC))
    deadline_seconds = deadline.total_seconds() if deadline else None
    table = prices if prices is not None else built_in_prices()
    options = tuple(
        evaluate_tier(assumptions, terms, deadline_seconds=deadline_seconds, runs=runs, seed=seed)
        for terms in tier_terms(workload, assumptions, table)
    )
    if workload.kind is WorkloadKind.SERVING:
        options = tuple(
            replace(option, finish=None, finish_distribution=None) for option in options
        )
    value = _value_of_time(workload)
    tier, reasons = recommend(workload, assumptions, options, deadline, value)
    chosen = next(option for option in options if option.tier is tier)
    return CapacityPlan(
        workload=workload.name,
        tier=tier,
        reasons=tuple(reasons),
        warnings=tuple(
            plan_warnings(
                workload,
                assumptions,
                chosen,
                options,
                bucket_location=bucket_location,
                value=value,
            )
        ),
        options=options,
        inputs=assumptions.inputs,
        deadline=deadline,
        replicas=assumptions.replicas,
        runs=runs,
        seed=seed,
        value_of_time=value,
        price_request=price_request(workload, options, value),
    )


def _value_of_time(workload: WorkloadSpec) -> ValueOfTime:
    if workload.value_of_time is None:
        return ValueOfTime()
    return ValueOfTime(per_hour=Decimal(f"{workload.value_of_time:.12g}"), is_given=True)


def _deadline(workload: WorkloadSpec, assumptions: Assumptions, now: datetime) -> timedelta | None:
    if now.utcoffset() is None:
        raise PlanError(
            f"now: expected a time with a time zone, got {now!r}.", hint="Pass datetime.now(UTC)."
        )
    deadline = workload.deadline
    if deadline is None or workload.kind is WorkloadKind.SERVING:
        return None
    left = deadline if isinstance(deadline, timedelta) else deadline - now
    left_seconds = max(0.0, left.total_seconds())
    least_seconds = uninterrupted_seconds(assumptions, Tier.ON_DEMAND)
    if left_seconds >= least_seconds:
        return left
    if left < timedelta(0):
        raise PlanError(f"The deadline {_when(left)}.", hint="Set a deadline in the future.")
    if left_seconds < assumptions.work_seconds:
        needed_seconds, words = assumptions.work_seconds, "the work alone"
    else:
        needed_seconds, words = least_seconds, "the work including startup and saves"
    raise PlanError(
        f"The deadline {_when(left)}, but {words} takes {format_duration(needed_seconds)}, "
        f"{format_duration(needed_seconds - left_seconds)} too long.",
        hint="Extend the deadline, or distribute the work over more nodes or Pods.",
    )


def _when(left: timedelta) -> str:
    span = format_duration(abs(left.total_seconds()))
    return f"was {span} ago" if left < timedelta(0) else f"is in {span}"


def tier_terms(
    workload: WorkloadSpec, assumptions: Assumptions, table: PriceTable
) -> Iterator[TierTerms]:
    """The terms of every tier for a workload, with the reason if one is not possible."""
    found: dict[Tier, Price | None] = {
        tier: _price(workload, table, tier) for tier in TIERS if tier is not Tier.HYBRID
    }
    check_currency(price for price in found.values() if price is not None)
    is_unpriced = all(price is None for price in found.values())
    for tier in TIERS:
        primary, fallback = (tier, None) if tier is not Tier.HYBRID else _mixed(workload, found)
        terms = TierTerms(
            tier=tier,
            primary=primary,
            fallback=fallback,
            lease_seconds=workload.max_run.total_seconds(),
            price=found[primary],
            fallback_price=found[fallback] if fallback else None,
        )
        why_not = _why_not(workload, assumptions, terms)
        if why_not is None and not is_unpriced and not terms.is_priced:
            missing = fallback if fallback and terms.price is not None else primary
            why_not = _not_sold(workload, missing)
        yield replace(terms, why_not=why_not)


def _mixed(workload: WorkloadSpec, found: dict[Tier, Price | None]) -> tuple[Tier, Tier | None]:
    """The primary tier of a hybrid, and its fallback when no nodes are available.

    On-demand nodes are assumed to be always available. Tiers that are not sold are skipped.
    """
    order = [
        tier
        for tier in workload.hybrid.order
        if tier is not Tier.FLEX_START or workload.has_flex_start
    ] or list(workload.hybrid.order)
    if order[0] is Tier.ON_DEMAND:
        return Tier.ON_DEMAND, None
    lasting = [tier for tier in (Tier.ON_DEMAND, Tier.FLEX_START) if tier in order[1:]]
    sold = [tier for tier in lasting if found[tier] is not None]
    return order[0], next(iter(sold or lasting), None)


def _price(workload: WorkloadSpec, table: PriceTable, tier: Tier) -> Price | None:
    """The price of a tier; None if it is not sold, or the machine family has no built-in prices."""
    machine, location = workload.machine_type, workload.cluster.location
    try:
        return table.find(machine, location, tier, attached=workload.attached)
    except PriceUnknown:
        known = any(table.has(machine, location, other) for other in TIERS)
        is_unpriced = machine not in table.machines and _UNPRICED.fullmatch(machine)
        if not known and not is_unpriced:
            raise
    if not known:
        _check_region(location, table)
    return None


def _check_region(location: str, table: PriceTable) -> None:
    """Refuse an unknown location of a machine that has no prices."""
    places = sorted({*REGIONS, *table.locations})
    if location in places or region_of(location) in places:
        return
    near = get_close_matches(region_of(location), places, n=3, cutoff=0.5)
    raise PriceUnknown(
        f"Unknown region {location!r}.",
        hint=f"Did you mean {', '.join(map(repr, near))}?"
        if near
        else "Use a region such as us-central1.",
    )


def _why_not(workload: WorkloadSpec, assumptions: Assumptions, terms: TierTerms) -> str | None:
    """Why a tier is not possible, regardless of its cost; None if it is."""
    if terms.primary is Tier.ON_DEMAND:
        return _over_quota(workload, "on-demand", "", workload.cluster.quota.on_demand)
    if workload.kind is WorkloadKind.SERVING:
        return "Requests cannot wait for a node."
    over = _over_quota(
        workload,
        "preemptible",
        ", which Spot and flex-start use,",
        workload.cluster.quota.preemptible,
    )
    if over is not None:
        return over
    if terms.primary is Tier.SPOT:
        if not workload.resumable:
            return "It cannot resume, so every eviction would restart it from the beginning."
        if not workload.interruptible:
            return "It must not be preempted."
    if terms.primary is Tier.FLEX_START and not workload.has_flex_start:
        return "Flex-start offers only machines with accelerators and h4d machines."
    if outlives_lease(assumptions, terms):
        lease = format_duration(terms.lease_seconds)
        return f"It cannot resume and runs longer than a flex-start node lives, {lease}."
    return None


def _over_quota(workload: WorkloadSpec, name: str, use: str, quota: int | None) -> str | None:
    """Why a quota is too small even for one Pod, or for all nodes of a training run at once."""
    per_node = workload.accelerator.count if workload.accelerator else 0
    is_training = workload.kind is WorkloadKind.TRAINING
    needed = workload.accelerators_total if is_training else per_node
    if quota is None or quota >= needed:
        return None
    needs = "" if quota == 0 else f", but {needed} accelerators are needed at once"
    return f"The {name} quota{use} is {quota}{needs}."


def _not_sold(workload: WorkloadSpec, tier: Tier) -> str:
    place = workload.cluster.location
    return (
        f"No {tier} price is known for {workload.machine_type} in {place}. "
        "It may not be available there."
    )
