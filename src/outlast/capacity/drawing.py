"""Small charts as SVG, drawn by hand: distributions in rows, lines over a scale.

Pure: values in, text out. All text from outside is escaped. Colours follow the reader's light or
dark mode; a program that draws SVG but knows only plain CSS shows the light ones. A chart needs
nothing from outside and scales with the page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH = 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 36, 26, 40
_ROW = 54
_PLOT_HEIGHT = 240
_LETTER = 7.5
_COLOURS = 5
STYLE = """
svg.chart { width: 100%; height: auto; }
svg.chart text { font-family: system-ui, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif; }
svg.chart text { font-size: 13px; fill: #1c1e21; }
svg.chart .ink { stroke: #1c1e21; }
svg.chart .axis { stroke: #c9ced6; fill: none; }
svg.chart .c0 { color: #2563a8; }
svg.chart .c1 { color: #b4571a; }
svg.chart .c2 { color: #3d7d3a; }
svg.chart .c3 { color: #7a4fa3; }
svg.chart .c4 { color: #a3324d; }
@media (prefers-color-scheme: dark) {
  svg.chart text { fill: #e6e8eb; }
  svg.chart .ink { stroke: #e6e8eb; }
  svg.chart .axis { stroke: #4a5058; }
  svg.chart .c0 { color: #7db2ee; }
  svg.chart .c1 { color: #f0a46b; }
  svg.chart .c2 { color: #8fcf8a; }
  svg.chart .c3 { color: #c6a3ea; }
  svg.chart .c4 { color: #ef8fa5; }
}
"""
_FILE_STYLE = """
svg.chart { background: #ffffff; }
@media (prefers-color-scheme: dark) { svg.chart { background: #16181b; } }
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A distribution: how many values lie between each two edges; `mark` is its median.

    `colour` is a number from 0: the same thing has the same colour in every chart.
    """

    label: str
    edges: Sequence[float]
    counts: Sequence[int]
    mark: float
    colour: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Line:
    """A series of points. A gap in the values, as NaN, breaks the line."""

    label: str
    xs: Sequence[float]
    ys: Sequence[float]


def rows_chart(title: str, rows: Sequence[Row], *, unit: str) -> str:
    """Distributions below each other on one scale."""
    low = min(row.edges[0] for row in rows)
    high = max(row.edges[-1] for row in rows)
    scale = _Scale(low=low, high=high, start=_LEFT, end=WIDTH - _RIGHT)
    height = _TOP + _ROW * len(rows) + _BOTTOM
    parts = [_title(title)]
    for index, row in enumerate(rows):
        base = _TOP + _ROW * (index + 1) - 8
        peak = max(row.counts, default=0) or 1
        points = [(scale(row.edges[0]), float(base))]
        for (left, right), count in zip(pairwise(row.edges), row.counts, strict=True):
            top = base - (_ROW - 14) * count / peak
            points += [(scale(left), top), (scale(right), top)]
        points.append((scale(row.edges[-1]), float(base)))
        colour = _colour(index if row.colour is None else row.colour)
        parts.append(f'<polygon {colour} points="{_points(points)}" fill-opacity="0.75"/>')
        at = scale(row.mark)
        parts.append(
            f'<line class="ink" x1="{at:.1f}" x2="{at:.1f}" y1="{base - _ROW + 14:.1f}" '
            f'y2="{base + 3:.1f}"/>'
        )
        parts.append(_text(_LEFT - 8, base - 4, row.label, anchor="end"))
    parts += _x_axis(scale, height - _BOTTOM + 4, unit)
    return _svg(title, height, parts)


def lines_chart(
    title: str,
    lines: Sequence[Line],
    *,
    x_unit: str,
    y_unit: str,
    is_log: bool = False,
    names: Sequence[str] = (),
) -> str:
    """Lines over a common scale, with a legend. `is_log` makes the x axis logarithmic.

    `names` says what the values 0, 1, 2... on the x axis are called; shown if there is room.
    """
    xs = [x for line in lines for x in line.xs]
    ys = [y for line in lines for y in line.ys if math.isfinite(y)]
    height = _TOP + _PLOT_HEIGHT + _BOTTOM + 22 * math.ceil(len(lines) / 3)
    margin = 0.5 if names else 0.0
    x_scale = _Scale(
        low=min(xs) - margin,
        high=max(xs) + margin,
        start=_LEFT,
        end=WIDTH - _RIGHT,
        is_log=is_log,
    )
    top = max(ys, default=1.0)
    y_scale = _Scale(low=min(0.0, *ys, 0.0), high=top or 1.0, start=_TOP + _PLOT_HEIGHT, end=_TOP)
    parts = [_title(f"{title} ({y_unit})")]
    for tick in _ticks(y_scale.low, y_scale.high):
        at = y_scale(tick)
        parts.append(
            f'<line class="axis" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        parts.append(_text(_LEFT - 8, at + 4, _number(tick), anchor="end"))
    for index, line in enumerate(lines):
        pieces = _pieces(line)
        if names:
            # There is nothing between one name and the next.
            pieces = [[point] for piece in pieces for point in piece]
        parts += [_piece([(x_scale(x), y_scale(y)) for x, y in one], index) for one in pieces]
        column, row = index % 3, index // 3
        x, y = _LEFT + column * 150, _TOP + _PLOT_HEIGHT + _BOTTOM + 14 + 22 * row
        parts.append(f'<rect {_colour(index)} x="{x}" y="{y - 9}" width="12" height="12"/>')
        parts.append(_text(x + 18, y + 1, line.label))
    parts += _x_axis(x_scale, _TOP + _PLOT_HEIGHT + 4, x_unit, names)
    return _svg(title, height, parts)


def standalone(svg: str) -> str:
    """A chart as a file of its own."""
    return svg.replace(">", f"><style>{STYLE}{_FILE_STYLE}</style>", 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Scale:
    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            value, low, high = math.log(value), math.log(low), math.log(high)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + share * (self.end - self.start)


def _x_axis(scale: _Scale, y: float, unit: str, names: Sequence[str] = ()) -> list[str]:
    parts = [f'<line class="axis" x1="{scale.start}" x2="{scale.end}" y1="{y}" y2="{y}"/>']
    if names and max(map(len, names)) * _LETTER * len(names) <= scale.end - scale.start:
        marks = {float(index): name for index, name in enumerate(names)}
    else:
        ticks = _log_ticks(scale.low, scale.high) if scale.is_log else _ticks(scale.low, scale.high)
        marks = {tick: _number(tick) for tick in ticks}
    parts += [_text(scale(tick), y + 16, mark, anchor="middle") for tick, mark in marks.items()]
    parts.append(_text(scale.end, y + 32, unit, anchor="end"))
    return parts


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between two values, four to eight of them."""
    span = high - low
    if span <= 0:
        return [low]
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next((factor for factor in (5, 2) if span / (step * factor) >= 4), 1)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [index * step for index in range(first, last + 1)]


def _log_ticks(low: float, high: float) -> list[float]:
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [10.0**power * factor for power in powers for factor in (1, 2, 5)]
    inside = [tick for tick in ticks if low * 0.999 <= tick <= high * 1.001]
    return inside or [low, high]


def _number(value: float) -> str:
    if value == 0 or 0.001 <= abs(value) < 1e6:
        return f"{value:,.6g}"
    return f"{value:.3g}"


def _pieces(line: Line) -> list[list[tuple[float, float]]]:
    pieces: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(line.xs, line.ys, strict=True):
        if math.isfinite(y):
            pieces[-1].append((x, y))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _piece(points: Sequence[tuple[float, float]], colour: int) -> str:
    if len(points) == 1:
        # A line of one point is not seen.
        return f'<circle {_colour(colour)} cx="{points[0][0]:.1f}" cy="{points[0][1]:.1f}" r="4"/>'
    return (
        f'<polyline class="c{colour % _COLOURS}" stroke="currentColor" stroke-width="2.5" '
        f'fill="none" points="{_points(points)}"/>'
    )


def _colour(index: int) -> str:
    return f'class="c{index % _COLOURS}" fill="currentColor"'


def _points(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _title(title: str) -> str:
    return f'<text x="0" y="15" font-weight="600">{escape(title)}</text>'


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, height: int, parts: Sequence[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'role="img" aria-label="{escape(title)}">\n{body}\n</svg>'
    )
