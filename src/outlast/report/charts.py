"""Charts for pages and files: distributions in rows, lines, and sums over time. Pure.

All text is escaped. Colors follow the reader's light or dark mode. Series also differ in their line
style, because not everyone can tell the colors apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from outlast.report.axes import (
    PATH_WIDTH,
    Plot,
    Position,
    Scale,
    Tick,
    framed,
    legend,
    line_mark,
    log_ticks,
    picture,
    round_step,
    round_ticks,
    time_ticks,
    whole_ticks,
)
from outlast.report.markup import Html, element, join
from outlast.report.style import SERIES, chart_sheet

_ROW_HEIGHT = 44.0
_LINES_HEIGHT = 240.0
_COLUMNS_HEIGHT = 150.0
_COLUMNS_MAX = 60
_CHARACTER_WIDTH = 7.5

# Space around the plot in a file, in pixels.
_FILE_LEFT, _FILE_RIGHT, _FILE_TOP, _FILE_BOTTOM = 84, 28, 52, 56
_FILE_LEGEND_COLUMNS = 4
_FILE_LEGEND_HEIGHT = 22


@dataclass(frozen=True, kw_only=True, slots=True)
class Distribution:
    """How many values are between each two edges, and their median.

    `color` is an index: a thing has the same color in every chart.
    """

    label: str
    edges: Sequence[float]
    counts: Sequence[int]
    median: float
    color: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A series of points. NaN interrupts the line."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedAmounts:
    """Amounts with the times at which they occurred; `class_` is the style of their columns."""

    name: str
    class_: str
    amounts: Sequence[tuple[float, float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Chart:
    """A chart with its title and legend, as a part of a page or as a file of its own."""

    title: str
    plot: Html
    height: float
    class_: str = ""
    series: tuple[str, ...] = ()

    def as_html(self) -> Html:
        entries = [(line_mark(_line_class(index)), name) for index, name in enumerate(self.series)]
        return element(
            "section",
            element("h3", self.title),
            legend(entries) if entries else None,
            picture(self.plot, class_=self.class_),
        )

    def as_svg(self) -> str:
        """A complete SVG file, with literal colors for programs that do not know CSS variables."""
        width = _FILE_LEFT + PATH_WIDTH + _FILE_RIGHT
        rows = math.ceil(len(self.series) / _FILE_LEGEND_COLUMNS)
        height = _FILE_TOP + self.height + _FILE_BOTTOM + rows * _FILE_LEGEND_HEIGHT
        return element(
            "svg",
            element("style", Html(chart_sheet())),
            element("rect", width="100%", height="100%", class_="paper"),
            element("text", self.title, x=16, y=24, class_="title"),
            element(
                "svg",
                self.plot,
                x=_FILE_LEFT,
                y=_FILE_TOP,
                width=PATH_WIDTH,
                height=self.height,
                # The labels of the axes are outside the plot.
                overflow="visible",
            ),
            self._file_legend(_FILE_TOP + self.height + _FILE_BOTTOM + 4),
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height:g}",
            width=width,
            height=height,
            class_="file",
        )

    def _file_legend(self, top: float) -> Html:
        parts = []
        for index, name in enumerate(self.series):
            row, column = divmod(index, _FILE_LEGEND_COLUMNS)
            x = _FILE_LEFT + column * PATH_WIDTH // _FILE_LEGEND_COLUMNS
            y = top + row * _FILE_LEGEND_HEIGHT
            parts += [
                element("line", x1=x, x2=x + 20, y1=y, y2=y, class_=_line_class(index)),
                element("text", name, x=x + 26, y=y + 4),
            ]
        return join(parts)


def distribution_chart(title: str, rows: Sequence[Distribution], *, unit: str) -> Chart:
    """Distributions below each other on one scale."""
    low = min(row.edges[0] for row in rows)
    high = max(row.edges[-1] for row in rows)
    height = _ROW_HEIGHT * len(rows)
    plot = Plot(x=Scale(low=low, high=high), y=Scale(low=0, high=height), height=height)
    parts = [
        _distribution(plot, row, base=height - _ROW_HEIGHT * (index + 1), index=index)
        for index, row in enumerate(rows)
    ]
    medians = ", ".join(f"{row.label} {row.median:,.4g}" for row in rows)
    drawn = framed(
        plot,
        *parts,
        description=f"{title}. Medians in {unit}: {medians}.",
        x_ticks=round_ticks(low, high, 6),
        x_title=f"{unit}; vertical lines: medians",
    )
    return Chart(title=title, plot=drawn, height=height, class_="lanes")


def _distribution(plot: Plot, row: Distribution, *, base: float, index: int) -> Html:
    peak, room = max(row.counts, default=0) or 1, _ROW_HEIGHT * 0.8
    outline = [(row.edges[0], base)]
    for (left, right), count in zip(pairwise(row.edges), row.counts, strict=True):
        top = base + room * count / peak
        outline += [(left, top), (right, top)]
    outline.append((row.edges[-1], base))
    color = (index if row.color is None else row.color) % SERIES
    x = plot.left(row.median)
    ends = {"y1": plot.top(base + room), "y2": plot.top(base)}
    return element(
        "g",
        element("title", f"{row.label}: median {row.median:,.4g}"),
        plot.stretched(element("path", d=f"{plot.line(outline)}z", class_=f"area s{color}")),
        element("line", x1=x, x2=x, class_="median", **ends),
        element("text", row.label, x=-8, y=plot.top(base) - 8, text_anchor="end"),
    )


def lines_chart(
    title: str,
    lines: Sequence[Line],
    *,
    x_unit: str,
    y_unit: str,
    is_log: bool = False,
    names: Sequence[str] = (),
) -> Chart:
    """Lines on a common scale. `is_log` makes the x axis logarithmic.

    `names` are the names of the values 0, 1, 2... on the x axis, displayed if they fit. There is
    nothing between two names, so the values are points then.
    """
    xs = [x for line in lines for x in line.xs]
    ys = [y for line in lines for y in line.ys if math.isfinite(y)]
    margin = 0.5 if names or min(xs) == max(xs) else 0.0
    x_scale = Scale(low=min(xs) - margin, high=max(xs) + margin, is_log=is_log and not margin)
    y_scale = Scale(low=min([0.0, *ys]), high=max(ys, default=1.0) or 1.0)
    plot = Plot(x=x_scale, y=y_scale, height=_LINES_HEIGHT)
    drawn = framed(
        plot,
        *(_series(plot, line, index, is_points=bool(names)) for index, line in enumerate(lines)),
        description=f"{title} in {y_unit} by {x_unit}: {', '.join(one.label for one in lines)}.",
        x_ticks=_names_or_numbers(x_scale, names),
        x_title=x_unit,
        y_ticks=round_ticks(y_scale.low, y_scale.high, 5),
    )
    labels = tuple(line.label for line in lines)
    return Chart(title=f"{title} ({y_unit})", plot=drawn, height=_LINES_HEIGHT, series=labels)


def _names_or_numbers(scale: Scale, names: Sequence[str]) -> list[Tick]:
    if names and max(map(len, names)) * _CHARACTER_WIDTH * len(names) <= PATH_WIDTH:
        return [Tick(at=float(index), label=name) for index, name in enumerate(names)]
    if scale.is_log:
        return log_ticks(scale.low, scale.high)
    return round_ticks(scale.low, scale.high, 6)


def _series(plot: Plot, line: Line, index: int, *, is_points: bool) -> Html:
    pieces = _pieces(line)
    points = [piece[0] for piece in pieces if len(piece) == 1]
    if is_points:
        points = [point for piece in pieces for point in piece]
        pieces = []
    data = "".join(plot.line(piece) for piece in pieces if len(piece) > 1)
    dots = [
        element("circle", cx=plot.left(x), cy=plot.top(y), r=4, class_=f"dot s{index % SERIES}")
        for x, y in points
    ]
    path = element("path", d=data, class_=_line_class(index)) if data else None
    return join([plot.stretched(path) if path else None, *dots])


def _pieces(line: Line) -> list[list[Position]]:
    pieces: list[list[Position]] = [[]]
    for x, y in zip(line.xs, line.ys, strict=True):
        if math.isfinite(y):
            pieces[-1].append((x, y))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _line_class(index: int) -> str:
    return f"line series s{index % SERIES}"


def time_histogram(
    series: Sequence[TimedAmounts], *, span_seconds: float, of_what: str, class_: str = ""
) -> Html:
    """Stacked columns over time; their number depends on the screen, not on the amounts."""
    width = round_step(span_seconds / _COLUMNS_MAX)
    sums = [column_sums(one.amounts, span_seconds, width) for one in series]
    columns = list(zip(*sums, strict=True))
    highest = max(max(map(sum, columns)), 1.0)
    plot = Plot(
        x=Scale(low=0, high=span_seconds), y=Scale(low=0, high=highest), height=_COLUMNS_HEIGHT
    )
    ticks, unit = time_ticks(span_seconds)
    drawn = framed(
        plot,
        *(
            _column(plot, series, index * width, width, column)
            for index, column in enumerate(columns)
            if any(column)
        ),
        description=f"{of_what} over time: at most {highest:,.0f} within {width:g} seconds.",
        x_ticks=ticks,
        x_title=f"{unit} since the start",
        y_ticks=whole_ticks(highest),
        y_title=f"{of_what} per {width:g} s",
    )
    return picture(drawn, class_=class_)


def column_sums(
    amounts: Sequence[tuple[float, float]], span_seconds: float, width_seconds: float
) -> list[float]:
    """The sum of the amounts in each column."""
    sums = [0.0] * max(1, -int(-span_seconds // width_seconds))
    for at, amount in amounts:
        sums[min(len(sums) - 1, max(0, int(at / width_seconds)))] += amount
    return sums


def _column(
    plot: Plot, series: Sequence[TimedAmounts], start: float, width: float, column: Sequence[float]
) -> Html:
    values = ", ".join(f"{one.name}: {sum_:,.0f}" for one, sum_ in zip(series, column, strict=True))
    bars = []
    low = 0.0
    for one, value in zip(series, column, strict=True):
        if value:
            bars.append(
                element(
                    "rect",
                    x=plot.left(start + width * 0.08),
                    y=plot.top(low + value),
                    width=plot.width(start + width * 0.08, start + width * 0.92),
                    height=plot.top(low) - plot.top(low + value),
                    class_=f"bar {one.class_}",
                )
            )
        low += value
    return element("g", element("title", f"{start:g} s to {start + width:g} s, {values}."), *bars)
