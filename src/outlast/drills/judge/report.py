"""The report of a drill: one frozen value, with renderings as text, JSON and JUnit XML. Pure."""

import dataclasses
import math
import shlex
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from outlast._base.durations import format_duration
from outlast.drills.compare.artifacts import Comparison
from outlast.drills.compare.divergence import Divergence
from outlast.drills.judge.evidence import JournaledRun
from outlast.drills.judge.verdict import Check, CheckResult, Verdict, verdict_of
from outlast.drills.run.baseline import BaselineFigures
from outlast.drills.run.records import (
    ONLY_IF_SET,
    Attempt,
    AttemptEnd,
    Eviction,
    JobRun,
    JobRunEnd,
)
from outlast.report.junit import JUnitCase, junit_xml

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FORMAT_VERSION = 1

_ATTEMPTS_SHOWN = 30
_WIDTH = 100
_COMMAND_CHARACTERS_MAX = 120


@dataclass(frozen=True, kw_only=True, slots=True)
class DrillReport:
    """The outcome of a drill: its checks, and everything that was observed.

    `baseline` is None without one, or if it was recorded earlier; `figures` has its key figures.
    `evicted` is None if the baseline failed. `runs` are those of this library, as recorded in their
    journals, and `steps_lost` is what each eviction cost them, by its number. `evictions_planned`
    is None if only their rate was given. `nodes` and `ranks` are those of one program, with the
    ranks of each node; None for nodes that are independent of each other.
    """

    outlast_version: str
    command: tuple[str, ...]
    began: datetime
    seconds: float
    seed: int
    grace_seconds: float
    workers: int
    isolation: str
    checks: tuple[Check, ...]
    evictions_planned: int | None
    figures: BaselineFigures | None
    baseline: JobRun | None
    evicted: JobRun | None
    comparisons: tuple[Comparison, ...] = ()
    baseline_runs: tuple[JournaledRun, ...] = ()
    runs: tuple[JournaledRun, ...] = ()
    divergence: Divergence | None = None
    remarks: tuple[str, ...] = ()
    nodes: int | None = field(default=None, metadata=ONLY_IF_SET)
    ranks: int | None = field(default=None, metadata=ONLY_IF_SET)

    @property
    def verdict(self) -> Verdict:
        return verdict_of(self.checks)

    @property
    def survived(self) -> bool:
        """Whether the job survived, with or without warnings. False if inconclusive."""
        return self.verdict in (Verdict.SURVIVED, Verdict.SURVIVED_WITH_WARNINGS)

    def names_with(self, result: CheckResult) -> tuple[str, ...]:
        """The names of the checks with this result."""
        return tuple(one.name for one in self.checks if one.result is result)

    @property
    def evictions_landed(self) -> int:
        return self.evicted.landed if self.evicted is not None else 0

    @property
    def evictions_counted(self) -> str:
        """How many evictions landed, such as `2 of 3`, or `2` if no number was planned."""
        if self.evictions_planned is None:
            return f"{self.evictions_landed:,}"
        return f"{self.evictions_landed:,} of {self.evictions_planned:,}"

    @property
    def steps_lost(self) -> Mapping[int, int]:
        """Steps that had to be repeated, by the number of the eviction, as far as known."""
        if self.evicted is None:
            return {}
        lost = {
            eviction.number: [run.steps_lost_by(eviction.attempt) for run in self.runs]
            for eviction in self.evicted.evictions
        }
        return {
            number: sum(filter(None, steps))
            for number, steps in lost.items()
            if any(step is not None for step in steps)
        }

    @property
    def steps_lost_max(self) -> int | None:
        """The most steps that one eviction cost; None if the command keeps no journal."""
        return max(self.steps_lost.values(), default=None) if self.runs else None

    @property
    def seconds_lost(self) -> float | None:
        """Work that was repeated, estimated from the durations of both runs."""
        if self.figures is None or self.evicted is None:
            return None
        needed = self.figures.work_seconds + self.figures.wind_down_seconds
        return max(0.0, self.evicted.work_seconds - needed)

    @property
    def items_lost(self) -> int | None:
        """Items that are missing from the result; None if no compared file holds rows."""
        items = [item for one in self.comparisons for item in one.items]
        return sum(item.lost for item in items) if items else None

    @property
    def duplicates(self) -> int | None:
        """Items that were stored more than once; None if no compared file holds rows."""
        items = [item for one in self.comparisons for item in one.items]
        return sum(item.doubled for item in items) if items else None

    def story(self) -> str:
        """What happened, as text for people. The last line is the verdict."""
        return "\n".join(_story(self))

    def as_json(self) -> dict[str, object]:
        """Everything in the report, as values that JSON can represent."""
        derived: dict[str, object] = {
            "format": FORMAT_VERSION,
            "verdict": self.verdict.value,
            "survived": self.survived,
            "evictions_landed": self.evictions_landed,
            "steps_lost": {str(number): steps for number, steps in self.steps_lost.items()},
            "steps_lost_max": self.steps_lost_max,
            "seconds_lost": self.seconds_lost,
            "items_lost": self.items_lost,
            "duplicates": self.duplicates,
        }
        found = _plain(self)
        assert isinstance(found, dict)
        return derived | found

    def as_junit(self, *, strict: bool = False) -> str:
        """One test case per check, as JUnit XML. `strict` reports warnings as failures."""
        return _junit(self, strict=strict)


