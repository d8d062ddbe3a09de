"""Axes of charts: scales, round ticks, the frame around a plot, and a legend. Pure.

A plot is as wide as the page allows and has a fixed height, with text of the same size on every
screen. Positions along x are therefore shares of the width: percentages for shapes and text, and
units of `PATH_WIDTH` for paths, which are stretched.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outlast.report.markup import Html, element, join, number

PATH_WIDTH = 560
"""The width of a plot in the units of its paths."""

_TIME_UNITS = (("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0), ("days", 86400.0))
_UNIT_TICKS_MIN = 3
_CLOCK_STEPS = {
    "seconds": (1, 2, 5, 10, 15, 20, 30),
    "minutes": (1, 2, 5, 10, 15, 20, 30),
    "hours": (1, 2, 3, 6, 12, 24),
}
_NARROW_TICKS_MAX = 5
_NARROW_CHARACTERS_MAX = 36

Position = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """Maps values to shares between 0 and 1, on a linear or logarithmic scale."""

    low: float
    high: float
    is_log: bool = False

    def share(self, value: float) -> float:
        if self.high <= self.low:
            return 0.5 if self.is_log else 0.0
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log(max(value, low)), math.log(low), math.log(high)
        return min(1.0, max(0.0, (value - low) / (high - low)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """A labeled value of an axis."""

    at: float
    label: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """The area to draw in. `x` goes from left to right, `y` upward over `height` pixels."""

    x: Scale
    y: Scale
    height: float

    def left(self, value: float) -> str:
        return f"{number(self.x.share(value) * 100)}%"

    def width(self, start: float, end: float, *, share_min: float = 0.0015) -> str:
        """The distance between two values, wide enough to be visible."""
        share = max(share_min, self.x.share(end) - self.x.share(start))
        return f"{number(share * 100)}%"

    def top(self, value: float) -> float:
        return self.height * (1 - self.y.share(value))

    def point(self, x: float, y: float) -> str:
        """A point of a path."""
        return f"{number(self.x.share(x) * PATH_WIDTH)} {number(self.top(y))}"

    def line(self, positions: Iterable[Position]) -> str:
        """The data of a path through positions."""
        points = [self.point(x, y) for x, y in positions]
        if len(points) == 1:
            # With round line caps, a line from a point to itself is visible as a dot.
            points *= 2
        return f"M{'L'.join(points)}" if points else ""

    def stretched(self, *paths: object, width: int = PATH_WIDTH) -> Html:
        """Paths, stretched from `width` units to the width of the plot."""
        return element(
            "svg",
            *paths,
            width="100%",
            height=self.height,
            viewBox=f"0 0 {width} {number(self.height)}",
            preserveAspectRatio="none",
        )

    def path(self, data: str, class_: str) -> Html | None:
        return element("path", d=data, class_=f"line {class_}") if data else None

    def label(self, x: float, top: float, words: str, class_: str = "", **more: object) -> Html:
        """A label next to what it describes."""
        names = f"label {class_}".strip()
        return element("text", words, x=self.left(x), y=top, class_=names, **more)

    def vertical_lines(self, values: Iterable[float]) -> Html:
        """A thin line over the full height at each value."""
        return join(
            element("line", x1=left, x2=left, y1=0, y2=self.height, class_="event")
            for left in dict.fromkeys(map(self.left, values))
        )


def picture(drawn: Html, *, class_: str = "") -> Html:
    """A framed plot in a page."""
    return element("div", drawn, class_=f"chart {class_}".strip())


def framed(
    plot: Plot,
    *parts: object,
    description: str,
    x_ticks: Sequence[Tick] = (),
    x_title: str | None = None,
    y_ticks: Sequence[Tick] = (),
    y_title: str | None = None,
) -> Html:
    """A plot with its axes. Screen readers read `description`."""
    return element(
        "svg",
        _grid(plot, x_ticks, y_ticks),
        *parts,
        _tick_labels(plot, x_ticks, y_ticks),
        x_title and element("text", x_title, x="100%", y=plot.height + 34, text_anchor="end"),
        y_title and element("text", y_title, x=-8, y=-11),
        class_="plot",
        height=plot.height,
        role="img",
        aria_label=description,
    )


def _grid(plot: Plot, x_ticks: Sequence[Tick], y_ticks: Sequence[Tick]) -> Html:
    bottom = plot.height
    rows = [
        element("line", x1=0, x2="100%", y1=plot.top(one.at), y2=plot.top(one.at), class_="grid")
        for one in y_ticks
    ]
    columns = [
        element("line", x1=plot.left(one.at), x2=plot.left(one.at), y1=0, y2=bottom, class_="grid")
        for one in (x_ticks if not y_ticks else ())
    ]
    axis = element("line", x1=0, x2="100%", y1=bottom, y2=bottom, class_="axis")
    return join([*rows, *columns, axis if x_ticks else None])


def _tick_labels(plot: Plot, x_ticks: Sequence[Tick], y_ticks: Sequence[Tick]) -> Html:
    """The labels of both axes; on a narrow screen every other one may be hidden."""
    characters = sum(len(one.label) for one in x_ticks)
    is_crowded = len(x_ticks) > _NARROW_TICKS_MAX or characters > _NARROW_CHARACTERS_MAX
    below = [
        element(
            "text",
            one.label,
            x=plot.left(one.at),
            y=plot.height + 17,
            text_anchor="middle",
            class_="wide" if is_crowded and index % 2 else None,
        )
        for index, one in enumerate(x_ticks)
    ]
    beside = [
        element("text", one.label, x=-8, y=plot.top(one.at) + 4, text_anchor="end")
        for one in y_ticks
    ]
    return join([*below, *beside])


def legend(entries: Iterable[tuple[Html | None, str]]) -> Html:
    """What the marks of a chart mean."""
    return element("ul", *(element("li", mark, words) for mark, words in entries), class_="legend")


def line_legend(*entries: tuple[bool, str, str]) -> Html:
    """A legend of lines: whether the line is shown, its class and its meaning."""
    return legend((line_mark(class_), words) for shown, class_, words in entries if shown)


def line_mark(class_: str) -> Html:
    """A short piece of a line, for a legend."""
    ends = {"x1": 1, "x2": 19, "y1": 10, "y2": 10}
    if class_ == "event":
        ends = {"x1": 10, "x2": 10, "y1": 2, "y2": 18}
    line = element("line", class_=class_, **ends)
    return element("svg", line, width=20, height=20, aria_hidden="true")


def round_ticks(low: float, high: float, count: int = 4) -> list[Tick]:
    """About `count` round values between two values."""
    if not high > low:
        return [Tick(at=low, label=_short(low, 1.0))]
    step = round_step((high - low) / count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [Tick(at=one * step, label=_short(one * step, step)) for one in range(first, last + 1)]


def whole_ticks(high: float, count: int = 4) -> list[Tick]:
    """Round whole numbers from 0."""
    step = max(1.0, round_step(max(high, 1.0) / count))
    return [
        Tick(at=one * step, label=_short(one * step, step)) for one in range(int(high / step) + 1)
    ]


def log_ticks(low: float, high: float, count: int = 6) -> list[Tick]:
    """Round values between two positive values, for a logarithmic scale."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1, 2, 5), (1, 3), (1,)):
        values = [10.0**power * factor for power in powers for factor in factors]
        inside = [value for value in values if low * 0.999 <= value <= high * 1.001]
        if len(inside) <= count:
            break
    if len(inside) > count:
        inside = inside[:: math.ceil(len(inside) / count)]
    return [Tick(at=value, label=_short(value, value)) for value in inside or [low, high]]


def time_ticks(seconds: float, count: int = 7) -> tuple[list[Tick], str]:
    """Ticks from 0 to a duration in a suitable unit, and the name of the unit."""
    fitting = [one for one in _TIME_UNITS if seconds >= _UNIT_TICKS_MIN * one[1]]
    name, unit = fitting[-1] if fitting else _TIME_UNITS[0]
    span = max(seconds, 1e-3) / unit
    steps = _CLOCK_STEPS.get(name, ()) if span > count else ()
    step = next((float(one) for one in steps if span / one <= count), round_step(span / count))
    ticks = [
        Tick(at=one * step * unit, label=_short(one * step, step))
        for one in range(int(span / step + 1e-9) + 1)
    ]
    return ticks, name


def round_step(rough: float) -> float:
    """The next of 1, 2, 5, 10, 20 and so on."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(one * power for one in (1, 2, 5, 10) if one * power >= rough * 0.999)


def _short(value: float, step: float) -> str:
    """The value of a tick, with the decimals that its step needs."""
    size = max(abs(value), step)
    if size >= 1e6:
        return f"{value:.4g}" if size >= 1e9 else f"{value / 1e6:g} M"
    if 0 < step < 1e-3:
        return f"{value:.3g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value:,.{decimals}f}"
