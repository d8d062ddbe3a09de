"""The picture of time at work, for commands without a journal. Pure.

A piece is drawn as lost from the attempt's last write to its eviction: the most that it can be, if
that write was a save.
"""

from collections.abc import Iterator, Sequence

from outlast.drill.page.axes import Plot, Scale, picture, time_ticks
from outlast.drill.page.losses import WorkLost
from outlast.drill.page.markup import Html, element, join, prose
from outlast.drill.page.strokes import MARKS_MAX, Place, line_legend, lost_labels, uprights
from outlast.drill.page.work import Climb, climbs_of
from outlast.drill.records import Leg
from outlast.drill.report import Report

_HEIGHT = 240.0
_SHOWN_SECONDS_MIN = 0.05


def time_at_work(report: Report, leg: Leg, lost: Sequence[WorkLost]) -> Html:
    climbs = climbs_of(leg)
    total = climbs[-1].after if climbs else 0.0
    needed = report.figures.work_seconds if report.figures is not None else None
    is_crowded = len(leg.evictions) > MARKS_MAX
    pieces = [] if is_crowded else list(_lost_pieces(climbs, lost))
    return join(
        [
            element("p", prose(_said(total, needed)), class_="note"),
            line_legend(
                (bool(leg.evictions) and not is_crowded, "gone", "an eviction"),
                (bool(pieces), "line lost", _lost_means(lost)),
            ),
            _picture(leg, climbs, pieces, total=total, needed=needed),
        ]
    )


def _lost_means(lost: Sequence[WorkLost]) -> str:
    if any(one.is_all for one in lost):
        return "lost, because it started over"
    return "after its last write: the most that was lost"


def _said(total: float, needed: float | None) -> str:
    said = f"The command keeps no journal, so this is time at work: {total:.1f} s"
    if needed is not None:
        said += f"; an undisturbed run needs {needed:.1f} s"
    return f"{said}."


def _picture(
    leg: Leg,
    climbs: Sequence[Climb],
    pieces: Sequence[Sequence[Place]],
    *,
    total: float,
    needed: float | None,
) -> Html:
    highest = max(total, needed or 0.0, 0.1)
    plot = Plot(
        x=Scale(low=0, high=leg.seconds), y=Scale(low=0, high=highest * 1.08), height=_HEIGHT
    )
    ticks, unit = time_ticks(leg.seconds)
    y_ticks, y_unit = time_ticks(highest, 4)
    goal = name = None
    if needed is not None:
        goal = plot.path(plot.line([(0.0, needed), (leg.seconds, needed)]), "goal")
        name = plot.said(0, plot.top(needed) - 7, "an undisturbed run is done here", "calm")
    return picture(
        plot,
        uprights(plot, [one.at_seconds for one in leg.evictions]),
        plot.stretched(
            goal,
            plot.path(plot.line(_stairs(climbs, leg.seconds)), "work"),
            plot.path("".join(map(plot.line, pieces)), "lost"),
        ),
        name,
        lost_labels(plot, pieces, unit="s"),
        description=f"Time at work, {total:.1f} seconds in the end.",
        x_ticks=ticks,
        x_title=f"{unit} since the start",
        y_ticks=y_ticks,
        y_title=f"{y_unit} of work",
    )


def _stairs(climbs: Sequence[Climb], end: float) -> Iterator[Place]:
    yield 0.0, 0.0
    for one in climbs:
        yield one.start, one.before
        yield one.end, one.after
    yield end, climbs[-1].after if climbs else 0.0


def _lost_pieces(climbs: Sequence[Climb], lost: Sequence[WorkLost]) -> Iterator[list[Place]]:
    bounds = {one.eviction.attempt: one.seconds_max for one in lost}
    for one in climbs:
        seconds = bounds.get(one.attempt) if one.attempt is not None else None
        if seconds is not None and seconds >= _SHOWN_SECONDS_MIN:
            seconds = min(seconds, one.after - one.before)
            yield [(one.end - seconds, one.after - seconds), (one.end, one.after)]
