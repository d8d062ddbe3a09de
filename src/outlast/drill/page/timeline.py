"""The picture of what happened when: attempts as bars, evictions, and writes. Pure.

The attempts of one worker have a row each; those of several share a lane for each worker. Where
that is too much for the eye, lanes show only whether a node was up, and evictions are counted (see
`crowd`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outlast.drill.page import kinds
from outlast.drill.page.axes import Plot, Scale, picture, time_ticks
from outlast.drill.page.crowd import crowded_timeline
from outlast.drill.page.markup import Html, element, join, number
from outlast.drill.records import Attempt, Ended, Eviction, Leg
from outlast.drill.report import Report

ROWS_MAX = 60
LANE_MAX = 20
_WRITES_PER_WIDTH = 700
_HEIGHT_MAX = 720.0

Life = tuple[Attempt, Eviction | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A row of the picture: some attempts, one after the other."""

    label: str
    attempts: tuple[Attempt, ...]


def timeline(report: Report) -> Html | None:
    """The section; None if nothing ever ran."""
    leg = report.disturbed or report.baseline
    if leg is None or not leg.attempts:
        return None
    calm_seconds = None if report.figures is None else report.figures.seconds
    rows = rows_of(leg.attempts)
    is_crowded = len(rows) > ROWS_MAX or any(len(row.attempts) > LANE_MAX for row in rows)
    if is_crowded:
        drawn = crowded_timeline(leg, [(row.label, row.attempts) for row in rows])
    else:
        drawn = _bars(leg, rows, calm_seconds)
    return element(
        "section",
        element("h2", "What happened when"),
        kinds.legend(leg, is_crowded=is_crowded),
        drawn,
    )


def rows_of(attempts: Sequence[Attempt]) -> list[Row]:
    """One row per attempt while they are few and of one worker; else lanes."""
    workers = sorted({one.worker for one in attempts})
    if len(workers) == 1 and len(attempts) <= ROWS_MAX:
        return [Row(label=str(one.number), attempts=(one,)) for one in attempts]
    rows = []
    for worker in workers:
        name = f"worker {worker}" if len(workers) > 1 else "attempts"
        for index, lane in enumerate(_lanes([one for one in attempts if one.worker == worker])):
            rows.append(Row(label=name if index == 0 else "beside", attempts=tuple(lane)))
    return rows


