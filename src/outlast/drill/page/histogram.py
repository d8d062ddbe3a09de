"""What happened over time, summed up in columns: for more than an eye can tell apart. Pure.

Its size follows from the width of a screen, not from how much happened.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from outlast.drill.page.axes import Plot, Scale, picture, round_step, time_ticks, whole_ticks
from outlast.drill.page.markup import Html, element

_COLUMNS_MAX = 60
_HEIGHT = 150.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One kind of what is summed up: amounts with their times. `class_` is how it is drawn."""

    name: str
    class_: str
    amounts: Sequence[tuple[float, float]]


def histogram(
    series: Sequence[Series], *, span_seconds: float, of_what: str, class_: str = ""
) -> Html:
    """Columns over time, each kind upon the last."""
    width = round_step(span_seconds / _COLUMNS_MAX)
    sums = [sums_of(one.amounts, span_seconds, width) for one in series]
    columns = list(zip(*sums, strict=True))
    highest = max(max(map(sum, columns)), 1.0)
    plot = Plot(x=Scale(low=0, high=span_seconds), y=Scale(low=0, high=highest), height=_HEIGHT)
    ticks, unit = time_ticks(span_seconds)
    return picture(
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
        y_title=f"{of_what} in each {width:g} s",
        class_=class_,
    )


def sums_of(
    amounts: Sequence[tuple[float, float]], span_seconds: float, width_seconds: float
) -> list[float]:
    """The sum of the amounts in each column."""
    sums = [0.0] * max(1, -int(-span_seconds // width_seconds))
    for at, amount in amounts:
        sums[min(len(sums) - 1, max(0, int(at / width_seconds)))] += amount
    return sums


def _column(
    plot: Plot, series: Sequence[Series], start: float, width: float, column: Sequence[float]
) -> Html:
    said = ", ".join(f"{one.name}: {value:,.0f}" for one, value in zip(series, column, strict=True))
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
    return element("g", element("title", f"{start:g} s to {start + width:g} s, {said}."), *bars)
