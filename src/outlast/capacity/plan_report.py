"""A plan as JSON for programs, as a table for terminals, and as one HTML page. Pure."""

import math
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from outlast._base.durations import format_duration
from outlast.capacity import page
from outlast.capacity.drawing import Row, rows_chart
from outlast.capacity.options import Option
from outlast.capacity.plan import TIERS, Plan
from outlast.capacity.price import Price
from outlast.capacity.spread import Spread
from outlast.capacity.vocabulary import Tier

HEAD = ("tier", "cost", "p95", "done", "p95", "in time", "redone", "waiting", "save every", "")
_BINS = 60


def plan_json(plan: Plan) -> dict[str, object]:
    """The plan for programs. Money is a number with two decimals; durations are in seconds."""
    return {
        "workload": plan.workload,
        "tier": plan.tier.value,
        "reasons": list(plan.reasons),
        "warnings": list(plan.warnings),
        "options": [_option_json(option) for option in plan.options],
        "cost_expected": _money(plan.cost_expected),
        "save_every_seconds": _seconds(plan.save_every),
        "pods": plan.crews,
        "deadline_seconds": _seconds(plan.deadline),
        "assumptions": [
            {"name": one.name, "value": one.text, "origin": one.origin.value}
            for one in plan.figures
        ],
        "prices": [_price_json(price) for price in plan.prices],
        "runs": plan.runs,
        "seed": plan.seed,
    }


def table_rows(plan: Plan) -> list[tuple[str, ...]]:
    """One row for each tier, in the columns of `HEAD`."""
    return [_table_row(option) for option in plan.options]


def plan_page(plan: Plan, *, extra: Sequence[str] = ()) -> str:
    """The plan as a page; `extra` is HTML that follows the figures."""
    chosen = next(n for n, option in enumerate(plan.options) if option.tier is plan.tier)
    parts = [page.paragraph(f"Take {plan.tier}."), page.listing(plan.reasons)]
    if plan.warnings:
        parts += [page.heading("Before you start"), page.listing(plan.warnings)]
    parts += [
        page.heading("The tiers compared"),
        page.table(HEAD[:-1], [row[:-1] for row in table_rows(plan)], chosen=chosen),
        page.note(
            f"From up to {plan.runs:,} simulated runs for each tier, seed {plan.seed}. p95: all "
            f"but one run in twenty stay below. Redone and waiting are means{per_pod(plan)}."
        ),
        *_ruled_out(plan),
        *_charts(plan),
        *extra,
        page.heading("What this rests on"),
        page.table(
            ("figure", "value", "origin"),
            [(one.name, one.text, one.origin.value) for one in plan.figures],
            words=3,
        ),
        page.note("`outlast learn` turns assumed figures into measured ones."),
        page.table(
            ("price of", "tier", "place", "date", "source", "per hour"),
            [_price_row(price) for price in plan.prices],
            words=5,
        ),
    ]
    return page.page(f"{plan.workload}: which capacity", parts)


def per_pod(plan: Plan) -> str:
    """Whose waste is told, where many work side by side."""
    return f" for one of {plan.crews:,} Pods" if plan.crews > 1 else ""


def _ruled_out(plan: Plan) -> list[str]:
    told = [f"{one.tier}: {one.why_not}" for one in plan.options if one.why_not is not None]
    return [page.listing(told)] if told else []


def _charts(plan: Plan) -> list[str]:
    charts = []
    costs = [
        (option.tier, option.cost_spread)
        for option in plan.options
        if option.cost_spread is not None
    ]
    if costs:
        currency = plan.prices[0].currency
        charts.append(_rows("What it costs", costs, unit=currency))
    finishes = [
        (option.tier, option.finish_spread)
        for option in plan.options
        if option.finish_spread is not None
    ]
    if finishes:
        charts.append(_rows("When it is done", finishes, unit="hours", divisor=3600))
    return charts


def _rows(
    title: str, spreads: Sequence[tuple[Tier, Spread]], *, unit: str, divisor: float = 1.0
) -> str:
    low = min(spread.quantile(0.001) for _, spread in spreads)
    high = max(spread.quantile(0.999) for _, spread in spreads)
    margin = (high - low) * 0.02 or high * 0.02
    low, high = max(0.0, low - margin), high + margin
    edges = [low + (high - low) * index / _BINS for index in range(_BINS + 1)]
    rows = [
        Row(
            label=tier.value,
            colour=TIERS.index(tier),
            edges=[edge / divisor for edge in edges],
            counts=spread.histogram(edges),
            mark=spread.quantile(0.5) / divisor,
        )
        for tier, spread in spreads
    ]
    return rows_chart(title, rows, unit=unit)


def _table_row(option: Option) -> tuple[str, ...]:
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
        option.why_not or "",
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


def _option_json(option: Option) -> dict[str, object]:
    cost, finish, waste = option.cost, option.finish, option.waste
    return {
        "tier": option.tier.value,
        "possible": option.is_possible,
        "why_not": option.why_not,
        "cost": cost
        and {
            "expected": _money(cost.expected),
            "p5": _money(cost.p5),
            "p50": _money(cost.p50),
            "p95": _money(cost.p95),
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
        "waste": waste
        and {
            "redone_hours": _rounded(waste.redone_hours),
            "save_hours": _rounded(waste.save_hours),
            "restart_hours": _rounded(waste.restart_hours),
            "wait_hours": _rounded(waste.wait_hours),
            "share": _rounded(waste.share),
        },
        "save_every_seconds": _seconds(option.save_every),
        "saves": option.saves,
        "interruptions": _rounded(option.interruptions),
        "fallback_share": _rounded(option.fallback_share),
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
    # The shortest decimal of the float is the amount itself, so the text in the JSON is exact.
    return None if amount is None else float(amount)


def _seconds(duration: timedelta | None) -> float | None:
    return None if duration is None else duration.total_seconds()


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 4)


def _span(duration: timedelta) -> str:
    return format_duration(duration.total_seconds())
