"""The loss of the disturbed run drawn over that of the undisturbed one. Pure.

Takes the figure that the journals call `loss`, else one whose name has it, else the first one.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from outlast.drill.evidence import Point, RunEvidence
from outlast.drill.page.axes import Plot, Scale, Tick, picture, round_ticks, whole_ticks
from outlast.drill.page.markup import Html, element, join
from outlast.drill.page.strokes import MARKS_MAX, Place, line_legend, uprights
from outlast.drill.report import Report

RUNS_MAX = 4
_NAME_CHARACTERS_MAX = 24
_HEIGHT = 240.0
_LOG_FROM = 50.0
"""Where the largest value is so many times the smallest, the scale is logarithmic."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Agreement:
    """How two curves compare at the steps that both have. None without such steps."""

    steps: int
    largest_difference: float


def loss(report: Report) -> Html | None:
    """The section; None if no journal of the disturbed leg has figures."""
    calm = {run.folder: run for run in report.baseline_runs}
    drawn = [
        _curve(name, run, calm.get(run.folder), is_only=len(report.runs) == 1)
        for run in report.runs
        if (name := chosen_name(run.metrics)) is not None
    ]
    if not drawn:
        return None
    more = len(drawn) - RUNS_MAX
    note = element("p", f"{more:,} more runs are not drawn.", class_="note") if more > 0 else None
    return element("section", element("h2", "Against the undisturbed run"), *drawn[:RUNS_MAX], note)


def chosen_name(metrics: Iterable[Point]) -> str | None:
    names = [name for name in dict.fromkeys(one.name for one in metrics) if name is not None]
    if "loss" in names:
        return "loss"
    return next((name for name in names if "loss" in name.lower()), names[0] if names else None)


def compare(calm: Sequence[Place], disturbed: Sequence[Place]) -> Agreement | None:
    """The largest difference at the same step; steps that were done twice count twice."""
    values = dict(calm)
    gaps = [abs(value - values[step]) for step, value in disturbed if step in values]
    return Agreement(steps=len(gaps), largest_difference=max(gaps)) if gaps else None


def _curve(name: str, run: RunEvidence, calm_run: RunEvidence | None, *, is_only: bool) -> Html:
    lines = list(_lines(name, run))
    calm = list(_values(name, calm_run.metrics)) if calm_run is not None else []
    places = [*calm, *(place for line in lines for place in line)]
    if not places:
        said = f"No value of {name} is a number that can be drawn."
        return element("p", said, class_="note")
    low, high = min(y for _, y in places), max(y for _, y in places)
    is_log = low > 0 and high > _LOG_FROM * low
    height = _lifted if is_log else float
    y_ticks = _log_ticks(low, high) if is_log else round_ticks(*_around(low, high))
    last_step = max(x for x, _ in places)
    plot = Plot(
        x=Scale(low=0, high=last_step),
        y=Scale(low=min(y_ticks[0].at, height(low)), high=max(y_ticks[-1].at, height(high))),
        height=_HEIGHT,
    )
    marks = [one.first_step for one in run.attempts[1:] if one.first_step is not None]
    drawn = picture(
        plot,
        uprights(plot, marks),
        plot.stretched(
            plot.path(plot.line((x, height(y)) for x, y in calm), "band"),
            plot.path("".join(plot.line((x, height(y)) for x, y in one) for one in lines), "work"),
        ),
        description=f"{name} over steps, of the disturbed and the undisturbed run.",
        x_ticks=whole_ticks(last_step, 6),
        x_title="steps done",
        y_ticks=y_ticks,
        y_title=f"{_shortened(name)}{' (logarithmic)' if is_log else ''}",
    )
    heading = None if is_only else element("h3", "Run in ", element("bdi", run.folder))
    agreement = compare(calm, [place for line in lines for place in line])
    said = element("p", *_said(name, agreement, bool(calm), _has_gaps(run)), class_="note")
    legend = line_legend(
        (bool(calm), "line band", "undisturbed"),
        (True, "line work", "evicted"),
        (0 < len(marks) <= MARKS_MAX, "gone", "an attempt resumed"),
    )
    return join([heading, said, legend, drawn])


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS_MAX else f"{name[:_NAME_CHARACTERS_MAX]}\u2026"


def _lines(name: str, run: RunEvidence) -> Iterator[list[Place]]:
    """A line for each attempt, because what lies between two was not measured."""
    for number in dict.fromkeys(one.attempt for one in run.metrics):
        line = list(_values(name, [one for one in run.metrics if one.attempt == number]))
        if line:
            yield line


def _values(name: str, metrics: Iterable[Point]) -> Iterator[Place]:
    for one in metrics:
        if one.name == name and one.value is not None and math.isfinite(one.value):
            yield float(one.step), one.value


def _around(low: float, high: float) -> tuple[float, float]:
    """Where values are all the same, a scale around them."""
    if high > low:
        return (0.0 if 0 < low < 0.4 * high else low), high
    margin = abs(low) or 1.0
    return low - margin, high + margin


def _lifted(value: float) -> float:
    return math.log10(value)


def _log_ticks(low: float, high: float) -> list[Tick]:
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    step = max(1, (last - first) // 5)
    powers = range(first, last + 1, step)
    return [Tick(at=float(one), said=f"{10.0**one:g}") for one in powers]


def _has_gaps(run: RunEvidence) -> bool:
    return any((b.first_step or 0) > a.last_step for a, b in pairwise(run.attempts))


def _said(
    name: str, agreement: Agreement | None, has_calm: bool, has_gaps: bool
) -> Iterator[object]:
    yield element("code", name)
    if not has_calm:
        yield " has no undisturbed run in a journal to be compared with."
    elif agreement is None:
        yield " was not written down for any step by both runs."
    elif agreement.largest_difference == 0:
        yield f" is the same, bit for bit, wherever both journals have it: at {agreement.steps:,}"
        yield " steps."
    else:
        yield f" differs by up to {agreement.largest_difference:.3g} at the {agreement.steps:,}"
        yield " steps that both journals have."
    if has_gaps:
        yield " Gaps: an attempt was killed before its last steps were written down."
