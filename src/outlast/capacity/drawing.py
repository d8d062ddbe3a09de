"""Small charts as SVG, drawn by hand: distributions in rows, lines over a scale.

Pure: values in, text out. All text from outside is escaped. Colours follow the reader's light or
dark mode; a chart needs nothing from outside and scales with the page.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

WIDTH = 560
_LEFT, _RIGHT, _TOP, _BOTTOM = 92, 16, 26, 40
_ROW = 54
_PLOT_HEIGHT = 240
COLOURS = ("--c1", "--c2", "--c3", "--c4", "--c5")
STYLE = """
svg.chart { width: 100%; height: auto; font: 13px system-ui, sans-serif; }
svg.chart { --ink: #1c1e21; --faint: #c9ced6; --paper: #ffffff; }
svg.chart { --c1: #2563a8; --c2: #b4571a; --c3: #3d7d3a; --c4: #7a4fa3; --c5: #a3324d; }
svg.chart text { fill: var(--ink); }
svg.chart .axis { stroke: var(--faint); fill: none; }
@media (prefers-color-scheme: dark) {
  svg.chart { --ink: #e6e8eb; --faint: #4a5058; --paper: #16181b; }
  svg.chart { --c1: #7db2ee; --c2: #f0a46b; --c3: #8fcf8a; --c4: #c6a3ea; --c5: #ef8fa5; }
}
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A distribution: how many values lie between each two edges; `mark` is its median."""

    label: str
    edges: Sequence[float]
    counts: Sequence[int]
    mark: float


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
        colour = _colour(index)
        parts.append(f'<polygon points="{_points(points)}" fill="{colour}" fill-opacity="0.75"/>')
        at = scale(row.mark)
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{base - _ROW + 14:.1f}" y2="{base + 3:.1f}" '
            'stroke="var(--ink)"/>'
        )
        parts.append(_text(_LEFT - 8, base - 4, row.label, anchor="end"))
    parts += _x_axis(scale, height - _BOTTOM + 4, unit)
    return _svg(title, height, parts)


def lines_chart(
    title: str, lines: Sequence[Line], *, x_unit: str, y_unit: str, is_log: bool = False
) -> str:
    """Lines over a common scale, with a legend. `is_log` makes the x axis logarithmic."""
    xs = [x for line in lines for x in line.xs]
    ys = [y for line in lines for y in line.ys if math.isfinite(y)]
    height = _TOP + _PLOT_HEIGHT + _BOTTOM + 22 * math.ceil(len(lines) / 3)
    x_scale = _Scale(low=min(xs), high=max(xs), start=_LEFT, end=WIDTH - _RIGHT, is_log=is_log)
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
        for piece in _pieces(line):
            points = _points([(x_scale(x), y_scale(y)) for x, y in piece])
            parts.append(
                f'<polyline points="{points}" fill="none" stroke="{_colour(index)}" '
                'stroke-width="2.5"/>'
            )
        column, row = index % 3, index // 3
        x, y = _LEFT + column * 150, _TOP + _PLOT_HEIGHT + _BOTTOM + 14 + 22 * row
        parts.append(f'<rect x="{x}" y="{y - 9}" width="12" height="12" fill="{_colour(index)}"/>')
        parts.append(_text(x + 18, y + 1, line.label))
    parts += _x_axis(x_scale, _TOP + _PLOT_HEIGHT + 4, x_unit)
    return _svg(title, height, parts)


def standalone(svg: str) -> str:
    """A chart as a file of its own."""
    return svg.replace(">", f"><style>{STYLE}</style>", 1)


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


def _x_axis(scale: _Scale, y: float, unit: str) -> list[str]:
    parts = [f'<line class="axis" x1="{scale.start}" x2="{scale.end}" y1="{y}" y2="{y}"/>']
    ticks = _log_ticks(scale.low, scale.high) if scale.is_log else _ticks(scale.low, scale.high)
    parts += [_text(scale(tick), y + 16, _number(tick), anchor="middle") for tick in ticks]
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


def _colour(index: int) -> str:
    return f"var({COLOURS[index % len(COLOURS)]})"


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
