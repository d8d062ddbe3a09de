"""Plan the same workload for many values of one key.

Pure. A range such as `checkpoint.size=1GiB..100GiB` becomes geometrically spaced values, in the
unit of the key; a list such as `nodes=1,2,4` or `tier=spot,hybrid` is used as given. A value that
cannot be planned keeps its row, with the reason.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from outlast.capacity.planning.plan import TIERS, CapacityPlan
from outlast.capacity.pricing.prices import check_currency
from outlast.capacity.workload.quantities import parse_exact_duration, parse_size
from outlast.errors import OutlastError
from outlast.report import page
from outlast.report.charts import Chart, Line, lines_chart

POINTS = 9
VALUES_MAX = 50
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)


class SweepError(OutlastError):
    """A parameter sweep is invalid."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SweepPoint:
    """One value of a sweep, as written in the workload file and as a number for the chart.

    The number of a word is its index in the list.
    """

    text: str
    number: float


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterSweep:
    """A key and its values. `unit` is empty for words and plain numbers."""

    key: str
    unit: str
    points: tuple[SweepPoint, ...]
    is_words: bool = False


PlanOrError = CapacityPlan | OutlastError
"""The result for one value: a plan, or why there is none."""


def parse_sweep(text: str) -> ParameterSweep:
    """Parse a sweep such as `checkpoint.size=1GiB..100GiB` or `nodes=1,2,4`."""
    key, equals, values = text.partition("=")
    low, dots, high = values.partition("..")
    words = [low, high] if dots else values.split(",")
    if not equals or not key.strip() or not all(word.strip() for word in words):
        raise SweepError(
            f"--sweep: expected key=from..to or key=a,b,c, got {text!r}.",
            hint="For example: --sweep checkpoint.size=1GiB..100GiB.",
        )
    if len(words) > VALUES_MAX:
        raise SweepError(f"--sweep: expected at most {VALUES_MAX} values, got {len(words)}.")
    words = [word.strip() for word in words]
    kind = _unit_of(words)
    if kind is None and dots:
        raise SweepError(
            f"--sweep: expected two numbers, sizes or durations, got {low!r} and {high!r}.",
            hint="For example: --sweep work.hours=10..100 or --sweep deadline=40h..80h.",
        )
    if kind is None:
        points = [SweepPoint(text=word, number=index) for index, word in enumerate(words)]
        return ParameterSweep(key=key.strip(), unit="", points=tuple(points), is_words=True)
    unit, read, write = kind
    if dots:
        words = _between(words[0], words[1], read, write)
    points = [SweepPoint(text=word, number=read(word)) for word in words]
    return ParameterSweep(key=key.strip(), unit=unit, points=tuple(points))


def plan_points(
    sweep: ParameterSweep, plan_for: Callable[[dict[str, str]], CapacityPlan]
) -> list[PlanOrError]:
    """The plan for each value, or the error.

    If no value can be planned, raises the error of the first one.
    """
    planned: list[PlanOrError] = []
    for point in sweep.points:
        try:
            planned.append(plan_for({sweep.key: point.text}))
        except OutlastError as error:
            planned.append(error)
    if isinstance(planned[0], OutlastError) and not _plans(planned):
        raise planned[0]
    check_currency(price for plan in _plans(planned) for price in plan.prices)
    return planned


def sweep_json(sweep: ParameterSweep, planned: Sequence[PlanOrError]) -> dict[str, object]:
    """The sweep as JSON: the values and the plan for each."""
    return {
        "key": sweep.key,
        "points": [
            {"value": point.text, **_planned_json(one)}
            for point, one in zip(sweep.points, planned, strict=True)
        ],
    }


def sweep_head(sweep: ParameterSweep) -> tuple[str, ...]:
    """The column names of `sweep_rows`; the first two columns are text."""
    return (sweep.key, "recommended", *(tier.value for tier in TIERS))


def sweep_rows(sweep: ParameterSweep, planned: Sequence[PlanOrError]) -> list[tuple[str, ...]]:
    """One row per value: the recommended tier and the cost of each tier."""
    rows = []
    for point, one in zip(sweep.points, planned, strict=True):
        if isinstance(one, OutlastError):
            rows.append((point.text, "not possible", *("-" for _ in TIERS)))
            continue
        costs = {option.tier: option.cost for option in one.options if option.is_possible}
        cells = (costs.get(tier) for tier in TIERS)
        rows.append((point.text, one.tier.value, *(f"{c.expected:,}" if c else "-" for c in cells)))
    return rows


def sweep_notes(sweep: ParameterSweep, planned: Sequence[PlanOrError]) -> list[str]:
    """Why some values have no plan, as sentences."""
    return [
        f"{sweep.key}={point.text}: {one}"
        for point, one in zip(sweep.points, planned, strict=True)
        if isinstance(one, OutlastError)
    ]


