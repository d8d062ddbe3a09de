"""A plan as JSON, as a text table and as an HTML page. Pure."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from decimal import Decimal

from outlast._base.durations import format_duration
from outlast.capacity.planning.frontier import FrontierPoint
from outlast.capacity.planning.options import TierOption
from outlast.capacity.planning.plan import TIERS, CapacityPlan
from outlast.capacity.pricing.prices import Price
from outlast.capacity.simulation.simulate import QuantileSketch
from outlast.capacity.vocabulary import Tier
from outlast.report import page
from outlast.report.charts import Distribution, distribution_chart

HEAD = (
    "tier", "cost", "p95 cost", "finish", "p95 finish", "on time", "redone", "waiting",
    "save every",
)  # fmt: skip
_BINS = 60


def plan_json(plan: CapacityPlan) -> dict[str, object]:
    """The plan as JSON. Money is a number with two decimals; durations are in seconds."""
    return {
        "workload": plan.workload,
        "tier": plan.tier.value,
        "reasons": list(plan.reasons),
        "warnings": list(plan.warnings),
        "options": [_option_json(option) for option in plan.options],
        "price_request": plan.price_request,
        "value_of_time": {
            "per_hour": float(plan.value_of_time.per_hour),
            "is_given": plan.value_of_time.is_given,
        },
        "frontier": [_frontier_json(point) for point in plan.frontier],
        "cost_expected": _money(plan.cost_expected),
        "save_every_seconds": _seconds(plan.save_every),
        "pods": plan.replicas,
        "deadline_seconds": _seconds(plan.deadline),
        "assumptions": [
            {"name": one.name, "value": one.text, "origin": one.origin.value} for one in plan.inputs
        ],
        "prices": [_price_json(price) for price in plan.prices],
        "runs": plan.runs,
        "seed": plan.seed,
    }


FRONTIER_HEAD = ("tier", "finish", "cost", "saves", "finishes later", "saved per hour")


def frontier_rows(plan: CapacityPlan) -> list[tuple[str, ...]]:
    """One row per tier on the frontier, fastest first, with the columns `FRONTIER_HEAD`."""
    return [
        (
            point.tier.value,
            _span(point.finish),
            f"{point.cost:,}{' (estimate)' if point.is_estimate else ''}",
            "-" if point.saved is None else f"{point.saved:,}",
            "-" if point.delay is None else _span(point.delay),
            "-" if point.saved_per_hour is None else f"{point.saved_per_hour:,}",
        )
        for point in plan.frontier
    ]


def frontier_note(plan: CapacityPlan) -> str:
    """The value of time that the rows of the frontier compare with."""
    value = plan.value_of_time
    origin = "as given" if value.is_given else "assumed; set value_of_time or --value-of-time"
    return f"Value of time: {value.per_hour:,} {plan.prices[0].currency} per hour ({origin})."


def table_rows(plan: CapacityPlan) -> list[tuple[str, ...]]:
    """One row per tier, with the columns `HEAD`."""
    return [_table_row(option) for option in plan.options]


def plan_page(plan: CapacityPlan, *, extra: Sequence[str] = ()) -> str:
    """The plan as an HTML page; `extra` is HTML to insert after the charts."""
    chosen = next(n for n, option in enumerate(plan.options) if option.tier is plan.tier)
    parts: list[str] = [
        page.paragraph(f"Recommended tier: {plan.tier}"),
        page.listing(plan.reasons),
    ]
    if plan.warnings:
        parts += [page.heading("Warnings"), page.listing(plan.warnings)]
    parts += [
        page.heading("Tier comparison"),
        page.table(HEAD, table_rows(plan), chosen=chosen),
        page.note(
            f"Based on up to {plan.runs:,} simulated runs per tier, seed {plan.seed}. p95: 95% of "
            f"runs stay below this value. Redone and waiting are averages{per_pod(plan)}."
        ),
        *_ruled_out(plan),
        *_frontier(plan),
        *_charts(plan),
        *extra,
        page.heading("Inputs and prices"),
        page.table(
            ("input", "value", "origin"),
            [(one.name, one.text, one.origin.value) for one in plan.inputs],
            words=3,
        ),
        page.note("Run `outlast learn` to replace assumptions with measurements."),
        page.table(
            ("machine", "tier", "location", "date", "source", "per hour"),
            [_price_row(price) for price in plan.prices],
            words=5,
        ),
    ]
    return page.page(f"Capacity plan for {plan.workload}", parts)


def per_pod(plan: CapacityPlan) -> str:
    """A note that averages are per Pod, if many work in parallel."""
    return f" for one of {plan.replicas:,} Pods" if plan.replicas > 1 else ""


def _frontier(plan: CapacityPlan) -> list[str]:
    if len(plan.frontier) < 2:
        return []
    return [
        page.heading("Cost against time"),
        page.table(FRONTIER_HEAD, frontier_rows(plan)),
        page.note(frontier_note(plan)),
    ]


def _ruled_out(plan: CapacityPlan) -> list[str]:
    reasons = [f"{one.tier}: {one.why_not}" for one in plan.options if one.why_not is not None]
    return [page.listing(reasons)] if reasons else []


def _charts(plan: CapacityPlan) -> list[str]:
    charts = []
    costs = [
        (option.tier, option.cost_distribution)
        for option in plan.options
        if option.cost_distribution is not None
    ]
    if costs:
        currency = plan.prices[0].currency
        charts.append(_rows("Cost", costs, unit=currency))
    finishes = [
        (option.tier, option.finish_distribution)
        for option in plan.options
        if option.finish_distribution is not None
    ]
    if finishes:
        charts.append(_rows("Time to finish", finishes, unit="hours", divisor=3600))
    return charts


def _rows(
    title: str, spreads: Sequence[tuple[Tier, QuantileSketch]], *, unit: str, divisor: float = 1.0
) -> str:
    low = min(spread.quantile(0.001) for _, spread in spreads)
    high = max(spread.quantile(0.999) for _, spread in spreads)
    margin = (high - low) * 0.02 or high * 0.02
    low, high = max(0.0, low - margin), high + margin
    edges = [low + (high - low) * index / _BINS for index in range(_BINS + 1)]
    rows = [
        Distribution(
            label=tier.value,
            color=TIERS.index(tier),
            edges=[edge / divisor for edge in edges],
            counts=spread.histogram(edges),
            median=spread.quantile(0.5) / divisor,
        )
        for tier, spread in spreads
    ]
    return distribution_chart(title, rows, unit=unit).as_html()


def _table_row(option: TierOption) -> tuple[str, ...]:
    cost, finish, waste = option.cost, option.finish, option.waste
    estimate = " (estimate)" if option.is_estimate else ""
    return (
        option.tier.value,
        f"{cost.expected:,} {cost.currency}{estimate}" if cost else "-",
        f"{cost.p95:,}" if cost else "-",
        _span(finish.p50) if finish else "-",
        _span(finish.p95) if finish else "-",
        "-" if option.chance is None else f"{option.chance:.1%}",
        f"{waste.redone_hours:.1f} h" if waste else "-",
        f"{waste.wait_hours:.1f} h" if waste else "-",
        _span(option.save_every) if option.save_every else "-",
    )


def _price_row(price: Price) -> tuple[str, ...]:
    return (
        price.machine,
        price.tier,
        price.location,
        price.date.isoformat(),
        price.source,
        f"{price.amount.normalize():f} {price.currency}",
    )


def _option_json(option: TierOption) -> dict[str, object]:
    cost, finish, waste = option.cost, option.finish, option.waste
    return {
        "tier": option.tier.value,
        "possible": option.is_possible,
        "why_not": option.why_not,
        "cost": cost
        and {
            **{name: _money(getattr(cost, name)) for name in ("expected", "p5", "p50", "p95")},
            "currency": cost.currency,
            "is_estimate": option.is_estimate,
        },
        "finish": finish
        and {
            "p5_seconds": _seconds(finish.p5),
            "p50_seconds": _seconds(finish.p50),
            "p95_seconds": _seconds(finish.p95),
        },
        "chance": option.chance,
        "waste": waste and {name: _rounded(value) for name, value in asdict(waste).items()},
        "save_every_seconds": _seconds(option.save_every),
        "saves": option.saves,
        "interruptions": _rounded(option.interruptions),
        "fallback_share": _rounded(option.fallback_share),
    }


def _frontier_json(point: FrontierPoint) -> dict[str, object]:
    return {
        "tier": point.tier.value,
        "finish_seconds": _seconds(point.finish),
        "cost": _money(point.cost),
        "is_estimate": point.is_estimate,
        "saved": _money(point.saved),
        "delay_seconds": _seconds(point.delay),
        "saved_per_hour": _money(point.saved_per_hour),
    }


def _price_json(price: Price) -> dict[str, object]:
    return {
        "machine": price.machine,
        "tier": price.tier,
        "location": price.location,
        "per_hour": f"{price.amount.normalize():f}",
        "currency": price.currency,
        "date": price.date.isoformat(),
        "source": price.source,
        "is_estimate": price.is_estimate,
    }


def _money(amount: Decimal | None) -> float | None:
    # The shortest representation of the float is the amount itself, so the JSON is exact.
    return None if amount is None else float(amount)


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 4)


def _span(duration: timedelta) -> str:
    return format_duration(duration.total_seconds())
