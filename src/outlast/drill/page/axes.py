"""Axes of the pictures: where a value lies, which ticks are round, and the frame around them. Pure.

A picture is as wide as the page lets it be and as tall as it says, with text of one size on every
screen. So places along x are shares of the width: per cent for marks, thousandths for paths, which
are stretched.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outlast.drill.page.markup import Html, element, join, number

_WIDTH = 1000
_UNITS = (("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0), ("days", 86400.0))
_UNIT_TICKS_MIN = 3
_CLOCK_STEPS = {
    "seconds": (1, 2, 5, 10, 15, 20, 30),
    "minutes": (1, 2, 5, 10, 15, 20, 30),
    "hours": (1, 2, 3, 6, 12, 24),
}
_EVERY_OTHER_FROM = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class Scale:
    """From values to shares between 0 and 1."""

    low: float
    high: float

    def share(self, value: float) -> float:
        if self.high <= self.low:
            return 0.0
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    at: float
    said: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """The area that is drawn in. `x` runs to the right, `y` upwards over `height` pixels."""

    x: Scale
    y: Scale
    height: float

    def left(self, value: float) -> str:
        return f"{number(self.x.share(value) * 100)}%"

    def width(self, start: float, end: float, *, share_min: float = 0.0015) -> str:
        """The width between two values; never so little that it cannot be seen."""
        share = max(share_min, self.x.share(end) - self.x.share(start))
        return f"{number(share * 100)}%"

    def top(self, value: float) -> float:
        return self.height * (1 - self.y.share(value))

    def place(self, x: float, y: float) -> str:
        """A point of a path."""
        return f"{number(self.x.share(x) * _WIDTH)} {number(self.top(y))}"

    def line(self, points: Iterable[tuple[float, float]]) -> str:
        """The data of a path through points."""
        places = [self.place(x, y) for x, y in points]
        if len(places) == 1:
            # A single point shows as a dot, by the round ends of its line.
            places *= 2
        return f"M{'L'.join(places)}" if places else ""

    def stretched(self, *paths: object) -> Html:
        """Paths in thousandths of the width."""
        return element(
            "svg",
            *paths,
            width="100%",
            height=self.height,
            viewBox=f"0 0 {_WIDTH} {number(self.height)}",
            preserveAspectRatio="none",
        )

    def path(self, data: str, class_: str) -> Html | None:
        return element("path", d=data, class_=f"line {class_}") if data else None

    def said(self, x: float, top: float, words: str, class_: str = "", **more: object) -> Html:
        """A label that stands beside what it means."""
        names = f"said {class_}".strip()
        return element("text", words, x=self.left(x), y=top, class_=names, **more)


def picture(
    plot: Plot,
    *parts: object,
    description: str,
    x_ticks: Sequence[Tick],
    x_title: str,
    y_ticks: Sequence[Tick] = (),
    y_title: str | None = None,
    class_: str = "",
) -> Html:
    """A plot with its axes. `description` is read out to those who cannot see it."""
    drawn = element(
        "svg",
        _grid(plot, x_ticks, y_ticks),
        *parts,
        _labels(plot, x_ticks, x_title, y_ticks, y_title),
        class_="plot",
        height=plot.height,
        role="img",
        aria_label=description,
    )
    return element("div", drawn, class_=f"chart {class_}".strip())


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
    return join([*rows, *columns, axis])


def _labels(
    plot: Plot,
    x_ticks: Sequence[Tick],
    x_title: str,
    y_ticks: Sequence[Tick],
    y_title: str | None,
) -> Html:
    crowded = len(x_ticks) > _EVERY_OTHER_FROM
    below = [
        element(
            "text",
            one.said,
            x=plot.left(one.at),
            y=plot.height + 17,
            text_anchor="middle",
            class_="wide" if crowded and index % 2 else None,
        )
        for index, one in enumerate(x_ticks)
    ]
    beside = [
        element("text", one.said, x=-8, y=plot.top(one.at) + 4, text_anchor="end")
        for one in y_ticks
    ]
    title = element("text", x_title, x="100%", y=plot.height + 34, text_anchor="end")
    above = y_title and element("text", y_title, x=-8, y=-11)
    return join([*below, *beside, title, above])


def round_ticks(low: float, high: float, count: int = 4) -> list[Tick]:
    """Round values from low to high, about so many."""
    if not high > low:
        return [Tick(at=low, said=_short(low, 1.0))]
    step = round_step((high - low) / count)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [Tick(at=one * step, said=_short(one * step, step)) for one in range(first, last + 1)]


def whole_ticks(high: float, count: int = 4) -> list[Tick]:
    """Round values from 0 on for what is counted."""
    step = max(1.0, round_step(max(high, 1.0) / count))
    return [
        Tick(at=one * step, said=_short(one * step, step)) for one in range(int(high / step) + 1)
    ]


def time_ticks(seconds: float, count: int = 7) -> tuple[list[Tick], str]:
    """Ticks from 0 to a duration, in the unit that suits it, and the name of that unit."""
    fitting = [one for one in _UNITS if seconds >= _UNIT_TICKS_MIN * one[1]]
    name, unit = fitting[-1] if fitting else _UNITS[0]
    span = max(seconds, 1e-3) / unit
    steps = _CLOCK_STEPS.get(name, ()) if span > count else ()
    step = next((float(one) for one in steps if span / one <= count), round_step(span / count))
    ticks = [
        Tick(at=one * step * unit, said=_short(one * step, step))
        for one in range(int(span / step + 1e-9) + 1)
    ]
    return ticks, name


def round_step(rough: float) -> float:
    """The next of 1, 2, 5, 10, 20 and so on."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(one * power for one in (1, 2, 5, 10) if one * power >= rough * 0.999)


def _short(value: float, step: float) -> str:
    """A tick's value, with the decimals that its step needs."""
    size = max(abs(value), step)
    if size >= 1e6:
        return f"{value:.4g}" if size >= 1e9 else f"{value / 1e6:g} M"
    if 0 < step < 1e-3:
        return f"{value:.3g}"
    decimals = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    return f"{value:,.{decimals}f}"