def sweep_chart(sweep: ParameterSweep, planned: Sequence[PlanOrError]) -> Chart:
    """The expected cost of each tier over the values; the time to finish if no price is known."""
    xs = [point.number for point in sweep.points]
    is_log = min(xs) > 0 and max(xs) / min(xs) >= 10
    prices = [price for plan in _plans(planned) for price in plan.prices]
    lines = [
        Line(label=tier.value, xs=xs, ys=[_height(one, index, bool(prices)) for one in planned])
        for index, tier in enumerate(TIERS)
    ]
    return lines_chart(
        "Expected cost" if prices else "Time to finish",
        lines,
        x_unit=f"{sweep.key}, {sweep.unit}" if sweep.unit else sweep.key,
        y_unit=prices[0].currency if prices else "hours",
        is_log=is_log,
        names=[point.text for point in sweep.points] if sweep.is_words else (),
    )


def sweep_parts(sweep: ParameterSweep, planned: Sequence[PlanOrError]) -> list[str]:
    """The sweep as parts of an HTML page."""
    return [
        page.heading(f"Sweep of {sweep.key}"),
        sweep_chart(sweep, planned).as_html(),
        page.table(sweep_head(sweep), sweep_rows(sweep, planned), words=2),
        *(page.note(note) for note in sweep_notes(sweep, planned)),
    ]


def _plans(planned: Sequence[PlanOrError]) -> list[CapacityPlan]:
    return [one for one in planned if isinstance(one, CapacityPlan)]


def _planned_json(one: PlanOrError) -> dict[str, object]:
    if isinstance(one, OutlastError):
        return {"tier": None, "why_not": str(one), "options": []}
    return {
        "tier": one.tier.value,
        "why_not": None,
        "options": [
            {
                "tier": option.tier.value,
                "possible": option.is_possible,
                "cost": float(option.cost.expected) if option.cost else None,
                "finish_seconds": option.finish.p50.total_seconds() if option.finish else None,
                "chance": option.chance,
            }
            for option in one.options
        ],
    }


def _height(one: PlanOrError, index: int, by_cost: bool) -> float:
    if isinstance(one, OutlastError) or not one.options[index].is_possible:
        return math.nan
    option = one.options[index]
    if by_cost:
        return float(option.cost.expected) if option.cost else math.nan
    return option.finish.p50.total_seconds() / 3600 if option.finish else math.nan


_Reader = Callable[[str], float]
_Writer = Callable[[float], str]


def _unit_of(words: Sequence[str]) -> tuple[str, _Reader, _Writer] | None:
    """How to parse and format the values as numbers; None for words."""
    if all(_NUMBER.fullmatch(word) for word in words):
        is_whole = all("." not in word for word in words)
        return "", float, (lambda number: str(round(number))) if is_whole else _write_plain
    for unit, read, write in _UNITS:
        try:
            for word in words:
                read(word)
        except ValueError:
            continue
        return unit, read, write
    return None


def _between(low: str, high: str, read: _Reader, write: _Writer) -> list[str]:
    """Geometrically spaced values from `low` to `high`, both included as given, none twice."""
    first, last = read(low), read(high)
    if not 0 < first < last:
        raise SweepError(f"--sweep: expected an increasing range above 0, got '{low}..{high}'.")
    ratios = ((last / first) ** (index / (POINTS - 1)) for index in range(1, POINTS - 1))
    middle = dict.fromkeys(write(first * ratio) for ratio in ratios)
    return [low, *(word for word in middle if first < read(word) < last), high]


def _write_plain(number: float) -> str:
    return f"{Decimal(f'{number:.4g}'):f}"


def _read_gib(text: str) -> float:
    return parse_size(text) / 1024**3


def _write_gib(number: float) -> str:
    count = number * 1024**3
    for power, prefix in ((3, "G"), (2, "M"), (1, "K")):
        if count >= 10 * 1024**power:
            return f"{round(count / 1024**power)}{prefix}iB"
    return f"{max(1, round(count))}B"


def _read_hours(text: str) -> float:
    return parse_exact_duration(text).total_seconds() / 3600


def _write_hours(number: float) -> str:
    """To about one percent, and in whole seconds from 10 s on, which some keys require."""
    seconds = number * 3600
    if seconds < 10:
        return f"{max(1, round(seconds * 1000))}ms"
    if seconds < 600:
        return f"{round(seconds)}s"
    return f"{round(number * 60, 1):g}m" if number < 1 else f"{round(number, 2):g}h"


_UNITS: tuple[tuple[str, _Reader, _Writer], ...] = (
    ("GiB", _read_gib, _write_gib),
    ("hours", _read_hours, _write_hours),
)
