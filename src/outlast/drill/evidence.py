"""What this library's own journal says about a leg, where the command uses the library.

Reads every folder below the leg's in which there is a journal; changes nothing. A journal that
cannot be read is no evidence, and no error.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.drill.records import Attempt, Leg

if TYPE_CHECKING:
    from outlast.journal import AttemptRecord, AttemptSummary

_DEPTH_MAX = 4
_FOLDERS_MAX = 2000
_POINTS_MAX = 2000
_METRICS_MAX = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class RunAttempt:
    """An attempt as the journal counts them; `attempt` is the drill's number, if it can be told.

    `first_step` is None if it was over before it said where it began.
    """

    run_attempt: int
    attempt: int | None
    first_step: int | None
    last_step: int
    saved_step: int | None
    steps_lost: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Point:
    """So many steps were done at this time; with a `name`, a figure that was measured then."""

    seconds: float
    step: int
    attempt: int | None
    name: str | None = None
    value: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunEvidence:
    """A run as its journal tells it. `save_seconds` and `resume_seconds` are medians."""

    folder: str
    finished: bool
    steps_done: int
    attempts: tuple[RunAttempt, ...]
    saves: int
    save_seconds: float | None
    resume_seconds: float | None
    progress: tuple[Point, ...]
    metrics: tuple[Point, ...]

    def steps_lost_by(self, attempt: int) -> int | None:
        """What the end of an attempt of the drill cost; None if the journal does not tell."""
        lost = [one.steps_lost for one in self.attempts if one.attempt == attempt]
        return sum(lost) if lost else None


def read_evidence(
    folder: Path, leg: Leg, *, steps_seen: Mapping[int, tuple[int, int] | None] | None = None
) -> tuple[RunEvidence, ...]:
    """All runs below the folder of a leg.

    A kill takes the end of a journal with it. `steps_seen` are the first and the last step of the
    attempts of the drill, as known otherwise; they count where it is clear of which run they are.
    """
    runs = [found for path in _run_folders(folder) if (found := _read_run(path, folder, leg))]
    if steps_seen and len(runs) == 1:
        runs = [_completed(runs[0], steps_seen)]
    return tuple(runs)


def _completed(run: RunEvidence, steps_seen: Mapping[int, tuple[int, int] | None]) -> RunEvidence:
    attempts: list[RunAttempt] = []
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


def _read_run(path: Path, folder: Path, leg: Leg) -> RunEvidence | None:
    # Only here, because most of the time there is no journal and this takes a while to import.
    from outlast.journal import read_journal, summarise
    from outlast.storage import StorageError, open_store

    try:
        records = read_journal(open_store(path))
    except StorageError:
        return None
    if not records:
        return None
    summary = summarise(records, is_live=False)
    numbers = {
        record.attempt: _drill_attempt(one.started, leg)
        for record, one in zip(records, summary.attempts, strict=True)
    }
    points = [
        point for record in records for point in _points(record, leg, numbers[record.attempt])
    ]
    return RunEvidence(
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


def _attempt(summary: "AttemptSummary", number: int | None) -> RunAttempt:
    return RunAttempt(
        run_attempt=summary.attempt,
        attempt=number,
        first_step=summary.first_step,
        last_step=summary.last_step,
        saved_step=summary.saved_step,
        steps_lost=summary.steps_lost,
    )


def _drill_attempt(started: datetime | None, leg: Leg) -> int | None:
    """The attempt of the drill that was going on then: the newest, should two overlap."""
    if started is None:
        return None
    seconds = (started - leg.began).total_seconds()
    going: list[Attempt] = [
        one for one in leg.attempts if one.started_seconds <= seconds <= one.ended_seconds
    ]
    return going[-1].number if going else None


def _points(record: "AttemptRecord", leg: Leg, number: int | None) -> Iterator[Point]:
    from outlast.journal import Metrics

    for event in record.events:
        seconds = (event.at - leg.began).total_seconds()
        step = getattr(event, "step", None)
        if not isinstance(step, int):
            continue
        yield Point(seconds=seconds, step=step, attempt=number)
        if isinstance(event, Metrics):
            for name, value in event.values.items():
                if isinstance(value, int | float):
                    yield Point(
                        seconds=seconds, step=step, attempt=number, name=name, value=float(value)
                    )


def _metrics(points: Sequence[Point]) -> tuple[Point, ...]:
    names = list(dict.fromkeys(one.name for one in points))[:_METRICS_MAX]
    return tuple(
        point for name in names for point in _thinned([one for one in points if one.name == name])
    )


def _thinned(points: Sequence[Point]) -> tuple[Point, ...]:
    """Evenly chosen, with the first and the last, so that a report stays small."""
    if len(points) <= _POINTS_MAX:
        return tuple(points)
    last = len(points) - 1
    return tuple(points[last * index // (_POINTS_MAX - 1)] for index in range(_POINTS_MAX))


def says_finished(folder: Path) -> bool | None:
    """Whether the journals below a folder say that all is done; None if there are none."""
    from outlast.journal import read_journal, summarise
    from outlast.storage import StorageError, open_store

    told = []
    for path in _run_folders(folder):
        try:
            told.append(summarise(read_journal(open_store(path)), is_live=False).finished)
        except StorageError:
            told.append(False)
    return all(told) if told else None
