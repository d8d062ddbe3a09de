"""The tables of the page: evictions, compared files, last outputs and the configuration. Pure."""

from collections.abc import Iterator, Sequence

from outlast._base.durations import format_duration
from outlast.drills.compare.artifacts import Comparison
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import CheckResult
from outlast.drills.page import eviction_kinds
from outlast.drills.page.work_lost import WorkLost
from outlast.drills.run.records import Attempt, AttemptEnd, JobRunEnd
from outlast.report.markup import Html, element, join, text
from outlast.report.page import note, table

SHOWN = 25
"""More evictions than these are folded."""

ROWS_MAX = 3000
_EVICTION_HEAD = (
    "#", "time", "attempt", "kind", "SIGTERM caught", "exited after", "exit code", "work lost",
)  # fmt: skip
_EVICTION_NUMBERS = (0, 1, 2, 5, 6, 7)
_COMPARED_MAX = 200
_OUTPUTS_MAX = 5


def evictions(report: DrillReport, lost: Sequence[WorkLost]) -> Html | None:
    """A row per eviction; None if no eviction landed."""
    if not lost:
        return None
    first, rest = lost[:SHOWN], lost[SHOWN:ROWS_MAX]
    omitted = len(lost) - len(first) - len(rest)
    folded = rest and element(
        "details",
        element("summary", f"Show {len(rest):,} more"),
        _evictions_table(rest, f"Evictions {SHOWN + 1} to {SHOWN + len(rest)}"),
    )
    return element(
        "section",
        element("h2", "Evictions"),
        note(_evictions_note(report, lost)),
        _evictions_table(first, "Evictions"),
        folded or None,
        note(f"{omitted:,} more are in the output of `--format json`.") if omitted else None,
    )


def _evictions_note(report: DrillReport, lost: Sequence[WorkLost]) -> str:
    sentence = f"The grace period was {report.grace_seconds:g} s."
    if any(one.steps is None or (one.is_minimum and not one.steps) for one in lost):
        sentence += " Work lost in seconds is an upper bound: the work since the attempt's last"
        sentence += " write."
    if any(one.steps and one.is_minimum for one in lost):
        sentence += " A kill may cost more steps than the journal had recorded by then."
    return sentence


def _evictions_table(rows: Sequence[WorkLost], label: str) -> Html:
    return table(
        _EVICTION_HEAD,
        map(_eviction_row, rows),
        numbers=_EVICTION_NUMBERS,
        label=label,
        class_="evictions",
    )


def _eviction_row(lost: WorkLost) -> tuple[object, ...]:
    one = lost.eviction
    exited = f"{one.left_seconds:.2f} s{', killed' if one.killed else ''}"
    return (
        one.number,
        f"{one.at_seconds:.1f} s",
        one.attempt,
        eviction_kinds.kind_of(one),
        eviction_kinds.was_caught(one) if one.notice else None,
        exited if one.notice else None,
        f"{one.exit_code}{' too early' if one.unfinished_zero else ''}",
        str(lost),
    )


def comparisons(report: DrillReport) -> Html | None:
    """The results of the evicted run compared with those of the baseline."""
    # Unseeded random generators differ from the start, which is irrelevant if the result is right.
    differs = "identical" in report.names_with(CheckResult.FAIL)
    if not report.comparisons and not (report.divergence and differs):
        return None
    has_items = any(one.items for one in report.comparisons)
    head = ["file", "same?", "compared", *(["items", "missing", "duplicates"] if has_items else [])]
    rows = [_comparison_row(one, has_items=has_items) for one in report.comparisons[:_COMPARED_MAX]]
    diverged = None
    if report.divergence is not None and differs:
        diverged = element("p", f"The two runs first diverged {report.divergence.where}.")
    return element(
        "section",
        element("h2", "Results compared with the baseline"),
        table(head, rows, words=3, label="Compared files") if rows else None,
        diverged,
    )


def _comparison_row(one: Comparison, *, has_items: bool) -> list[object]:
    is_same = one.difference is None
    answer = text("yes") if is_same else join([element("b", "no: ", class_="bad"), one.difference])
    counts = [
        sum(getattr(item, name) for item in one.items) if one.items else "\u2013"
        for name in ("items", "lost", "doubled")
    ]
    return [element("bdi", one.name), answer, text(one.how), *(counts if has_items else ())]


def last_outputs(report: DrillReport) -> Html | None:
    """The last output of the attempts that failed on their own, or of the one that hung."""
    job_run = report.evicted or report.baseline
    if job_run is None:
        return None
    failed = [one for one in job_run.attempts if one.ended is AttemptEnd.FAILED]
    if not failed and job_run.end in (JobRunEnd.TIMED_OUT, JobRunEnd.TOO_SLOW):
        failed = list(job_run.attempts[-1:])
    if not failed:
        return None
    alike: dict[tuple[int, str], list[Attempt]] = {}
    for one in failed:
        alike.setdefault((one.exit_code, one.output_tail), []).append(one)
    shown = [part for ones in list(alike.values())[-_OUTPUTS_MAX:] for part in _output(ones)]
    return element("section", element("h2", "Last output"), *shown)


def _output(attempts: Sequence[Attempt]) -> Iterator[Html]:
    last, others = attempts[-1], len(attempts) - 1
    same = f" (same as {others:,} earlier attempt{'' if others == 1 else 's'})" if others else ""
    yield element("h3", f"Attempt {last.number}, exit code {last.exit_code}{same}")
    yield element("pre", element("code", last.output_tail or "(no output)"), tabindex=0)


def _world_facts(report: DrillReport) -> list[tuple[str, object]]:
    if report.nodes is None:
        return []
    return [("nodes of one program", report.nodes), ("ranks per node", report.ranks)]


def configuration(report: DrillReport) -> Html:
    """How the drill was run, so that it can be repeated."""
    facts: list[tuple[str, object]] = [
        ("evictions", report.evictions_counted),
        ("grace period", f"{report.grace_seconds:g} s"),
        ("workers", report.workers),
        *_world_facts(report),
        ("seed", report.seed),
        ("node isolation", report.isolation),
        ("started", report.began.isoformat(timespec="seconds")),
        ("duration of the drill", format_duration(report.seconds)),
        ("Outlast version", report.outlast_version),
    ]
    for run in report.runs:
        if run.save_seconds is not None:
            saves = f"{run.saves:,}; median time until durable: {run.save_seconds:.3f} s"
            facts.append((f"saves in {run.folder}", saves))
    pairs = [part for name, value in facts for part in (element("dt", name), element("dd", value))]
    notes = [element("p", one, class_="note") for one in report.remarks]
    return element(
        "section", element("h2", "Configuration"), *notes, element("dl", *pairs, class_="facts")
    )
