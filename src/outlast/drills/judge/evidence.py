"""Evidence from this library's journals, if the command uses the library.

Reads all journals below the folder of a run; changes nothing. A journal that cannot be read is
ignored.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.drills.run.records import Attempt, JobRun

if TYPE_CHECKING:
    from outlast.journal import AttemptRecord, AttemptSummary

_DEPTH_MAX = 4
_FOLDERS_MAX = 2000
_POINTS_MAX = 2000
_METRICS_MAX = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class JournaledAttempt:
    """An attempt as recorded in a journal. `attempt` is its number in the drill, if known.

    `first_step` is None if it ended before it recorded its first step.
    """

    run_attempt: int
    attempt: int | None
    first_step: int | None
    last_step: int
    saved_step: int | None
    steps_lost: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ProgressPoint:
    """The number of steps done at a time; with a `name`, a metric that was logged then."""

    seconds: float
    step: int
    attempt: int | None
    name: str | None = None
    value: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class JournaledRun:
    """A run as recorded in its journal. `save_seconds` and `resume_seconds` are medians."""

    folder: str
    finished: bool
    steps_done: int
    attempts: tuple[JournaledAttempt, ...]
    saves: int
    save_seconds: float | None
    resume_seconds: float | None
    progress: tuple[ProgressPoint, ...]
    metrics: tuple[ProgressPoint, ...]

    def steps_lost_by(self, attempt: int) -> int | None:
        """The steps lost at the end of an attempt of the drill; None if unknown."""
        lost = [one.steps_lost for one in self.attempts if one.attempt == attempt]
        return sum(lost) if lost else None


def read_evidence(
    folder: Path, job_run: JobRun, *, steps_seen: Mapping[int, tuple[int, int] | None] | None = None
) -> tuple[JournaledRun, ...]:
    """All journaled runs in the folder of a run of the job.

    A kill loses the end of a journal. `steps_seen` has the first and the last step of each attempt
    from another source; it is used if there is only one journaled run.
    """
    runs = [found for path in _run_folders(folder) if (found := _read_run(path, folder, job_run))]
    if steps_seen and len(runs) == 1:
        runs = [_completed(runs[0], steps_seen)]
    return tuple(runs)


def _completed(run: JournaledRun, steps_seen: Mapping[int, tuple[int, int] | None]) -> JournaledRun:
    attempts: list[JournaledAttempt] = []
    resumed_at: int | None = None
    for one in reversed(run.attempts):
        seen = None if one.attempt is None else steps_seen.get(one.attempt)
        if seen is not None:
            first, last = seen[0], max(one.last_step, seen[1])
            lost = one.steps_lost if resumed_at is None else max(0, last - resumed_at)
            one = replace(one, first_step=first, last_step=last, steps_lost=lost)
        attempts.append(one)
        resumed_at = resumed_at if one.first_step is None else one.first_step
    return replace(run, attempts=tuple(reversed(attempts)))


def _run_folders(folder: Path) -> Iterator[Path]:
    seen = 0
    for root, folders, _ in os.walk(folder):
        seen += 1
        path = Path(root)
        if seen > _FOLDERS_MAX or len(path.relative_to(folder).parts) >= _DEPTH_MAX:
            folders.clear()
        if "journal" in folders and any((path / "journal").iterdir()):
            yield path


def _read_run(path: Path, folder: Path, job_run: JobRun) -> JournaledRun | None:
    # Only here, because most commands keep no journal and the import is slow.
    from outlast.journal import read_journal, summarize
    from outlast.storage import StorageError, open_store

    try:
        records = read_journal(open_store(path))
    except StorageError:
        return None
    if not records:
        return None
    summary = summarize(records, is_live=False)
    numbers = {
        record.attempt: _drill_attempt([event.at for event in record.events], job_run)
        for record in records
    }
    points = [
        point for record in records for point in _points(record, job_run, numbers[record.attempt])
    ]
    return JournaledRun(
        folder=str(path.relative_to(folder)),
        finished=summary.finished,
        steps_done=summary.steps_done,
        attempts=tuple(_attempt(one, numbers[one.attempt]) for one in summary.attempts),
        saves=summary.saves,
        save_seconds=summary.save_seconds,
        resume_seconds=summary.resume_seconds,
        progress=_thinned([one for one in points if one.name is None]),
        metrics=_metrics([one for one in points if one.name is not None]),
    )


def _attempt(summary: "AttemptSummary", number: int | None) -> JournaledAttempt:
    return JournaledAttempt(
        run_attempt=summary.attempt,
        attempt=number,
        first_step=summary.first_step,
        last_step=summary.last_step,
        saved_step=summary.saved_step,
        steps_lost=summary.steps_lost,
    )


def _drill_attempt(events: Sequence[datetime], job_run: JobRun) -> int | None:
    """The attempt of the drill that was running at the first event; the newest if two overlap."""
    if not events:
        return None
    seconds = (min(events) - job_run.began).total_seconds()
    running: list[Attempt] = [
        one for one in job_run.attempts if one.started_seconds <= seconds <= one.ended_seconds
    ]
    return running[-1].number if running else None


def _points(
    record: "AttemptRecord", job_run: JobRun, number: int | None
) -> Iterator[ProgressPoint]:
    from outlast.journal import Metrics

    for event in record.events:
        seconds = (event.at - job_run.began).total_seconds()
        step = getattr(event, "step", None)
        if not isinstance(step, int):
            continue
        yield ProgressPoint(seconds=seconds, step=step, attempt=number)
        if isinstance(event, Metrics):
            for name, value in event.values.items():
                if isinstance(value, int | float):
                    yield ProgressPoint(
                        seconds=seconds, step=step, attempt=number, name=name, value=float(value)
                    )


def _metrics(points: Sequence[ProgressPoint]) -> tuple[ProgressPoint, ...]:
    names = list(dict.fromkeys(one.name for one in points))[:_METRICS_MAX]
    return tuple(
        point for name in names for point in _thinned([one for one in points if one.name == name])
    )


def _thinned(points: Sequence[ProgressPoint]) -> tuple[ProgressPoint, ...]:
    """An even selection that includes the first and the last, so that a report stays small."""
    if len(points) <= _POINTS_MAX:
        return tuple(points)
    last = len(points) - 1
    return tuple(points[last * index // (_POINTS_MAX - 1)] for index in range(_POINTS_MAX))


def says_finished(folder: Path) -> bool | None:
    """Whether all journals below a folder record a finished run; None if there are none."""
    from outlast.journal import read_journal, summarize
    from outlast.storage import StorageError, open_store

    finished = []
    for path in _run_folders(folder):
        try:
            finished.append(summarize(read_journal(open_store(path)), is_live=False).finished)
        except StorageError:
            finished.append(False)
    return all(finished) if finished else None
