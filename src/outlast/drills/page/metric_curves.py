"""The loss of the evicted run, drawn over that of the baseline. Pure.

Draws the metric named `loss`, or else one whose name contains it, or else the first one.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from outlast.drills.judge.evidence import JournaledRun, ProgressPoint
from outlast.drills.judge.report import DrillReport
from outlast.drills.page.work_lost import MARKS_MAX
from outlast.report.axes import (
    Plot,
    Position,
    Scale,
    framed,
    line_legend,
    log_ticks,
    picture,
    round_ticks,
    whole_ticks,
)
from outlast.report.markup import Html, element, join
from outlast.report.page import note

RUNS_MAX = 4
_NAME_CHARACTERS_MAX = 24
_HEIGHT = 240.0
_LOG_FROM = 50.0
"""If the largest value is more than this many times the smallest, the scale is logarithmic."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CurveComparison:
    """How two curves compare at the steps that both have."""

    steps: int
    largest_difference: float


def metric_curves(report: DrillReport) -> Html | None:
    """The section; None if no journal of the evicted run has metrics."""
    baselines = {run.folder: run for run in report.baseline_runs}
    drawn = [
        _curve(name, run, baselines.get(run.folder), is_only=len(report.runs) == 1)
        for run in report.runs
        if (name := chosen_name(run.metrics)) is not None
    ]
    if not drawn:
        return None
    more = len(drawn) - RUNS_MAX
    return element(
        "section",
        element("h2", "Metrics compared with the baseline"),
        *drawn[:RUNS_MAX],
        note(f"{more:,} more runs are not shown.") if more > 0 else None,
    )


def chosen_name(metrics: Iterable[ProgressPoint]) -> str | None:
    names = [name for name in dict.fromkeys(one.name for one in metrics) if name is not None]
    if "loss" in names:
        return "loss"
    return next((name for name in names if "loss" in name.lower()), names[0] if names else None)


def compare(baseline: Sequence[Position], evicted: Sequence[Position]) -> CurveComparison | None:
    """The largest difference at the same step; None without common steps.

    Repeated steps count repeatedly.
    """
    values = dict(baseline)
    gaps = [abs(value - values[step]) for step, value in evicted if step in values]
    return CurveComparison(steps=len(gaps), largest_difference=max(gaps)) if gaps else None


def _curve(
    name: str, run: JournaledRun, baseline_run: JournaledRun | None, *, is_only: bool
) -> Html:
    lines = list(_lines(name, run))
    baseline = list(_values(name, baseline_run.metrics)) if baseline_run is not None else []
    positions = [position for line in lines for position in line]
    if not baseline and not positions:
        return note(f"No value of {name} can be drawn.")
    marks = [one.first_step for one in run.attempts[1:] if one.first_step is not None]
    heading = None if is_only else element("h3", "Run in ", element("bdi", run.folder))
    comparison = compare(baseline, positions)
    sentence = _sentence(comparison, has_baseline=bool(baseline), has_gaps=_has_gaps(run))
    legend = line_legend(
        (bool(baseline), "line band", "baseline"),
        (True, "line work", "evicted"),
        (0 < len(marks) <= MARKS_MAX, "event", "an attempt resumed"),
    )
    drawn = _picture(name, baseline, lines, marks)
    return join(
        [heading, element("p", element("code", name), sentence, class_="note"), legend, drawn]
    )


def _picture(
    name: str,
    baseline: Sequence[Position],
    lines: Sequence[Sequence[Position]],
    marks: Sequence[int],
) -> Html:
    positions = [*baseline, *(position for line in lines for position in line)]
    low, high = min(y for _, y in positions), max(y for _, y in positions)
    is_log = low > 0 and high > _LOG_FROM * low
    y_ticks = log_ticks(low, high) if is_log else round_ticks(*_around(low, high))
    last_step = max(x for x, _ in positions)
    y = Scale(low=min(y_ticks[0].at, low), high=max(y_ticks[-1].at, high), is_log=is_log)
    plot = Plot(x=Scale(low=0, high=last_step), y=y, height=_HEIGHT)
    drawn = framed(
        plot,
        plot.vertical_lines(marks) if len(marks) <= MARKS_MAX else None,
        plot.stretched(
            plot.path(plot.line(baseline), "band"),
            plot.path("".join(map(plot.line, lines)), "work"),
        ),
        description=f"{name} by step, of the evicted run and the baseline.",
        x_ticks=whole_ticks(last_step, 6),
        x_title="steps done",
        y_ticks=y_ticks,
        y_title=f"{_shortened(name)}{' (logarithmic)' if is_log else ''}",
    )
    return picture(drawn)


def _shortened(name: str) -> str:
    return name if len(name) <= _NAME_CHARACTERS_MAX else f"{name[:_NAME_CHARACTERS_MAX]}\u2026"


def _lines(name: str, run: JournaledRun) -> Iterator[list[Position]]:
    """A line per attempt, because nothing was measured between two attempts."""
    for number in dict.fromkeys(one.attempt for one in run.metrics):
        line = list(_values(name, [one for one in run.metrics if one.attempt == number]))
        if line:
            yield line


def _values(name: str, metrics: Iterable[ProgressPoint]) -> Iterator[Position]:
    for one in metrics:
        if one.name == name and one.value is not None and math.isfinite(one.value):
            yield float(one.step), one.value


def _around(low: float, high: float) -> tuple[float, float]:
    """The range of the scale; wider than the values if they are all equal."""
    if high > low:
        return (0.0 if 0 < low < 0.4 * high else low), high
    margin = abs(low) or 1.0
    return low - margin, high + margin


def _has_gaps(run: JournaledRun) -> bool:
    return any((b.first_step or 0) > a.last_step for a, b in pairwise(run.attempts))


def _sentence(comparison: CurveComparison | None, *, has_baseline: bool, has_gaps: bool) -> str:
    """The rest of a sentence that begins with the name of the metric."""
    if not has_baseline:
        sentence = " has no baseline in a journal to compare with."
    elif comparison is None:
        sentence = " was not recorded by both runs for any common step."
    elif comparison.largest_difference == 0:
        sentence = (
            f" is identical, bit for bit, at all {comparison.steps:,} steps in both journals."
        )
    else:
        sentence = f" differs by up to {comparison.largest_difference:.3g} at the"
        sentence += f" {comparison.steps:,} steps in both journals."
    if has_gaps:
        sentence += " Gaps: an attempt was killed before its last steps were recorded."
    return sentence