def _story(report: DrillReport) -> Iterator[str]:
    command = shlex.join(report.command)
    if len(command) > _COMMAND_CHARACTERS_MAX:
        command = f"{command[: _COMMAND_CHARACTERS_MAX - 3]}..."
    yield f"drill of: {command}"
    yield (
        f"{report.evictions_counted} evictions, grace"
        f" {report.grace_seconds:g} s, seed {report.seed}, each node a {report.isolation}"
    )
    if report.nodes is not None:
        yield f"nodes: {report.nodes}, each with {_count(report.ranks or 1, 'rank')}"
    if report.figures is not None:
        yield f"baseline: {format_duration(report.figures.seconds)}"
    job_run = report.evicted or report.baseline
    if job_run is not None:
        yield ""
        yield from _table(job_run, report)
        yield from _last_output(job_run)
    yield ""
    for check in report.checks:
        mark = "n/a" if check.result is CheckResult.NOT_APPLICABLE else check.result.name
        yield from _line(mark, check.name, check.reason)
    for remark in report.remarks:
        yield from _line("", "note", remark)
    yield ""
    yield _conclusion(report)


def _table(job_run: JobRun, report: DrillReport) -> Iterator[str]:
    evictions = {one.number: one for one in job_run.evictions}
    steps_lost = report.steps_lost
    has_workers = report.workers > 1
    yield f"attempt{'  worker' if has_workers else ''}  start     ran       what happened"
    for attempt in job_run.attempts[:_ATTEMPTS_SHOWN]:
        worker = f"  {attempt.worker:>6}" if has_workers else ""
        eviction = evictions.get(attempt.eviction) if attempt.eviction is not None else None
        what = _what_happened(attempt, eviction) + _other_nodes(attempt, eviction)
        lost = steps_lost.get(eviction.number) if eviction is not None else None
        if lost is not None:
            what += f", lost {lost} step{'' if lost == 1 else 's'}"
        yield (
            f"{attempt.number:>7}{worker}  {format_duration(attempt.started_seconds):<8}"
            f"  {format_duration(attempt.seconds):<8}  {what}"
        )
    if len(job_run.attempts) > _ATTEMPTS_SHOWN:
        yield f"    ...  and {len(job_run.attempts) - _ATTEMPTS_SHOWN} more"


