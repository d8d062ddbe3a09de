"""The chart of progress over time with the work that was lost. Pure.

If the command has a journal of this library, progress is counted in steps; otherwise it is time at
work (see `time_at_work`). Journals are thinned out before they get here, and a kill loses their
last lines, so an attempt may have gone further than its last known point.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from outlast.drills.judge.evidence import JournaledRun, ProgressPoint
from outlast.drills.judge.report import DrillReport
from outlast.drills.page.time_at_work import time_at_work
from outlast.drills.page.work_lost import MARKS_MAX, WorkLost, lost_labels
from outlast.drills.run.records import JobRun
from outlast.report.axes import (
    Plot,
    Position,
    Scale,
    framed,
    line_legend,
    picture,
    time_ticks,
    whole_ticks,
)
from outlast.report.charts import TimedAmounts, time_histogram
from outlast.report.markup import Html, element, join
from outlast.report.page import note

RUNS_MAX = 4
_HEIGHT = 260.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StepLines:
    """Lines through pairs of seconds and steps.

    `attempts` has a line per attempt of the run, empty if nothing is known about it. `lost` are the
    pieces that the next attempt repeated, `waits` go from the end of an attempt to the start of the
    next, `unknown` to where the next attempt began beyond the last known step.
    """

    attempts: tuple[list[Position], ...]
    lost: tuple[list[Position], ...]
    waits: tuple[list[Position], ...]
    unknown: tuple[list[Position], ...]


def progress(report: DrillReport, lost: Sequence[WorkLost]) -> Html | None:
    """The section; None if there was no evicted run."""
    job_run = report.evicted
    if job_run is None or not job_run.attempts:
        return None
    counted = [
        run for run in report.runs if any(one.first_step is not None for one in run.attempts)
    ]
    baselines = {run.folder: run for run in report.baseline_runs}
    if counted:
        drawn = [_steps(run, baselines.get(run.folder), job_run) for run in counted[:RUNS_MAX]]
        if len(counted) > RUNS_MAX:
            drawn.append(note(f"{len(counted) - RUNS_MAX:,} more runs are not shown."))
    else:
        drawn = [time_at_work(report, job_run, lost)]
    return element("section", element("h2", "Progress and lost work"), *drawn)


def _steps(run: JournaledRun, baseline_run: JournaledRun | None, job_run: JobRun) -> Html:
    lines = step_lines(run, job_run)
    points = baseline_run.progress if baseline_run else ()
    baseline = [(one.seconds, float(one.step)) for one in points]
    heading = element("h3", "Run in ", element("bdi", run.folder)) if run.folder != "run" else None
    is_crowded = len(job_run.evictions) > MARKS_MAX
    return join(
        [
            heading,
            note(_sentence(run)),
            line_legend(
                (bool(job_run.evictions) and not is_crowded, "event", "eviction"),
                (bool(lines.lost) and not is_crowded, "line lost", "lost and repeated"),
                (bool(lines.unknown), "line guess", "not recorded before a kill"),
            ),
            _picture(run, lines, baseline, job_run, is_crowded=is_crowded),
            _lost_over_time(run, job_run) if is_crowded and lines.lost else None,
        ]
    )


def _sentence(run: JournaledRun) -> str:
    lost = sum(one.steps_lost for one in run.attempts)
    repeated = f"{lost:,} had to be repeated" if lost else "None had to be repeated"
    return f"{run.steps_done:,} steps were completed. {repeated}, according to the journal."


def _picture(
    run: JournaledRun,
    lines: StepLines,
    baseline: Sequence[Position],
    job_run: JobRun,
    *,
    is_crowded: bool,
) -> Html:
    reached = max((step for line in lines.attempts for _, step in line), default=0.0)
    last_step = max(reached, run.steps_done, 1.0)
    plot = Plot(
        x=Scale(low=0, high=max([job_run.seconds, *(x for x, _ in baseline[-1:])])),
        y=Scale(low=0, high=last_step * 1.04),
        height=_HEIGHT,
    )
    ticks, unit = time_ticks(plot.x.high)
    drawn = framed(
        plot,
        None if is_crowded else plot.vertical_lines(one.at_seconds for one in job_run.evictions),
        plot.stretched(
            plot.path(plot.line(baseline), "baseline"),
            plot.path("".join(map(plot.line, lines.waits)), "wait"),
            plot.path("".join(map(plot.line, lines.unknown)), "guess"),
            plot.path("".join(map(plot.line, lines.attempts)), "work"),
            None if is_crowded else plot.path("".join(map(plot.line, lines.lost)), "lost"),
        ),
        None if is_crowded else lost_labels(plot, lines.lost),
        _line_names(plot, baseline, lines),
        description=f"Steps done over time, {run.steps_done:,} in total.",
        x_ticks=ticks,
        x_title=f"{unit} since the start",
        y_ticks=whole_ticks(last_step),
        y_title="steps done",
    )
    return picture(drawn)


def _line_names(plot: Plot, baseline: Sequence[Position], lines: StepLines) -> Html:
    """The names of both lines next to them; the baseline is to the left of and above the other."""
    names = []
    if baseline:
        high = baseline[-1][1] * 0.8
        x, y = next(position for position in baseline if position[1] >= high)
        place = {"dx": -9, "text_anchor": "end"}
        names.append(plot.label(x, plot.top(y), "baseline", "baseline", **place))
    evicted = [position for line in lines.attempts for position in line]
    if evicted:
        high = max(y for _, y in evicted) * 0.3
        x, y = max(one for one in evicted if one[1] <= high or one == evicted[0])
        names.append(plot.label(x, plot.top(y) + 18, "evicted", "work", dx=12))
    return join(names)


def _lost_over_time(run: JournaledRun, job_run: JobRun) -> Html:
    ends = {one.number: one.ended_seconds for one in job_run.attempts}
    amounts = [
        (ends[one.attempt], float(one.steps_lost))
        for one in run.attempts
        if one.attempt is not None and one.attempt in ends and one.steps_lost
    ]
    series = TimedAmounts(name="lost", class_="lost", amounts=amounts)
    return time_histogram([series], span_seconds=job_run.seconds, of_what="steps lost")


def step_lines(run: JournaledRun, job_run: JobRun) -> StepLines:
    """The lines of a run."""
    lines = tuple(_attempt_lines(run, job_run))
    resumed = _resumed_at(run)
    ended = {one.number: one.ended_seconds for one in job_run.attempts}
    ends = [ended.get(one.attempt or 0, 0.0) for one in run.attempts]
    pieces = (_lost(line, step) for line, step in zip(lines, resumed, strict=True))
    return StepLines(
        attempts=lines,
        lost=tuple(piece for piece in pieces if piece),
        waits=tuple(_waits(lines, resumed, ends)),
        unknown=tuple(_unknown(lines, resumed, ends)),
    )


def _attempt_lines(run: JournaledRun, job_run: JobRun) -> Iterator[list[Position]]:
    attempts = {one.number: one for one in job_run.attempts}
    points: dict[int | None, list[ProgressPoint]] = {}
    for point in run.progress:
        points.setdefault(point.attempt, []).append(point)
    for one in run.attempts:
        attempt = attempts.get(one.attempt) if one.attempt is not None else None
        if attempt is None or one.first_step is None:
            yield []
            continue
        known = [(p.seconds, float(p.step)) for p in points.get(one.attempt, ())]
        begun = attempt.ready_seconds or attempt.started_seconds
        line = [(min([begun, *(x for x, _ in known[:1])]), float(one.first_step)), *known]
        if one.last_step > line[-1][1]:
            line.append((attempt.ended_seconds, float(one.last_step)))
        yield line


def _resumed_at(run: JournaledRun) -> list[float | None]:
    """For each attempt, the step at which the next one resumed; None for the last."""
    found: list[float | None] = []
    after: float | None = None
    for one in reversed(run.attempts):
        found.append(after)
        after = after if one.first_step is None else float(one.first_step)
    return found[::-1]


def _lost(line: list[Position], resumed: float | None) -> list[Position]:
    if resumed is None or not line or line[-1][1] <= resumed:
        return []
    index = next(i for i, (_, step) in enumerate(line) if step > resumed)
    if index == 0:
        return line
    (x1, y1), (x2, y2) = line[index - 1], line[index]
    return [(x1 + (x2 - x1) * (resumed - y1) / (y2 - y1), resumed), *line[index:]]


def _waits(
    lines: Sequence[list[Position]], resumed: Sequence[float | None], ends: Sequence[float]
) -> Iterator[list[Position]]:
    """First back to the saved step, then to the start of the next attempt."""
    known = [one for one in zip(lines, resumed, ends, strict=True) if one[0]]
    for (line, step, ended), (after, _, _) in pairwise(known):
        (seen, reached), start = line[-1], after[0][0]
        if step is not None and step <= reached and start >= seen:
            yield [(seen, reached), (seen, step), (start, step)]
        elif step is not None and step > reached and start >= ended:
            yield [(ended, step), (start, step)]


def _unknown(
    lines: Sequence[list[Position]], resumed: Sequence[float | None], ends: Sequence[float]
) -> Iterator[list[Position]]:
    for line, step, ended in zip(lines, resumed, ends, strict=True):
        if line and step is not None and step > line[-1][1]:
            yield [line[-1], (ended, step)]
