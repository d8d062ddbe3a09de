"""The picture of progress over time with the pieces that were lost. Pure.

Where the command keeps a journal of this library, progress is counted in steps; elsewhere it is
time at work (see `at_work`).
"""

from collections.abc import Sequence

from outlast.drill.evidence import RunEvidence
from outlast.drill.page.at_work import time_at_work
from outlast.drill.page.axes import Plot, Scale, picture, time_ticks, whole_ticks
from outlast.drill.page.histogram import Series, histogram
from outlast.drill.page.lives import Lives, lives_of
from outlast.drill.page.losses import WorkLost
from outlast.drill.page.markup import Html, element, join, prose
from outlast.drill.page.strokes import MARKS_MAX, Place, line_legend, lost_labels, uprights
from outlast.drill.records import Leg
from outlast.drill.report import Report

RUNS_MAX = 4
_HEIGHT = 260.0


def progress(report: Report, lost: Sequence[WorkLost]) -> Html | None:
    """The section; None if there was no disturbed leg."""
    leg = report.disturbed
    if leg is None or not leg.attempts:
        return None
    counted = [
        run for run in report.runs if any(one.first_step is not None for one in run.attempts)
    ]
    calm = {run.folder: run for run in report.baseline_runs}
    if counted:
        drawn = [_steps(run, calm.get(run.folder), leg) for run in counted[:RUNS_MAX]]
        if len(counted) > RUNS_MAX:
            said = f"{len(counted) - RUNS_MAX:,} more runs are not drawn."
            drawn.append(element("p", said, class_="note"))
    else:
        drawn = [time_at_work(report, leg, lost)]
    return element("section", element("h2", "Progress, and what was lost"), *drawn)


def _steps(run: RunEvidence, calm: RunEvidence | None, leg: Leg) -> Html:
    lines = lives_of(run, leg)
    undisturbed = [(one.seconds, float(one.step)) for one in calm.progress] if calm else []
    heading = element("h3", "Run in ", element("bdi", run.folder)) if run.folder != "run" else None
    is_crowded = len(leg.evictions) > MARKS_MAX
    return join(
        [
            heading,
            element("p", prose(_said(run)), class_="note"),
            line_legend(
                (bool(leg.evictions) and not is_crowded, "gone", "an eviction"),
                (bool(lines.lost) and not is_crowded, "line lost", "lost, and done again"),
                (bool(lines.unknown), "line guess", "not written down before a kill"),
            ),
            _picture(run, lines, undisturbed, leg, is_crowded=is_crowded),
            _lost_over_time(run, leg) if is_crowded and lines.lost else None,
        ]
    )


def _said(run: RunEvidence) -> str:
    lost = sum(one.steps_lost for one in run.attempts)
    said = f"{run.steps_done:,} steps are kept. "
    said += f"{lost:,} had to be done again" if lost else "None had to be done again"
    said += ", as far as the journal tells."
    return said


def _picture(
    run: RunEvidence, lines: Lives, undisturbed: Sequence[Place], leg: Leg, *, is_crowded: bool
) -> Html:
    reached = max((step for life in lines.lives for _, step in life), default=0.0)
    last_step = max(reached, run.steps_done, 1.0)
    plot = Plot(
        x=Scale(low=0, high=max([leg.seconds, *(x for x, _ in undisturbed[-1:])])),
        y=Scale(low=0, high=last_step * 1.04),
        height=_HEIGHT,
    )
    ticks, unit = time_ticks(plot.x.high)
    return picture(
        plot,
        uprights(plot, [one.at_seconds for one in leg.evictions]),
        plot.stretched(
            plot.path(plot.line(undisturbed), "calm"),
            plot.path("".join(map(plot.line, lines.waits)), "wait"),
            plot.path("".join(map(plot.line, lines.unknown)), "guess"),
            plot.path("".join(map(plot.line, lines.lives)), "work"),
            None if is_crowded else plot.path("".join(map(plot.line, lines.lost)), "lost"),
        ),
        None if is_crowded else lost_labels(plot, lines.lost),
        _names(plot, undisturbed, lines),
        description=f"Steps done over time, {run.steps_done:,} in the end.",
        x_ticks=ticks,
        x_title=f"{unit} since the start",
        y_ticks=whole_ticks(last_step),
        y_title="steps done",
    )


def _names(plot: Plot, undisturbed: Sequence[Place], lines: Lives) -> Html:
    """The names of both lines beside them: one is to the left of and above the other."""
    names = []
    if undisturbed:
        high = undisturbed[-1][1] * 0.8
        x, y = next(place for place in undisturbed if place[1] >= high)
        names.append(plot.said(x, plot.top(y), "undisturbed", "calm", dx=-9, text_anchor="end"))
    evicted = [place for life in lines.lives for place in life]
    if evicted:
        high = max(y for _, y in evicted) * 0.3
        x, y = max(place for place in evicted if place[1] <= high or place == evicted[0])
        names.append(plot.said(x, plot.top(y) + 18, "evicted", "work", dx=12))
    return join(names)


def _lost_over_time(run: RunEvidence, leg: Leg) -> Html:
    ends = {one.number: one.ended_seconds for one in leg.attempts}
    amounts = [
        (ends[one.attempt], float(one.steps_lost))
        for one in run.attempts
        if one.attempt is not None and one.attempt in ends and one.steps_lost
    ]
    series = Series(name="lost", class_="lost", amounts=amounts)
    return histogram([series], span_seconds=leg.seconds, of_what="steps lost")
