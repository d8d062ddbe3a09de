"""What the evicted run would have cost on Spot, compared with the baseline on demand.

Prices are data with a date and a source. Only time on a node counts, not the wait for one. Pure
except for the built-in prices, which are read once.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from outlast.capacity.pricing.prices import built_in_prices
from outlast.capacity.vocabulary import Tier
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import CheckResult
from outlast.drills.run.records import JobRun
from outlast.report.axes import Plot, Scale, framed, picture
from outlast.report.markup import Html, element, join
from outlast.report.page import note, paragraph, table

_HOUR_SECONDS = 3600
_BAR = 22.0
_ROW = 48.0


@dataclass(frozen=True, kw_only=True, slots=True)
class MachinePrices:
    """The prices of one machine per hour."""

    machine: str
    location: str
    on_demand: Decimal
    spot: Decimal
    currency: str
    date: date
    source: str

    def __post_init__(self) -> None:
        if not (self.on_demand > 0 and self.spot > 0):
            raise ValueError(
                f"Expected prices above 0, got {self.on_demand} (on demand) and {self.spot} (Spot)."
            )

    @classmethod
    def built_in(cls, machine: str, location: str) -> "MachinePrices":
        """The prices included in this version. Raises `PriceUnknown`."""
        on_demand = built_in_prices().find(machine, location, Tier.ON_DEMAND)
        return cls(
            machine=machine,
            location=location,
            on_demand=on_demand.amount,
            spot=built_in_prices().find(machine, location, Tier.SPOT).amount,
            currency=on_demand.currency,
            date=on_demand.date,
            source=on_demand.source,
        )


EXAMPLE_PRICES = MachinePrices.built_in("g2-standard-4", "us-central1")
"""A machine with one L4, used if no other prices are given."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunCost:
    """The cost of the same work on Spot and on demand. Seconds are total node time."""

    prices: MachinePrices
    baseline_seconds: float
    evicted_seconds: float

    @property
    def stretch(self) -> float:
        """The node time as a multiple of the baseline's."""
        return self.evicted_seconds / self.baseline_seconds

    @property
    def on_demand(self) -> Decimal:
        return self.prices.on_demand * Decimal(self.baseline_seconds) / _HOUR_SECONDS

    @property
    def spot(self) -> Decimal:
        return self.prices.spot * Decimal(self.evicted_seconds) / _HOUR_SECONDS

    @property
    def saved(self) -> float:
        """The share that Spot saves; negative if it costs more."""
        return 1 - float(self.spot / self.on_demand)

    @property
    def stretch_max(self) -> float:
        """The stretch at which Spot costs as much as on demand."""
        return float(self.prices.on_demand / self.prices.spot)


def cost_of(report: DrillReport, prices: MachinePrices) -> RunCost | None:
    """The cost; None without a baseline, or if the work was not finished."""
    is_unfinished = "finished" in report.names_with(CheckResult.FAIL)
    if report.evicted is None or report.figures is None or is_unfinished:
        return None
    baseline = report.figures.seconds * report.workers * (report.nodes or 1)
    if report.baseline is not None:
        baseline = _node_seconds(report.baseline)
    if not baseline > 0:
        return None
    evicted = _node_seconds(report.evicted)
    return RunCost(prices=prices, baseline_seconds=baseline, evicted_seconds=evicted)


def cost_section(report: DrillReport, prices: MachinePrices) -> Html | None:
    """The section; None if there is nothing to compare."""
    cost = cost_of(report, prices)
    if cost is None:
        return None
    return element(
        "section",
        element("h2", "Estimated cost"),
        paragraph(_sentence(cost)),
        _bars(cost),
        _table(cost),
        note(_small_print(report, cost)),
    )


def _node_seconds(job_run: JobRun) -> float:
    return sum(one.seconds * max(1, len(one.nodes)) for one in job_run.attempts)


def _sentence(cost: RunCost) -> str:
    share = f"{abs(cost.saved):.0%}"
    outcome = f"{share} less" if cost.saved >= 0 else f"{share} more"
    return (
        f"With these evictions, the work takes {cost.stretch:.2f} times the node time and costs"
        f" {outcome} on Spot than the baseline on demand. Spot is cheaper as long as this factor"
        f" stays below {cost.stretch_max:.2f}."
    )


def _bars(cost: RunCost) -> Html:
    """The price of one hour of baseline work in both cases."""
    per_hour = float(cost.prices.spot) * cost.stretch
    rows = [
        ("on demand, not evicted", float(cost.prices.on_demand), "baseline"),
        ("on Spot, evicted as in this drill", per_hour, "work"),
    ]
    high = max(value for _, value, _ in rows)
    height = _ROW * len(rows)
    plot = Plot(x=Scale(low=0, high=high * 1.25), y=Scale(low=0, high=1), height=height)
    parts = []
    for index, (label, value, name) in enumerate(rows):
        top = _ROW * index + 16
        amount = f"{cost.prices.currency} {value:.3f}"
        width = plot.width(0, value)
        parts += [
            plot.label(0, top - 5, label),
            element("rect", x=0, y=top, width=width, height=_BAR, class_=f"bar {name}"),
            plot.label(value, top + _BAR / 2 + 4, amount, dx=8),
        ]
    words = f"One hour of baseline work: {rows[0][1]:.3f} on demand, {per_hour:.3f} on Spot."
    drawn = framed(plot, *parts, description=words)
    return join([element("h3", "Cost of one hour of baseline work"), picture(drawn, class_="bare")])


def _table(cost: RunCost) -> Html:
    prices, currency = cost.prices, cost.prices.currency
    rows = [
        ("on demand, not evicted", cost.baseline_seconds, prices.on_demand, cost.on_demand),
        ("on Spot, evicted", cost.evicted_seconds, prices.spot, cost.spot),
    ]
    return table(
        ["capacity", "node time", f"{currency} per hour", f"{currency} in total"],
        [(name, _clock(seconds), price, _amount(amount)) for name, seconds, price, amount in rows],
        label="Cost",
    )


def _small_print(report: DrillReport, cost: RunCost) -> str:
    prices = cost.prices
    sentences = (
        f"Prices for one {prices.machine} in {prices.location} as of {prices.date.isoformat()}"
        f" ({prices.source}). Only time on a node counts, not the wait for one."
    )
    job_run = report.evicted
    if job_run is not None and job_run.evictions:
        apart = job_run.seconds / len(job_run.evictions)
        if apart < _HOUR_SECONDS / 6:
            sentences += (
                f" This drill evicted every {_clock(apart)}; in a cloud, evictions are hours"
            )
            sentences += " apart."
    return sentences


def _clock(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 2 * _HOUR_SECONDS:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / _HOUR_SECONDS:,.1f} h"


def _amount(amount: Decimal) -> str:
    """With two decimals, or three significant digits for small amounts."""
    return f"{amount:,.2f}" if amount >= 1 else f"{float(amount):.3g}"
