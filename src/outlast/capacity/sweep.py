"""What if: the same workload planned for many values of one key.

Pure. A range such as `checkpoint.size=1GiB..100GiB` becomes values at even ratios between its ends,
in the unit that the key takes; a list such as `nodes=1,2,4` is taken as it is.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from outlast.capacity import page
from outlast.capacity.drawing import Line, lines_chart
from outlast.capacity.plan import TIERS, Plan
from outlast.capacity.quantities import parse_exact_duration, parse_size
from outlast.errors import OutlastError

POINTS = 9
VALUES_MAX = 50
_NUMBER = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)


class SweepError(OutlastError):
    """A sweep cannot be read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """One value of a sweep, as the workload file takes it, and as a number to draw."""

    text: str
    number: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Sweep:
    """A key and its values. `unit` names what the numbers are."""

    key: str
    unit: str
    points: tuple[Point, ...]


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
    unit, read, write = _unit_of(words)
    numbers = [read(word.strip()) for word in words]
    if dots:
        if not 0 < numbers[0] < numbers[1]:
            raise SweepError(f"{values!r} does not go up from a value above 0.")
        ratio = numbers[1] / numbers[0]
        numbers = [numbers[0] * ratio ** (index / (POINTS - 1)) for index in range(POINTS)]
        texts = list(dict.fromkeys(write(number) for number in numbers))
    else:
        texts = [word.strip() for word in words]
    points = tuple(Point(text=one, number=read(one)) for one in texts)
    return Sweep(key=key.strip(), unit=unit, points=points)


def sweep_json(sweep: Sweep, plans: Sequence[Plan]) -> dict[str, object]:
    """For programs: the values, and what was planned for each."""
    return {
        "key": sweep.key,
        "points": [
            {
                "value": point.text,
                "tier": plan.tier.value,
                "options": [
                    {
                        "tier": option.tier.value,
                        "possible": option.is_possible,
                        "cost": float(option.cost.expected) if option.cost else None,
                        "finish_seconds": option.finish.p50.total_seconds()
                        if option.finish
                        else None,
                        "chance": option.chance,
                    }
                    for option in plan.options
                ],
            }
            for point, plan in zip(sweep.points, plans, strict=True)
        ],
    }


def sweep_rows(sweep: Sweep, plans: Sequence[Plan]) -> list[tuple[str, ...]]:
    """One row for each value: the tier to take, and what each tier costs."""
    rows = []
    for point, plan in zip(sweep.points, plans, strict=True):
        costs = {option.tier: option.cost for option in plan.options if option.is_possible}
        cells = ((costs.get(tier)) for tier in TIERS)
        rows.append(
            (point.text, plan.tier.value, *(f"{c.expected:,}" if c else "-" for c in cells))
        )
    return rows


def sweep_chart(sweep: Sweep, plans: Sequence[Plan]) -> str:
    """The expected cost of each tier over the values, or the time where no price is known."""
    xs = [point.number for point in sweep.points]
    is_log = min(xs) > 0 and max(xs) / min(xs) >= 10
    prices = [price for plan in plans for price in plan.prices]
    lines = [
        Line(label=tier.value, xs=xs, ys=[_height(plan, index, bool(prices)) for plan in plans])
        for index, tier in enumerate(TIERS)
    ]
    y_unit = prices[0].currency if prices else "hours"
    title = "Expected cost" if prices else "Time until done"
    x_unit = f"{sweep.key}, {sweep.unit}" if sweep.unit else sweep.key
    return lines_chart(title, lines, x_unit=x_unit, y_unit=y_unit, is_log=is_log)


def sweep_parts(sweep: Sweep, plans: Sequence[Plan]) -> list[str]:
    """The sweep as parts of a page."""
    head = (sweep.key, "take", *(tier.value for tier in TIERS))
    return [
        page.heading(f"What if {sweep.key} were different"),
        sweep_chart(sweep, plans),
        page.table(head, sweep_rows(sweep, plans), words=2),
    ]


def _height(plan: Plan, index: int, by_cost: bool) -> float:
    option = plan.options[index]
    if not option.is_possible:
        return math.nan
    if by_cost:
        return float(option.cost.expected) if option.cost else math.nan
    return option.finish.p50.total_seconds() / 3600 if option.finish else math.nan


_Reader = Callable[[str], float]
_Writer = Callable[[float], str]


def _unit_of(words: Sequence[str]) -> tuple[str, _Reader, _Writer]:
    """How the values are read as numbers, and how numbers are written as values."""
    words = [word.strip() for word in words]
    if all(_NUMBER.fullmatch(word) for word in words):
        is_whole = all("." not in word for word in words)
        return "", float, (lambda n: str(round(n))) if is_whole else (lambda n: f"{n:.6g}")
    for unit, read, write in _UNITS:
        try:
            for word in words:
                read(word)
        except ValueError:
            continue
        return unit, read, write
    raise SweepError(
        f"{', '.join(map(repr, words))} are not all numbers, sizes or durations.",
        hint="For example: --sweep work.hours=10..100 or --sweep deadline=40h..80h.",
    )


def _read_gib(text: str) -> float:
    return parse_size(text) / 1024**3


def _write_gib(number: float) -> str:
    if number >= 10 or number == round(number):
        return f"{round(number)}GiB"
    return f"{round(number * 1024)}MiB"


def _read_hours(text: str) -> float:
    return parse_exact_duration(text).total_seconds() / 3600


def _write_hours(number: float) -> str:
    if number >= 1:
        return f"{number:.4g}h"
    return f"{number * 60:.4g}m" if number >= 1 / 60 else f"{number * 3600:.4g}s"


_UNITS: tuple[tuple[str, _Reader, _Writer], ...] = (
    ("GiB", _read_gib, _write_gib),
    ("hours", _read_hours, _write_hours),
)
