"""`outlast drill -- COMMAND`: evict a command as a Spot cluster would, and report what survived."""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from cyclopts import Parameter

from outlast.cli.option_types import Duration, Texts, WholeNumber
from outlast.cli.printing import say
from outlast.cli.stopping import clearing_up_on_signals
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import Verdict
from outlast.drills.rehearsal import drill as run_drill
from outlast.drills.run import events
from outlast.drills.run.options import DrillKeywords, DrillOptions
from outlast.errors import SettingError

INCONCLUSIVE = 4
"""The exit code of a drill that proves nothing either way."""


class DrillFormat(StrEnum):
    """The format of the report on stdout."""

    TEXT = "text"
    JSON = "json"
    JUNIT = "junit"


# The defaults are written once, there.
_OPTIONS = DrillOptions(command=("true",))


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DrillFlags:
    """The options of a drill on the command line."""

    evictions: WholeNumber | None = None
    """Number of evictions, spread over the length of the baseline. Default: 3."""
    every: Duration | None = None
    """Evict at random intervals with this mean instead (e.g. 20s)."""
    trace: Path | None = None
    """Replay evictions from a public trace of Spot capacity, with its time scaled to the job."""
    seed: WholeNumber | None = None
    """Random seed of the eviction schedule, to repeat a drill. Default: random, and printed."""
    grace: Duration | None = None
    """Time from SIGTERM to SIGKILL. Default: OUTLAST_GRACE_SECONDS, else 15s."""
    no_notice: float = _OPTIONS.no_notice
    """Share of evictions that kill at once, without SIGTERM."""
    hostile: float = _OPTIONS.hostile
    """Share of evictions at a bad moment: during a save, the startup or the final save."""
    overlap: float = _OPTIONS.overlap
    """Share of evictions in which the old node keeps running alongside its replacement."""
    workers: WholeNumber = _OPTIONS.workers
    """Number of nodes that run at the same time, for jobs that share a queue."""
    nodes: WholeNumber | None = None
    """Number of nodes that run the command as one program, started with torchrun."""
    ranks: WholeNumber | None = None
    """Number of ranks on each node of one program. Default with --nodes: 1."""
    expect: Texts = _OPTIONS.expect
    """File to compare with the baseline. Can be repeated. It is deleted before each run."""
    key: str | None = None
    """Column that identifies an item in files of rows. Default: detected from the rows."""
    tolerance: float = _OPTIONS.tolerance
    """Maximum relative difference between numbers (e.g. 1e-6)."""
    finished_when: str | None = None
    """Shell command that exits with 0 once all work is done."""
    skip_baseline: bool = _OPTIONS.skip_baseline
    """Do not run a baseline: evict about once a second, and compare nothing."""
    recording: Path | None = None
    """Folder that stores the baseline: written by the first drill, reused by later ones."""
    workdir: Path | None = None
    """Folder to copy for each run. Default: an empty one."""
    reset: str | None = None
    """Shell command that runs before each run, to clean up state outside its folder."""
    replace_after: Duration = _OPTIONS.replace_after
    """Delay before a replacement starts."""
    job_backoff: bool = _OPTIONS.job_backoff
    """Delay restarts as a Job does: 10s, doubling up to 10m."""
    backoff_limit: WholeNumber = _OPTIONS.backoff_limit
    """Maximum number of failures, not counting evictions, as in a Job."""
    timeout: Duration = _OPTIONS.timeout
    """Time limit of the drill."""
    keep: Path | None = None
    """New folder in which to keep all files and logs of the drill."""
    keep_env: Texts = _OPTIONS.keep_env
    """Pass OUTLAST_QUEUE_URL or OUTLAST_SINK_URL on to the command. Can be repeated."""
    strict: bool = False
    """Exit with 1 if there are warnings."""
    report: Path | None = None
    """Write the report as an HTML page to this file."""
    format: DrillFormat = DrillFormat.TEXT
    """Output format. junit is for CI."""


_DEFAULTS = DrillFlags()


def drill(*command: str, flags: DrillFlags = _DEFAULTS) -> int:
    """Evict a command as a Spot cluster would, restart it as a Job does, and report what survived.

    The command first runs without evictions, as the baseline, then with evictions. Each run has a
    fresh folder; {dir} in an argument is replaced with its path. The command does not get
    OUTLAST_QUEUE_URL and OUTLAST_SINK_URL, so that a drill cannot consume a real queue. Exits with
    0 if the command survived, 1 if it did not, 4 if the drill was inconclusive, 2 for wrong usage.

    Parameters
    ----------
    command: str
        The command and its arguments, after `--`.
    """
    if flags.report is not None:
        _check_report(flags.report)
    options = {name: getattr(flags, name) for name in DrillKeywords.__annotations__}
    with clearing_up_on_signals(), _listening(flags.format) as listener:
        outcome = run_drill(command, listener=listener, **options)
    try:
        say(_rendered(outcome, flags.format, strict=flags.strict))
    finally:
        # Written even if the reader of standard output has gone away.
        if flags.report is not None:
            from outlast.drills.page import write_html

            write_html(outcome, flags.report)
    return exit_code(outcome.verdict, strict=flags.strict)


def exit_code(verdict: Verdict, *, strict: bool) -> int:
    """The exit code for a verdict. `strict` treats warnings as failures."""
    return {
        Verdict.SURVIVED: 0,
        Verdict.SURVIVED_WITH_WARNINGS: 1 if strict else 0,
        Verdict.DID_NOT_SURVIVE: 1,
        Verdict.INCONCLUSIVE: INCONCLUSIVE,
    }[verdict]


def _check_report(report: Path) -> None:
    """Refuse a path that cannot be written before the drill, not after it."""
    folder = report.absolute().parent
    if report.is_dir():
        wrong, hint = "which is a folder", "Name a file, such as report.html."
    elif not folder.is_dir():
        wrong, hint = "whose folder does not exist", "Create the folder first."
    elif not os.access(folder, os.W_OK):
        wrong, hint = "whose folder is not writable", "Use another folder."
    else:
        return
    raise SettingError(
        f"Cannot write the report to {str(report)!r}, {wrong}.",
        hint=hint,
        source="option --report",
    )


def _rendered(report: DrillReport, format: DrillFormat, *, strict: bool) -> str:
    match format:
        case DrillFormat.TEXT:
            return report.story()
        case DrillFormat.JSON:
            return json.dumps(report.as_json(), indent=2)
        case DrillFormat.JUNIT:
            return report.as_junit(strict=strict)


@contextlib.contextmanager
def _listening(format: DrillFormat) -> Iterator[events.Listener]:
    if format is not DrillFormat.TEXT:
        yield events.ignore
        return
    from outlast.drills.live.view import watching

    with watching() as listener:
        yield listener
