"""The chart of time at work, for commands without a journal. Pure.

Work counts as lost from the attempt's last write to its eviction: an upper bound, if that write was
a save.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outlast.drills.judge.report import DrillReport
from outlast.drills.page.work_lost import MARKS_MAX, SHOWN_SECONDS_MIN, WorkLost, lost_labels
from outlast.drills.run.records import Eviction, JobRun, SigtermHandling
from outlast.report.axes import Plot, Position, Scale, framed, line_legend, picture, time_ticks
from outlast.report.markup import Html, join
from outlast.report.page import note

_HEIGHT = 240.0


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkPeriod:
    """A period of work; `before` and `after` are the total work at its start and end.

    `attempt` is None if several attempts worked at the same time.
    """

    start: float
    end: float
    before: float
    after: float
    attempt: int | None


def time_at_work(report: DrillReport, job_run: JobRun, lost: Sequence[WorkLost]) -> Html:
    periods = work_periods(job_run)
    total = periods[-1].after if periods else 0.0
    needed = report.figures.work_seconds if report.figures is not None else None
    is_crowded = len(job_run.evictions) > MARKS_MAX
    pieces = [] if is_crowded else list(_lost_pieces(periods, lost))
    return join(
        [
            note(_sentence(total, needed)),
            line_legend(
                (bool(job_run.evictions) and not is_crowded, "event", "eviction"),
                (bool(pieces), "line lost", _lost_meaning(lost)),
            ),
            _picture(job_run, periods, pieces, total=total, needed=needed),
        ]
    )


def _lost_meaning(lost: Sequence[WorkLost]) -> str:
    if any(one.is_all for one in lost):
        return "lost, because it started over"
    return "after the last write: at most this was lost"


def _sentence(total: float, needed: float | None) -> str:
    sentence = f"The command has no journal, so this shows time at work: {total:.1f} s in total"
    if needed is not None:
        sentence += f"; the baseline needs {needed:.1f} s"
    return f"{sentence}."


def _picture(
    job_run: JobRun,
    periods: Sequence[WorkPeriod],
    pieces: Sequence[Sequence[Position]],
    *,
    total: float,
    needed: float | None,
) -> Html:
    highest = max(total, needed or 0.0, 0.1)
    plot = Plot(
        x=Scale(low=0, high=job_run.seconds), y=Scale(low=0, high=highest * 1.08), height=_HEIGHT
    )
    ticks, unit = time_ticks(job_run.seconds)
    y_ticks, y_unit = time_ticks(highest, 4)
    goal = name = None
    if needed is not None:
        goal = plot.path(plot.line([(0.0, needed), (job_run.seconds, needed)]), "goal")
        name = plot.label(0, plot.top(needed) - 7, "the baseline finishes here", "baseline")
    is_crowded = len(job_run.evictions) > MARKS_MAX
    drawn = framed(
        plot,
        None if is_crowded else plot.vertical_lines(one.at_seconds for one in job_run.evictions),
        plot.stretched(
            goal,
            plot.path(plot.line(_stairs(periods, job_run.seconds)), "work"),
            plot.path("".join(map(plot.line, pieces)), "lost"),
        ),
        name,
        lost_labels(plot, pieces, unit="s"),
        description=f"Time at work over time, {total:.1f} seconds in total.",
        x_ticks=ticks,
        x_title=f"{unit} since the start",
        y_ticks=y_ticks,
        y_title=f"{y_unit} of work",
    )
    return picture(drawn)


def _stairs(periods: Sequence[WorkPeriod], end: float) -> Iterator[Position]:
    yield 0.0, 0.0
    for one in periods:
        yield one.start, one.before
        yield one.end, one.after
    yield end, periods[-1].after if periods else 0.0


def _lost_pieces(
    periods: Sequence[WorkPeriod], lost: Sequence[WorkLost]
) -> Iterator[list[Position]]:
    bounds = {one.eviction.attempt: one.seconds_max for one in lost}
    for one in periods:
        seconds = bounds.get(one.attempt) if one.attempt is not None else None
        if seconds is not None and seconds >= SHOWN_SECONDS_MIN:
            seconds = min(seconds, one.after - one.before)
            yield [(one.end - seconds, one.after - seconds), (one.end, one.after)]


def work_periods(job_run: JobRun) -> list[WorkPeriod]:
    """The periods in which at least one node was at work, in order."""
    periods: list[WorkPeriod] = []
    done = 0.0
    for start, end, attempt in _merged(sorted(_spans(job_run))):
        periods.append(
            WorkPeriod(start=start, end=end, before=done, after=done + end - start, attempt=attempt)
        )
        done += end - start
    return periods


def _spans(job_run: JobRun) -> Iterator[tuple[float, float, int]]:
    evictions = {one.attempt: one for one in job_run.evictions}
    for one in job_run.attempts:
        if one.ready_seconds is None:
            continue
        eviction = evictions.get(one.number)
        end = one.ended_seconds
        if eviction is not None and _stopped_at_notice(eviction):
            end = eviction.at_seconds
        if end > one.ready_seconds:
            yield one.ready_seconds, end, one.number


def _stopped_at_notice(eviction: Eviction) -> bool:
    """A program that does not catch SIGTERM works until it is killed."""
    return eviction.notice and eviction.handling in (
        SigtermHandling.CAUGHT,
        SigtermHandling.UNKNOWN,
    )


def _merged(
    spans: Sequence[tuple[float, float, int]],
) -> Iterator[tuple[float, float, int | None]]:
    current: tuple[float, float, int | None] | None = None
    for start, end, attempt in spans:
        if current is not None and start < current[1]:
            current = (current[0], max(current[1], end), None)
            continue
        if current is not None:
            yield current
        current = (start, end, attempt)
    if current is not None:
        yield current