def _lanes(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """The attempts in as few lanes as it takes for none to overlap in its lane."""
    lanes: list[list[Attempt]] = []
    for one in sorted(attempts, key=lambda one: one.started_seconds):
        free = [lane for lane in lanes if lane[-1].ended_seconds <= one.started_seconds]
        if free:
            free[0].append(one)
        else:
            lanes.append([one])
    return lanes


def _bars(leg: Leg, rows: Sequence[Row], calm_seconds: float | None) -> Html:
    has_calm = calm_seconds is not None and bool(leg.evictions)
    step = min(30.0, max(12.0, _HEIGHT_MAX / (len(rows) + 1)))
    span = max(leg.seconds, calm_seconds or 0.0, *(one.ended_seconds for one in leg.attempts))
    height = step * (len(rows) + has_calm)
    plot = Plot(x=Scale(low=0, high=span), y=Scale(low=0, high=1), height=height)
    ticks, unit = time_ticks(span)
    calm = _calm_row(plot, step, calm_seconds) if has_calm and calm_seconds is not None else None
    is_single = rows[0].label == str(leg.attempts[0].number)
    return picture(
        plot,
        calm,
        *_rows(plot, rows, leg, step=step, skipped=int(has_calm), has_words=is_single),
        description=_description(leg),
        x_ticks=ticks,
        x_title=f"{unit} since the start",
        y_title="attempt" if is_single else None,
        class_="" if is_single else "lanes",
    )


def _rows(
    plot: Plot, rows: Sequence[Row], leg: Leg, *, step: float, skipped: int, has_words: bool
) -> Iterator[Html]:
    """First all bars, then what was written, then signs and words, so that none is hidden."""
    thick = min(14.0, step * 0.55)
    evictions = {one.number: one for one in leg.evictions}
    placed = [
        (
            step * (index + skipped + 0.5),
            row,
            [(one, evictions.get(one.eviction) if one.eviction else None) for one in row.attempts],
        )
        for index, row in enumerate(rows)
    ]
    for middle, row, lives in placed:
        yield element("text", row.label, x=-8, y=middle + 4, text_anchor="end")
        yield _row(plot, lives, middle, thick)
    writes = [
        _writes(plot, row, leg, top=middle + thick / 2, height=min(5.0, step * 0.2))
        for middle, row, _ in placed
    ]
    yield plot.stretched(plot.path("".join(writes), "save"))
    for middle, _, lives in placed:
        yield _marks(plot, lives, middle, has_words=has_words)


def _calm_row(plot: Plot, step: float, seconds: float) -> Html:
    middle = step / 2
    width = plot.width(0, seconds)
    bar = element("rect", x=0, y=middle - 3, width=width, height=6, class_="bar calm")
    title = element("title", f"The undisturbed run took {seconds:.2f} s.")
    has_room = plot.x.share(seconds) < 0.7
    where = {"dx": 10} if has_room else {"dx": -8, "text_anchor": "end"}
    return element("g", title, bar, plot.said(seconds, middle + 4, "undisturbed", "calm", **where))


def _row(plot: Plot, lives: Sequence[Life], middle: float, thick: float) -> Html:
    """The bars of a row."""
    drawn = []
    for attempt, eviction in lives:
        bars = [
            element(
                "rect",
                x=plot.left(start),
                y=middle - thick / 2,
                width=plot.width(start, end),
                height=thick,
                class_=f"bar {name}",
            )
            for start, end, name in _parts(attempt, eviction)
        ]
        drawn.append(element("g", element("title", _told(attempt, eviction)), *bars))
    return join(drawn)


def _marks(plot: Plot, lives: Sequence[Life], middle: float, *, has_words: bool) -> Html:
    """The signs on the bars of a row, and the words beside them."""
    drawn = []
    for attempt, eviction in lives:
        if eviction is not None:
            drawn.append(kinds.signs(eviction, plot.left(eviction.at_seconds), middle))
        if has_words:
            drawn.append(_label(plot, attempt, eviction, middle))
    return join(drawn)


def _parts(attempt: Attempt, eviction: Eviction | None) -> list[tuple[float, float, str]]:
    """The phases of an attempt: starting, running, told to stop."""
    end = attempt.ended_seconds
    told = eviction.at_seconds if eviction is not None and eviction.notice else end
    ready = min(attempt.ready_seconds if attempt.ready_seconds is not None else told, told)
    spans = ((attempt.started_seconds, ready, "start"), (ready, told, "work"), (told, end, "grace"))
    return [one for one in spans if one[1] > one[0]] or [(end, end, "start")]


def _writes(plot: Plot, row: Row, leg: Leg, *, top: float, height: float) -> str:
    """Ticks below the bars for what was written, thinned to what a screen can show."""
    times = [save.at_seconds for save in leg.saves]
    shown: dict[int, float] = {}
    for one in row.attempts:
        first = bisect_left(times, one.started_seconds)
        for at in times[first : bisect_right(times, one.ended_seconds)]:
            shown.setdefault(round(plot.x.share(at) * _WRITES_PER_WIDTH), at)
    return "".join(
        f"M{plot.place(at, 1 - top / plot.height)}v{number(height)}" for at in shown.values()
    )


def _label(plot: Plot, attempt: Attempt, eviction: Eviction | None, middle: float) -> Html:
    """What became of an attempt, beside its bar where there is most room."""
    words = _ending(attempt, eviction)
    room_right = 1 - plot.x.share(attempt.ended_seconds)
    room_left = plot.x.share(attempt.started_seconds)
    top = middle + 4
    if max(room_left, room_right) < 0.3:
        at = attempt.ready_seconds or attempt.started_seconds
        return plot.said(at, top, words, "inside wide", dx=8)
    if room_right >= room_left:
        return plot.said(attempt.ended_seconds, top, words, "wide", dx=14)
    return plot.said(attempt.started_seconds, top, words, "wide", dx=-10, text_anchor="end")


def _ending(attempt: Attempt, eviction: Eviction | None) -> str:
    if eviction is not None:
        end = "" if not eviction.notice and eviction.killed else f": {kinds.end_of(eviction)}"
        return f"{kinds.kind_of(eviction)}{end}"
    return {
        Ended.FINISHED: "finished",
        Ended.FAILED: f"failed by itself, exit {attempt.exit_code}",
        Ended.STOPPED: "stopped at the end",
        Ended.EVICTED: "evicted",
    }[attempt.ended]


def _told(attempt: Attempt, eviction: Eviction | None) -> str:
    span = f"{attempt.started_seconds:.2f} s to {attempt.ended_seconds:.2f} s"
    return f"Attempt {attempt.number}, {span}: {_ending(attempt, eviction)}."


def _description(leg: Leg) -> str:
    silent = sum(not one.notice for one in leg.evictions)
    return (
        f"Timeline of {len(leg.attempts)} attempts over {leg.seconds:.1f} seconds with"
        f" {len(leg.evictions)} evictions, {silent} of them without notice, and"
        f" {len(leg.saves)} writes. The table of evictions has the numbers."
    )
