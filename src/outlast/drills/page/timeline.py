"""The timeline of a drill: attempts as bars, evictions, and writes. Pure.

Each attempt of a single worker has a row; the attempts of several workers share a lane per worker.
If there are too many, lanes only show when a node was up, and evictions are counted over time; the
size of that chart depends on the width of a screen, not on the number of attempts.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outlast.drills.judge.report import DrillReport
from outlast.drills.page import eviction_kinds
from outlast.drills.run.records import Attempt, AttemptEnd, Eviction, JobRun
from outlast.report.axes import Plot, Scale, framed, picture, time_ticks
from outlast.report.charts import TimedAmounts, time_histogram
from outlast.report.markup import Html, element, join, number

ROWS_MAX = 60
LANE_MAX = 20
_WRITES_PER_WIDTH = 700
_HEIGHT_MAX = 720.0
_CROWD_COLUMNS = 1000
_CROWD_HEIGHT_MAX = 360.0
_CROWD_LABEL_FROM = 12.0

AttemptWithEviction = tuple[Attempt, Eviction | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class TimelineRow:
    """A row of the timeline: attempts that do not overlap."""

    label: str
    attempts: tuple[Attempt, ...]


def timeline(report: DrillReport) -> Html | None:
    """The section; None if nothing ran."""
    job_run = report.evicted or report.baseline
    if job_run is None or not job_run.attempts:
        return None
    baseline_seconds = None if report.figures is None else report.figures.seconds
    rows = rows_of(job_run.attempts)
    is_crowded = len(rows) > ROWS_MAX or any(len(row.attempts) > LANE_MAX for row in rows)
    if is_crowded:
        drawn = _crowded(job_run, rows)
    else:
        drawn = _bars(job_run, rows, baseline_seconds)
    return element(
        "section",
        element("h2", "Timeline"),
        eviction_kinds.legend(job_run, is_crowded=is_crowded),
        drawn,
    )


def rows_of(attempts: Sequence[Attempt]) -> list[TimelineRow]:
    """One row per attempt of a single worker, if there are few; otherwise lanes."""
    workers = sorted({one.worker for one in attempts})
    if len(workers) == 1 and len(attempts) <= ROWS_MAX:
        return [TimelineRow(label=str(one.number), attempts=(one,)) for one in attempts]
    rows = []
    for worker in workers:
        name = f"worker {worker}" if len(workers) > 1 else "attempts"
        for index, lane in enumerate(_lanes([one for one in attempts if one.worker == worker])):
            rows.append(TimelineRow(label=name if index == 0 else "overlap", attempts=tuple(lane)))
    return rows


def _lanes(attempts: Sequence[Attempt]) -> list[list[Attempt]]:
    """The attempts in as few lanes as possible, without overlaps in a lane."""
    lanes: list[list[Attempt]] = []
    for one in sorted(attempts, key=lambda one: one.started_seconds):
        free = [lane for lane in lanes if lane[-1].ended_seconds <= one.started_seconds]
        if free:
            free[0].append(one)
        else:
            lanes.append([one])
    return lanes


def _bars(job_run: JobRun, rows: Sequence[TimelineRow], baseline_seconds: float | None) -> Html:
    has_baseline = baseline_seconds is not None and bool(job_run.evictions)
    step = min(30.0, max(12.0, _HEIGHT_MAX / (len(rows) + 1)))
    span = max(
        job_run.seconds, baseline_seconds or 0.0, *(one.ended_seconds for one in job_run.attempts)
    )
    height = step * (len(rows) + has_baseline)
    plot = Plot(x=Scale(low=0, high=span), y=Scale(low=0, high=1), height=height)
    ticks, unit = time_ticks(span)
    baseline = (
        _baseline_row(plot, step, baseline_seconds)
        if has_baseline and baseline_seconds is not None
        else None
    )
    is_single = rows[0].label == str(job_run.attempts[0].number)
    drawn = framed(
        plot,
        baseline,
        *_rows(plot, rows, job_run, step=step, skipped=int(has_baseline), has_words=is_single),
        description=_description(job_run),
        x_ticks=ticks,
        x_title=f"{unit} since the start",
        y_title="attempt" if is_single else None,
    )
    return picture(drawn, class_="" if is_single else "lanes")


def _rows(
    plot: Plot,
    rows: Sequence[TimelineRow],
    job_run: JobRun,
    *,
    step: float,
    skipped: int,
    has_words: bool,
) -> Iterator[Html]:
    """First all bars, then writes, then symbols and labels, so that nothing is hidden."""
    thick = min(14.0, step * 0.55)
    evictions = {one.number: one for one in job_run.evictions}
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
        _writes(plot, row, job_run, top=middle + thick / 2, height=min(5.0, step * 0.2))
        for middle, row, _ in placed
    ]
    yield plot.stretched(plot.path("".join(writes), "save"))
    for middle, _, lives in placed:
        yield _marks(plot, lives, middle, has_words=has_words)


def _baseline_row(plot: Plot, step: float, seconds: float) -> Html:
    middle = step / 2
    width = plot.width(0, seconds)
    bar = element("rect", x=0, y=middle - 3, width=width, height=6, class_="bar baseline")
    title = element("title", f"The baseline took {seconds:.2f} s.")
    has_room = plot.x.share(seconds) < 0.7
    where = {"dx": 10} if has_room else {"dx": -8, "text_anchor": "end"}
    return element(
        "g", title, bar, plot.label(seconds, middle + 4, "baseline", "baseline", **where)
    )


def _row(plot: Plot, lives: Sequence[AttemptWithEviction], middle: float, thick: float) -> Html:
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
        drawn.append(element("g", element("title", _attempt_title(attempt, eviction)), *bars))
    return join(drawn)


def _marks(
    plot: Plot, lives: Sequence[AttemptWithEviction], middle: float, *, has_words: bool
) -> Html:
    """The symbols on the bars of a row, and their labels."""
    drawn = []
    for attempt, eviction in lives:
        if eviction is not None:
            drawn.append(eviction_kinds.symbols(eviction, plot.left(eviction.at_seconds), middle))
        if has_words:
            drawn.append(_label(plot, attempt, eviction, middle))
    return join(drawn)


def _parts(attempt: Attempt, eviction: Eviction | None) -> list[tuple[float, float, str]]:
    """The phases of an attempt: starting, running, grace period."""
    end = attempt.ended_seconds
    stop = eviction.at_seconds if eviction is not None and eviction.notice else end
    ready = min(attempt.ready_seconds if attempt.ready_seconds is not None else stop, stop)
    spans = ((attempt.started_seconds, ready, "start"), (ready, stop, "work"), (stop, end, "grace"))
    return [one for one in spans if one[1] > one[0]] or [(end, end, "start")]


def _writes(plot: Plot, row: TimelineRow, job_run: JobRun, *, top: float, height: float) -> str:
    """Ticks below the bars for writes, at most as many as a screen can show."""
    times = [save.at_seconds for save in job_run.saves]
    shown: dict[int, float] = {}
    for one in row.attempts:
        first = bisect_left(times, one.started_seconds)
        for at in times[first : bisect_right(times, one.ended_seconds)]:
            shown.setdefault(round(plot.x.share(at) * _WRITES_PER_WIDTH), at)
    return "".join(
        f"M{plot.point(at, 1 - top / plot.height)}v{number(height)}" for at in shown.values()
    )


def _label(plot: Plot, attempt: Attempt, eviction: Eviction | None, middle: float) -> Html:
    """How an attempt ended, next to its bar on the side with more room."""
    words = _ending(attempt, eviction)
    room_right = 1 - plot.x.share(attempt.ended_seconds)
    room_left = plot.x.share(attempt.started_seconds)
    top = middle + 4
    if max(room_left, room_right) < 0.3:
        at = attempt.ready_seconds or attempt.started_seconds
        return plot.label(at, top, words, "inside wide", dx=8)
    if room_right >= room_left:
        return plot.label(attempt.ended_seconds, top, words, "wide", dx=14)
    return plot.label(attempt.started_seconds, top, words, "wide", dx=-10, text_anchor="end")


def _ending(attempt: Attempt, eviction: Eviction | None) -> str:
    if eviction is not None:
        end = (
            ""
            if not eviction.notice and eviction.killed
            else f": {eviction_kinds.end_of(eviction)}"
        )
        return f"{eviction_kinds.kind_of(eviction)}{end}"
    return {
        AttemptEnd.FINISHED: "finished",
        AttemptEnd.FAILED: f"failed on its own, exit code {attempt.exit_code}",
        AttemptEnd.STOPPED: "stopped at the end",
        AttemptEnd.EVICTED: "evicted",
    }[attempt.ended]


def _attempt_title(attempt: Attempt, eviction: Eviction | None) -> str:
    span = f"{attempt.started_seconds:.2f} s to {attempt.ended_seconds:.2f} s"
    return f"Attempt {attempt.number}, {span}: {_ending(attempt, eviction)}."


def _description(job_run: JobRun) -> str:
    without_notice = sum(not one.notice for one in job_run.evictions)
    return (
        f"Timeline of {len(job_run.attempts)} attempts over {job_run.seconds:.1f} seconds with"
        f" {len(job_run.evictions)} evictions, {without_notice} of them without notice, and"
        f" {len(job_run.saves)} writes. The table of evictions lists the numbers."
    )


def _crowded(job_run: JobRun, rows: Sequence[TimelineRow]) -> Html:
    """Evictions counted over time, above lanes that show when nodes were up."""
    with_notice = [(one.at_seconds, 1.0) for one in job_run.evictions if one.notice]
    without = [(one.at_seconds, 1.0) for one in job_run.evictions if not one.notice]
    counts = time_histogram(
        [
            TimedAmounts(name="without notice", class_="lost", amounts=without),
            TimedAmounts(name="with notice", class_="grace", amounts=with_notice),
        ],
        span_seconds=job_run.seconds,
        of_what="evictions",
        class_="lanes",
    )
    return join([counts, _crowded_lanes(job_run, rows)])


def _crowded_lanes(job_run: JobRun, rows: Sequence[TimelineRow]) -> Html:
    step = min(24.0, max(4.0, _CROWD_HEIGHT_MAX / len(rows)))
    plot = Plot(
        x=Scale(low=0, high=job_run.seconds), y=Scale(low=0, high=1), height=step * len(rows)
    )
    ticks, unit = time_ticks(job_run.seconds)
    data = []
    labels = []
    for index, row in enumerate(rows):
        top, thick = step * (index + 0.15), step * 0.7
        data += [
            f"M{start} {number(top)}h{end - start}v{number(thick)}h{start - end}z"
            for start, end in columns_up(row.attempts, job_run.seconds)
        ]
        if step >= _CROWD_LABEL_FROM or index % 4 == 0:
            place = {"x": -8, "y": top + thick / 2 + 4, "text_anchor": "end"}
            labels.append(element("text", row.label, **place))
    bars = element("path", d="".join(data), class_="bar work")
    drawn = framed(
        plot,
        plot.stretched(bars, width=_CROWD_COLUMNS),
        *labels,
        description=f"When nodes were up, in {len(rows)} lanes over {job_run.seconds:.1f} seconds.",
        x_ticks=ticks,
        x_title=f"{unit} since the start; filled: a node was up",
    )
    return picture(drawn, class_="lanes")


def columns_up(attempts: Sequence[Attempt], span_seconds: float) -> list[tuple[int, int]]:
    """The ranges of screen columns in which a node was up."""
    up = bytearray(_CROWD_COLUMNS)
    for one in attempts:
        first = int(one.started_seconds / span_seconds * _CROWD_COLUMNS)
        last = min(_CROWD_COLUMNS - 1, int(one.ended_seconds / span_seconds * _CROWD_COLUMNS))
        up[first : last + 1] = b"\1" * (last + 1 - first)
    ranges: list[tuple[int, int]] = []
    for column in range(_CROWD_COLUMNS):
        if not up[column]:
            continue
        if ranges and ranges[-1][1] == column:
            ranges[-1] = (ranges[-1][0], column + 1)
        else:
            ranges.append((column, column + 1))
    return ranges
