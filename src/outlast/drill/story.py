"""A drill told to people: what happened in each attempt, then one line for each verdict. Pure."""

import shlex
import textwrap
from collections.abc import Iterator

from outlast._base.durations import format_duration
from outlast.drill.outcome import Outcome
from outlast.drill.records import Attempt, Ended, Eviction, Leg, LegEnd, Moment

_ATTEMPTS_SHOWN = 30
_WIDTH = 100
_COMMAND_CHARACTERS_MAX = 120


def tell(report: Outcome) -> str:
    """The whole story, in lines that fit a terminal."""
    return "\n".join(_lines(report))


def _lines(report: Outcome) -> Iterator[str]:
    command = shlex.join(report.command)
    if len(command) > _COMMAND_CHARACTERS_MAX:
        command = f"{command[: _COMMAND_CHARACTERS_MAX - 3]}..."
    yield f"drill of: {command}"
    yield (
        f"{report.evictions_told} evictions, grace"
        f" {report.grace_seconds:g} s, seed {report.seed}, each node a {report.isolation}"
    )
    if report.figures is not None:
        yield f"undisturbed: {format_duration(report.figures.seconds)}"
    leg = report.disturbed or report.baseline
    if leg is not None:
        yield ""
        yield from _table(leg, report)
        yield from _last_output(leg)
    yield ""
    for verdict in report.verdicts:
        yield from _verdict("ok" if verdict.ok else "NO", verdict.code, verdict.reason)
    for open_one in report.not_judged:
        yield from _verdict("-", open_one.code, open_one.reason)
    for remark in report.remarks:
        yield from _verdict("", "note", remark)
    yield ""
    yield _conclusion(report)


def _table(leg: Leg, report: Outcome) -> Iterator[str]:
    evictions = {one.number: one for one in leg.evictions}
    steps_lost = report.steps_lost
    has_workers = report.workers > 1
    yield f"attempt{'  worker' if has_workers else ''}  start     ran       what happened"
    for attempt in leg.attempts[:_ATTEMPTS_SHOWN]:
        worker = f"  {attempt.worker:>6}" if has_workers else ""
        eviction = evictions.get(attempt.eviction) if attempt.eviction is not None else None
        what = _what_happened(attempt, eviction)
        lost = steps_lost.get(eviction.number) if eviction is not None else None
        if lost is not None:
            what += f", lost {lost} steps"
        yield (
            f"{attempt.number:>7}{worker}  {format_duration(attempt.started_seconds):<8}"
            f"  {format_duration(attempt.seconds):<8}  {what}"
        )
    if len(leg.attempts) > _ATTEMPTS_SHOWN:
        yield f"    ...  and {len(leg.attempts) - _ATTEMPTS_SHOWN} more"


def _what_happened(attempt: Attempt, eviction: Eviction | None) -> str:
    if eviction is None:
        return {
            Ended.FINISHED: "finished, exit 0",
            Ended.FAILED: f"failed by itself, exit {attempt.exit_code}",
            Ended.STOPPED: "stopped, because the leg was over",
            Ended.EVICTED: "evicted",
        }[attempt.ended]
    where = {
        Moment.ANY: "",
        Moment.START_UP: " in start-up",
        Moment.SAVE: " in a save" if eviction.hit else "",
        Moment.LAST_SAVE: " in its last save" if eviction.hit else "",
    }[eviction.moment]
    beside = ", its replacement beside it" if eviction.overlap else ""
    said = f"eviction {eviction.number}{where}{beside}: "
    if not eviction.notice:
        return (
            f"{said}no notice"
            if eviction.killed
            else f"{said}ended first, exit {attempt.exit_code}"
        )
    if eviction.killed:
        return f"{said}SIGTERM, killed after {eviction.left_seconds:.2f} s"
    return f"{said}SIGTERM, exit {attempt.exit_code} after {eviction.left_seconds:.2f} s"


def _last_output(leg: Leg) -> Iterator[str]:
    """What the last attempt printed that failed by itself, or hung."""
    failed = [one for one in leg.attempts if one.ended is Ended.FAILED]
    if not failed and leg.end is LegEnd.TIMED_OUT:
        failed = list(leg.attempts[-1:])
    if failed:
        yield ""
        yield f"the last that attempt {failed[-1].number} printed:"
        yield textwrap.indent(failed[-1].output_tail or "(nothing)", "  | ")


def _verdict(mark: str, code: str, reason: str) -> list[str]:
    head = f"{mark:<3} {code:<14} "
    return textwrap.wrap(
        reason,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_on_hyphens=False,
        break_long_words=False,
    )


def _conclusion(report: Outcome) -> str:
    if report.survived:
        landed = report.evictions_landed
        return f"survived {landed} eviction{'' if landed == 1 else 's'}"
    codes = ", ".join(verdict.code for verdict in report.verdicts if not verdict.ok)
    return f"did NOT survive: {codes}"