def _what_happened(attempt: Attempt, eviction: Eviction | None) -> str:
    if eviction is None:
        return {
            AttemptEnd.FINISHED: "finished, exit 0",
            AttemptEnd.FAILED: f"failed on its own, exit {attempt.exit_code}",
            AttemptEnd.STOPPED: "stopped, because the run was over",
            AttemptEnd.EVICTED: "evicted",
        }[attempt.ended]
    beside = ", with its replacement running" if eviction.overlap else ""
    which = "" if eviction.node is None else f" of node {eviction.node}"
    said = f"eviction {eviction.number}{which}{eviction.where}{beside}: "
    if not eviction.notice:
        ended = f"ended first, exit {attempt.exit_code}"
        return f"{said}{'no notice' if eviction.killed else ended}"
    if eviction.killed:
        return f"{said}SIGTERM, killed after {eviction.left_seconds:.2f} s"
    return f"{said}SIGTERM, exit {attempt.exit_code} after {eviction.left_seconds:.2f} s"


def _other_nodes(attempt: Attempt, eviction: Eviction | None) -> str:
    """How the nodes ended that were not evicted."""
    if eviction is None or len(attempt.nodes) < 2:
        return ""
    others = [one for one in attempt.nodes if one.node != eviction.node]
    ends = [
        f"node {one.node} {'terminated' if one.was_terminated else f'exit {one.exit_code}'}"
        for one in others
    ]
    return f"; {', '.join(ends)}"


def _last_output(job_run: JobRun) -> Iterator[str]:
    """The output of the last attempt that failed on its own or timed out."""
    failed = [one for one in job_run.attempts if one.ended is AttemptEnd.FAILED]
    if not failed and job_run.end in (JobRunEnd.TIMED_OUT, JobRunEnd.TOO_SLOW):
        failed = list(job_run.attempts[-1:])
    if failed:
        yield ""
        yield f"last output of attempt {failed[-1].number}:"
        yield textwrap.indent(failed[-1].output_tail or "(nothing)", "  | ")


def _line(mark: str, name: str, text: str) -> list[str]:
    head = f"{mark:<4}  {name:<13}  "
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
        break_long_words=False,
    )


def _conclusion(report: DrillReport) -> str:
    landed = report.evictions_landed
    survived = f"survived {landed} eviction{'' if landed == 1 else 's'}"
    match report.verdict:
        case Verdict.SURVIVED:
            return survived
        case Verdict.SURVIVED_WITH_WARNINGS:
            return f"{survived} with warnings: {', '.join(report.names_with(CheckResult.WARN))}"
        case Verdict.DID_NOT_SURVIVE:
            return f"did not survive: {', '.join(report.names_with(CheckResult.FAIL))}"
        case Verdict.INCONCLUSIVE:
            return f"inconclusive after {report.evictions_counted} evictions"


def _plain(value: object) -> object:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in _shown_fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, float):
        # Nine digits exceed the precision of any measurement. JSON has no infinity and no NaN.
        return float(f"{value:.9g}") if math.isfinite(value) else None
    return value


def _shown_fields(value: "DataclassInstance") -> Iterator[dataclasses.Field[object]]:
    for one in dataclasses.fields(value):
        is_optional = one.metadata.get("only_if_set", False)
        if not is_optional or getattr(value, one.name) != one.default:
            yield one


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _junit(report: DrillReport, *, strict: bool) -> str:
    failing = {CheckResult.FAIL, *([CheckResult.WARN] if strict else [])}
    cases = [_junit_case(check, is_failure=check.result in failing) for check in report.checks]
    began = report.began.isoformat(timespec="seconds")
    return junit_xml(
        "outlast drill",
        cases,
        attributes={"time": f"{report.seconds:.3f}", "timestamp": began},
        output=report.story(),
    )


def _junit_case(check: Check, *, is_failure: bool) -> JUnitCase:
    is_warning = check.result is CheckResult.WARN and not is_failure
    return JUnitCase(
        classname="outlast.drill",
        name=check.name,
        failure=check.reason if is_failure else None,
        failure_type=check.name,
        skipped=check.reason if check.result is CheckResult.NOT_APPLICABLE else None,
        error_output=f"WARN: {check.reason}" if is_warning else None,
    )
