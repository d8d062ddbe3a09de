"""What if: the same workload planned for many values of one key.

Pure. A range such as `checkpoint.size=1GiB..100GiB` becomes values at even ratios between its ends,
in the unit that the key takes; a list such as `nodes=1,2,4` or `tier=spot,hybrid` is taken as it
is. A value for which nothing can be planned keeps its row, with the reason.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from outlast.capacity import page
from outlast.capacity.drawing import Line, lines_chart
from outlast.capacity.plan import TIERS, Plan
from outlast.capacity.price import check_currency
from outlast.capacity.quantities import parse_exact_duration, parse_size
from outlast.errors import OutlastError

POINTS = 9
VALUES_MAX = 50
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)


class SweepError(OutlastError):
    """A sweep cannot be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One value of a sweep, as the workload file takes it, and as a number to draw.

    The number of a word is its place in the list, from 0.
    """

    text: str
    number: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """A key and its values. `unit` names what the numbers are, if they are not words."""

    key: str
    unit: str
    points: tuple[Point, ...]
    is_words: bool = False


Planned = Plan | OutlastError
"""What came of one value: a plan, or why there is none."""


def parse_sweep(text: str) -> Sweep:
    """A sweep such as `checkpoint.size=1GiB..100GiB` or `nodes=1,2,4`."""
    key, equals, values = text.partition("=")
    low, dots, high = values.partition("..")
    words = [low, high] if dots else values.split(",")
    if not equals or not key.strip() or not all(word.strip() for word in words):
        raise SweepError(
            f"--sweep takes key=from..to or key=a,b,c, and {text!r} is not that.",
            hint="For example: --sweep checkpoint.size=1GiB..100GiB.",
        )
    if len(words) > VALUES_MAX:
        raise SweepError(f"A sweep has at most {VALUES_MAX} values, and this one {len(words)}.")
    words = [word.strip() for word in words]
    kind = _unit_of(words)
    if kind is None and dots:
        raise SweepError(
            f"{words[0]!r} and {words[1]!r} are not two numbers, sizes or durations.",
            hint="For example: --sweep work.hours=10..100 or --sweep deadline=40h..80h.",
        )
    if kind is None:
        points = [Point(text=word, number=index) for index, word in enumerate(words)]
        return Sweep(key=key.strip(), unit="", points=tuple(points), is_words=True)
    unit, read, write = kind
    if dots:
        words = _between(words[0], words[1], read, write)
    points = [Point(text=word, number=read(word)) for word in words]
    return Sweep(key=key.strip(), unit=unit, points=tuple(points))


def plan_points(sweep: Sweep, plan_for: Callable[[dict[str, str]], Plan]) -> list[Planned]:
    """The plan for each value, or why there is none.

    Raises what stood against the first value if it, or something else, stands against them all.
    """
    planned: list[Planned] = []
    for point in sweep.points:
        try:
            planned.append(plan_for({sweep.key: point.text}))
        except OutlastError as error:
            planned.append(error)
    if isinstance(planned[0], OutlastError) and not _plans(planned):
        raise planned[0]
    check_currency(price for plan in _plans(planned) for price in plan.prices)
    return planned


def sweep_json(sweep: Sweep, planned: Sequence[Planned]) -> dict[str, object]:
    """For programs: the values, and what was planned for each."""
    return {
        "key": sweep.key,
        "points": [
            {"value": point.text, **_planned_json(one)}
            for point, one in zip(sweep.points, planned, strict=True)
        ],
    }


def sweep_head(sweep: Sweep) -> tuple[str, ...]:
    """The names of the columns of `sweep_rows`, of which the first two are words."""
    return (sweep.key, "take", *(tier.value for tier in TIERS))


def sweep_rows(sweep: Sweep, planned: Sequence[Planned]) -> list[tuple[str, ...]]:
    """One row for each value: the tier to take, and what each tier costs."""
    rows = []
    for point, one in zip(sweep.points, planned, strict=True):
        if isinstance(one, OutlastError):
            rows.append((point.text, "impossible", *("-" for _ in TIERS)))
            continue
        costs = {option.tier: option.cost for option in one.options if option.is_possible}
        cells = (costs.get(tier) for tier in TIERS)
        rows.append((point.text, one.tier.value, *(f"{c.expected:,}" if c else "-" for c in cells)))
    return rows


def sweep_notes(sweep: Sweep, planned: Sequence[Planned]) -> list[str]:
    """Why there is no plan for some values, in sentences."""
    return [
        f"{sweep.key}={point.text}: {one}"
        for point, one in zip(sweep.points, planned, strict=True)
        if isinstance(one, OutlastError)
    ]


def sweep_chart(sweep: Sweep, planned: Sequence[Planned]) -> str:
    """The expected cost of each tier over the values, or the time where no price is known."""
    xs = [point.number for point in sweep.points]
    is_log = min(xs) > 0 and max(xs) / min(xs) >= 10
    prices = [price for plan in _plans(planned) for price in plan.prices]
    lines = [
        Line(label=tier.value, xs=xs, ys=[_height(one, index, bool(prices)) for one in planned])
        for index, tier in enumerate(TIERS)
    ]
    return lines_chart(
        "Expected cost" if prices else "Time until done",
        lines,
        x_unit=f"{sweep.key}, {sweep.unit}" if sweep.unit else sweep.key,
        y_unit=prices[0].currency if prices else "hours",
        is_log=is_log,
        names=[point.text for point in sweep.points] if sweep.is_words else (),
    )


def sweep_parts(sweep: Sweep, planned: Sequence[Planned]) -> list[str]:
    """The sweep as parts of a page."""
    return [
        page.heading(f"What if {sweep.key} were different"),
        sweep_chart(sweep, planned),
        page.table(sweep_head(sweep), sweep_rows(sweep, planned), words=2),
        *(page.note(note) for note in sweep_notes(sweep, planned)),
    ]


def _plans(planned: Sequence[Planned]) -> list[Plan]:
    return [one for one in planned if isinstance(one, Plan)]


def _planned_json(one: Planned) -> dict[str, object]:
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


def _height(one: Planned, index: int, by_cost: bool) -> float:
    if isinstance(one, OutlastError) or not one.options[index].is_possible:
        return math.nan
    option = one.options[index]
    if by_cost:
        return float(option.cost.expected) if option.cost else math.nan
    return option.finish.p50.total_seconds() / 3600 if option.finish else math.nan


_Reader = Callable[[str], float]
_Writer = Callable[[float], str]


def _unit_of(words: Sequence[str]) -> tuple[str, _Reader, _Writer] | None:
    """How the values are read as numbers, and how numbers are written as values; None for words."""
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
    """Values at even ratios from one to the other, both as they were given, none twice."""
    first, last = read(low), read(high)
    if not 0 < first < last:
        raise SweepError(f"'{low}..{high}' does not go up from a value above 0.")
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
    """To about a percent, and in whole seconds where there are ten of them: some keys need that."""
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
