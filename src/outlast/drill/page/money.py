"""What the drilled run would have cost on Spot, against on-demand and undisturbed.

Prices are data with a date and a source. Only the time of nodes is counted, not what it takes to
get one. Pure but for the built-in prices, which are read once.
"""

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from outlast.capacity.price import built_in_prices
from outlast.capacity.vocabulary import Tier
from outlast.drill.page.axes import Plot, Scale
from outlast.drill.page.markup import Html, element, join, prose
from outlast.drill.records import Leg
from outlast.drill.report import Report

_HOUR_SECONDS = 3600
_BAR = 22.0
_ROW = 48.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Prices:
    """What one machine costs by the hour."""

    machine: str
    location: str
    on_demand: Decimal
    spot: Decimal
    currency: str
    date: date
    source: str

    def __post_init__(self) -> None:
        if not (self.on_demand > 0 and self.spot > 0):
            raise ValueError(f"Prices are above 0; {self.on_demand} and {self.spot} are given.")

    @classmethod
    def built_in(cls, machine: str, location: str) -> "Prices":
        """Those that come with this version. Raises `PriceUnknown`."""
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


EXAMPLE = Prices.built_in("g2-standard-4", "us-central1")
"""A machine with one L4, for those who have not said which one they would take."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cost:
    """Both ways to pay for the same work. Seconds are those of nodes, summed up."""

    prices: Prices
    calm_seconds: float
    evicted_seconds: float

    @property
    def stretch(self) -> float:
        """How many times the node time of an undisturbed run it took."""
        return self.evicted_seconds / self.calm_seconds

    @property
    def on_demand(self) -> Decimal:
        return self.prices.on_demand * Decimal(self.calm_seconds) / _HOUR_SECONDS

    @property
    def spot(self) -> Decimal:
        return self.prices.spot * Decimal(self.evicted_seconds) / _HOUR_SECONDS

    @property
    def saved(self) -> float:
        """The share that Spot saves; below 0 if it costs more."""
        return 1 - float(self.spot / self.on_demand)

    @property
    def stretch_max(self) -> float:
        """How much longer a run may take on Spot before it costs as much."""
        return float(self.prices.on_demand / self.prices.spot)


def cost_of(report: Report, prices: Prices) -> Cost | None:
    """The cost; None without a baseline, and where the work was never done."""
    is_finished = all(one.ok for one in report.verdicts if one.code == "not-finished")
    if report.disturbed is None or report.figures is None or not is_finished:
        return None
    calm = report.figures.seconds * report.workers
    if report.baseline is not None:
        calm = _node_seconds(report.baseline)
    if not calm > 0:
        return None
    evicted = _node_seconds(report.disturbed)
    return Cost(prices=prices, calm_seconds=calm, evicted_seconds=evicted)


def money(report: Report, prices: Prices) -> Html | None:
    """The section; None if there is nothing to compare."""
    cost = cost_of(report, prices)
    if cost is None:
        return None
    return element(
        "section",
        element("h2", "What it would have cost"),
        element("p", prose(_said(cost))),
        _bars(cost),
        _table(cost),
        element("p", prose(_small_print(report, cost)), class_="note"),
    )


def _node_seconds(leg: Leg) -> float:
    return sum(one.seconds for one in leg.attempts)


def _said(cost: Cost) -> str:
    share = f"{abs(cost.saved):.0%}"
    outcome = f"{share} less" if cost.saved >= 0 else f"{share} more"
    return (
        f"Evicted like this, the work takes {cost.stretch:.2f} times the node time and costs"
        f" {outcome} on Spot than undisturbed on demand. Spot is the cheaper one as long as that"
        f" factor stays below {cost.stretch_max:.2f}."
    )


def _bars(cost: Cost) -> Html:
    """Both prices of one hour of undisturbed work."""
    per_hour = float(cost.prices.spot) * cost.stretch
    rows = [
        ("on demand, undisturbed", float(cost.prices.on_demand), "calm"),
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
            plot.said(0, top - 5, label),
            element("rect", x=0, y=top, width=width, height=_BAR, class_=f"bar {name}"),
            plot.said(value, top + _BAR / 2 + 4, amount, dx=8),
        ]
    words = f"One hour of undisturbed work: {rows[0][1]:.3f} on demand, {per_hour:.3f} on Spot."
    drawn = element("svg", *parts, class_="plot", height=height, role="img", aria_label=words)
    title = element("h3", "One hour of undisturbed work")
    return join([title, element("div", drawn, class_="chart bare")])


def _table(cost: Cost) -> Html:
    currency = cost.prices.currency
    head = ["bought", "node time", f"{currency} an hour", f"{currency} in all"]
    rows = [
        ("on demand, undisturbed", cost.calm_seconds, cost.prices.on_demand, cost.on_demand),
        ("on Spot, evicted", cost.evicted_seconds, cost.prices.spot, cost.spot),
    ]
    lines = [
        element(
            "tr",
            element("th", name, scope="row"),
            element("td", _clock(seconds), class_="n"),
            element("td", price, class_="n"),
            element("td", _amount(amount), class_="n"),
        )
        for name, seconds, price, amount in rows
    ]
    heads = [
        element("th", one, scope="col", class_="n" if at else None) for at, one in enumerate(head)
    ]
    table = element("table", element("thead", element("tr", *heads)), element("tbody", *lines))
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label="Cost")


def _small_print(report: Report, cost: Cost) -> str:
    prices = cost.prices
    said = (
        f"Prices of one {prices.machine} in {prices.location} on {prices.date.isoformat()}"
        f" ({prices.source}). Only time on a node is counted, not waiting for one."
    )
    leg = report.disturbed
    if leg is not None and leg.evictions:
        apart = leg.seconds / len(leg.evictions)
        if apart < _HOUR_SECONDS / 6:
            said += f" This drill evicted every {_clock(apart)}; clouds do so hours apart."
    return said


def _clock(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    if seconds < 2 * _HOUR_SECONDS:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / _HOUR_SECONDS:,.1f} h"


def _amount(amount: Decimal) -> str:
    """With three digits that count, however small."""
    return f"{amount:,.2f}" if amount >= 1 else f"{float(amount):.3g}"
