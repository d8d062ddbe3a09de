"""The timeline of a great many attempts: evictions counted over time, and when nodes were up. Pure.

Its size follows from the width of a screen, not from the number of attempts.
"""

from collections.abc import Sequence

from outlast.drill.page.axes import Plot, Scale, picture, time_ticks
from outlast.drill.page.histogram import Series, histogram
from outlast.drill.page.markup import Html, element, join, number
from outlast.drill.records import Attempt, Leg

_COLUMNS = 1000
_HEIGHT_MAX = 360.0
_LABEL_FROM = 12.0


def crowded_timeline(leg: Leg, rows: Sequence[tuple[str, Sequence[Attempt]]]) -> Html:
    """Both pictures, one above the other, over the same time."""
    told = [(one.at_seconds, 1.0) for one in leg.evictions if one.notice]
    silent = [(one.at_seconds, 1.0) for one in leg.evictions if not one.notice]
    counts = histogram(
        [
            Series(name="without notice", class_="lost", amounts=silent),
            Series(name="with notice", class_="grace", amounts=told),
        ],
        span_seconds=leg.seconds,
        of_what="evictions",
        class_="lanes",
    )
    return join([counts, _lanes(leg, rows)])


def columns_up(attempts: Sequence[Attempt], span_seconds: float) -> list[tuple[int, int]]:
    """The runs of columns in which a node was up, of all columns that a screen has."""
    seen = bytearray(_COLUMNS)
    for one in attempts:
        first = int(one.started_seconds / span_seconds * _COLUMNS)
        last = min(_COLUMNS - 1, int(one.ended_seconds / span_seconds * _COLUMNS))
        seen[first : last + 1] = b"\1" * (last + 1 - first)
    runs: list[tuple[int, int]] = []
    for column in range(_COLUMNS):
        if not seen[column]:
            continue
        if runs and runs[-1][1] == column:
            runs[-1] = (runs[-1][0], column + 1)
        else:
            runs.append((column, column + 1))
    return runs


def _lanes(leg: Leg, rows: Sequence[tuple[str, Sequence[Attempt]]]) -> Html:
    step = min(24.0, max(4.0, _HEIGHT_MAX / len(rows)))
    plot = Plot(x=Scale(low=0, high=leg.seconds), y=Scale(low=0, high=1), height=step * len(rows))
    ticks, unit = time_ticks(leg.seconds)
    data = []
    labels = []
    for index, (label, attempts) in enumerate(rows):
        top, thick = step * (index + 0.15), step * 0.7
        data += [
            f"M{start} {number(top)}h{end - start}v{number(thick)}h{start - end}z"
            for start, end in columns_up(attempts, leg.seconds)
        ]
        if step >= _LABEL_FROM or index % 4 == 0:
            labels.append(element("text", label, x=-8, y=top + thick / 2 + 4, text_anchor="end"))
    return picture(
        plot,
        plot.stretched(element("path", d="".join(data), class_="bar work")),
        *labels,
        description=f"When nodes were up, in {len(rows)} lanes over {leg.seconds:.1f} seconds.",
        x_ticks=ticks,
        x_title=f"{unit} since the start; filled: a node was up",
        class_="lanes",
    )
