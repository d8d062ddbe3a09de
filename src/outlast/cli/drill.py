"""`outlast drill -- COMMAND`: evict a command as a Spot cluster would, and say what survived."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, Token

from outlast._base.durations import parse_duration
from outlast.cli.stopping import clearing_up_on_signals
from outlast.drill import events
from outlast.drill.controller import BACKOFF_LIMIT
from outlast.drill.rehearsal import drill as hold_drill
from outlast.drill.report import Report
from outlast.errors import SettingError


class DrillFormat(StrEnum):
    """How to print the outcome."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


def _duration(_: object, tokens: Sequence[Token]) -> timedelta:
    try:
        return timedelta(seconds=parse_duration(tokens[0].value))
    except OverflowError:
        raise ValueError("That is longer than can be counted.") from None


Duration = Annotated[timedelta, Parameter(converter=_duration, show_default=False)]


def drill(
    *command: str,
    evictions: int | None = None,
    every: Duration | None = None,
    trace: Path | None = None,
    seed: int | None = None,
    grace: Duration | None = None,
    no_notice: float = 0.3,
    hostile: float = 0.5,
    duplicates: float = 0.0,
    workers: int = 1,
    expect: list[str] | None = None,
    key: str | None = None,
    tolerance: float = 0.0,
    finished_when: str | None = None,
    baseline: Annotated[bool, Parameter(negative="--no-baseline")] = True,
    recording: Path | None = None,
    workdir: Path | None = None,
    reset: str | None = None,
    replace_after: Duration = timedelta(seconds=0.1),
    job_backoff: bool = False,
    backoff_limit: int = BACKOFF_LIMIT,
    timeout: Duration = timedelta(hours=1),
    keep: Path | None = None,
    report: Path | None = None,
    format: DrillFormat = DrillFormat.TEXT,
) -> int:
    """Evict a command as a Spot cluster would, restart it as a Job does, and say what survived.

    The command runs undisturbed first, then again with evictions; each time in a fresh folder,
    which {dir} stands for. Exits with 0 if it survived, 1 if it did not, 2 for wrong usage.

    Parameters
    ----------
    command: str
        The command and its arguments, after `--`.
    evictions: int
        How many evictions, spread over the length of the undisturbed run. Default: 3.
    every: Duration
        Evictions at a rate instead: their mean distance, such as 20s.
    trace: Path
        Evictions as in a public trace of Spot capacity, its time scaled to the job.
    seed: int
        Repeats the schedule of an earlier drill. Default: a new one, which is printed.
    grace: Duration
        Time from SIGTERM to SIGKILL. Default: OUTLAST_GRACE_SECONDS, else 15s.
    no_notice: float
        The share of evictions that kill at once.
    hostile: float
        The share that strikes at a bad moment: in a save, in the start-up, in the last save.
    duplicates: float
        The share in which the old node lives on beside its replacement.
    workers: int
        How many nodes work at the same time, for jobs that share a queue.
    expect: list[str]
        A file to compare with the undisturbed run; repeat it for more. Removed before each leg.
    key: str
        The column by which an item is known in files of rows. Default: found from the rows.
    tolerance: float
        How far numbers may differ, such as 1e-6.
    finished_when: str
        A shell test that succeeds when all work is done.
    baseline: bool
        Run the command undisturbed first, to place the evictions and to compare.
    recording: Path
        A folder that keeps the baseline: made by the first drill, used by the next.
    workdir: Path
        A folder to copy for each leg. Default: an empty one.
    reset: str
        A shell command that cleans up before each leg what lies elsewhere.
    replace_after: Duration
        Time until a replacement starts. Default: 0.1s.
    job_backoff: bool
        Wait before restarts as long as a Job does: 10s, doubling up to 10m.
    backoff_limit: int
        How often the command may fail by itself.
    timeout: Duration
        The longest that the whole drill may take. Default: 1h.
    keep: Path
        A new folder for all files and logs of the drill, which then stay.
    report: Path
        Write the outcome as an HTML page.
    format: DrillFormat
        text for people, json for programs, junit for CI.
    """
    if report is not None:
        _check_report(report)
    with clearing_up_on_signals(), _listening(format) as listener:
        outcome = hold_drill(
            command,
            evictions=evictions,
            every=every,
            trace=trace,
            seed=seed,
            grace=grace,
            no_notice=no_notice,
            hostile=hostile,
            duplicates=duplicates,
            workers=workers,
            expect=expect or [],
            key=key,
            tolerance=tolerance,
            finished_when=finished_when,
            baseline=baseline,
            recording=recording,
            workdir=workdir,
            reset=reset,
            replace_after=replace_after,
            job_backoff=job_backoff,
            backoff_limit=backoff_limit,
            timeout=timeout,
            keep=keep,
            listener=listener,
        )
    print(_RENDERERS[format](outcome))
    if report is not None:
        from outlast.drill.page import write_html

        write_html(outcome, report)
    return 0 if outcome.survived else 1


def _check_report(report: Path) -> None:
    """Refuse what could not be written before the drill, not after it."""
    folder = report.absolute().parent
    if report.is_dir():
        wrong, hint = "that is a folder", "Name a file, such as report.html."
    elif not folder.is_dir():
        wrong, hint = "there is no such folder", "Make the folder first."
    elif not os.access(folder, os.W_OK):
        wrong, hint = "nothing can be written there", "Name another folder."
    else:
        return
    raise SettingError(
        f"The option --report is {str(report)!r}, and {wrong}.",
        hint=hint,
        source="option --report",
    )


def _as_json(report: Report) -> str:
    return json.dumps(report.as_json(), indent=2)


def _as_junit(report: Report) -> str:
    from outlast.drill.junit import as_junit

    return as_junit(report)


_RENDERERS: dict[DrillFormat, Callable[[Report], str]] = {
    DrillFormat.TEXT: Report.story,
    DrillFormat.JSON: _as_json,
    DrillFormat.JUNIT: _as_junit,
}


@contextlib.contextmanager
def _listening(format: DrillFormat) -> Iterator[events.Listener]:
    if format is not DrillFormat.TEXT:
        yield events.ignore
        return
    from outlast.drill.view import watching

    with watching() as listener:
        yield listener
