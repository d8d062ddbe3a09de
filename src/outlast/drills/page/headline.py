"""The top of the page: the verdict in a sentence, the key figures, and each check. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from outlast._base.durations import format_duration
from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import Check, CheckResult, Verdict
from outlast.drills.page.work_lost import WorkLost
from outlast.report.markup import Html, element, join, prose

_COMMAND_CHARACTERS_MAX = 2000

# For each check its title, and what it means if it did not pass.
_CHECKS = {
    "finished": ("It finished.", "it did not finish"),
    "exit-code": ("Its exit codes suit a Job.", "it exited with code 0 before it was done"),
    "left-in-time": ("It exited before SIGKILL.", "it was still running after its grace period"),
    "resumed": ("It resumed.", "it started over"),
    "files-intact": ("Its files are intact.", "a file was left half-written"),
    "no-crash": ("No attempt failed on its own.", "attempts failed on their own"),
    "identical": (
        "The result is the same as the baseline's.",
        "its result is not the same as the baseline's",
    ),
    "no-lost-items": ("No item is missing.", "items are missing"),
    "no-duplicates": ("No item was stored twice.", "items were stored more than once"),
    "conclusive": ("The drill is conclusive.", "the drill proves nothing either way"),
}
_COLORS = {
    Verdict.SURVIVED: "good",
    Verdict.SURVIVED_WITH_WARNINGS: "warn",
    Verdict.DID_NOT_SURVIVE: "bad",
    Verdict.INCONCLUSIVE: "warn",
}
_MARKS = {
    CheckResult.PASS: ("\u2713", "PASS", "good", "yes"),
    CheckResult.WARN: ("!", "WARN", "warn", "warn"),
    CheckResult.FAIL: ("\u2717", "FAIL", "bad", "no"),
    CheckResult.NOT_APPLICABLE: ("\u2013", "n/a", "", "open"),
}


def title(report: DrillReport) -> str:
    """The verdict in a few words."""
    landed = _count(report.evictions_landed, "eviction")
    if report.evicted is None:
        return "Failed without any eviction"
    return {
        Verdict.SURVIVED: f"Survived {landed}",
        Verdict.SURVIVED_WITH_WARNINGS: f"Survived {landed} with warnings",
        Verdict.DID_NOT_SURVIVE: f"Did not survive {landed}",
        Verdict.INCONCLUSIVE: "Inconclusive",
    }[report.verdict]


def headline(report: DrillReport, lost: Sequence[WorkLost]) -> Html:
    command = shlex.join(report.command)
    if len(command) > _COMMAND_CHARACTERS_MAX:
        command = f"{command[:_COMMAND_CHARACTERS_MAX]} \u2026"
    when = report.began.strftime("%Y-%m-%d %H:%M UTC")
    return element(
        "header",
        element("p", f"Outlast drill, {when}", class_="over"),
        element("h1", title(report), class_=_COLORS[report.verdict]),
        element("p", _sentence(report), class_="lead"),
        element("pre", element("code", command), class_="command"),
        element("dl", *_figures(report, lost), class_="figures") if report.evicted else None,
        element("ul", *map(_answer, report.checks), class_="answers"),
    )


def _sentence(report: DrillReport) -> str:
    faults = _phrases(report, CheckResult.FAIL)
    warnings = _phrases(report, CheckResult.WARN)
    job_run = report.evicted
    if job_run is None:
        return "It was never evicted, because the baseline run did not finish."
    silent = sum(not one.notice for one in job_run.evictions)
    evicted = f"It was evicted {_times(len(job_run.evictions))}"
    if silent:
        evicted += f", {silent:,} of them without notice" if silent < len(job_run.evictions) else ""
        evicted += ", always without notice" if silent == len(job_run.evictions) > 0 else ""
    if faults:
        return f"{evicted}: {_listed([*faults, *warnings])}."
    finisher = job_run.finisher
    finished = f"finished in attempt {finisher.number}" if finisher else "finished"
    if report.workers > 1:
        finished = f"its {report.workers} workers finished"
    sentence = f"{evicted}, {'and ' if not _sameness(report) else ''}{finished}{_sameness(report)}."
    return f"{sentence} But {_listed(warnings)}." if warnings else sentence


def _phrases(report: DrillReport, result: CheckResult) -> list[str]:
    return [_CHECKS.get(name, ("", name))[1] for name in report.names_with(result)]


def _sameness(report: DrillReport) -> str:
    """What is known about the result, for the end of the sentence."""
    counts = [item.items for one in report.comparisons for item in one.items if item.items]
    if counts:
        where = f" in {len(counts)} files" if len(counts) > 1 else ""
        return f", and each of {sum(counts):,} items{where} was stored exactly once"
    if "identical" in report.names_with(CheckResult.PASS):
        is_exact = all(one.how == "bit for bit" for one in report.comparisons)
        how = "bit for bit " if is_exact else ""
        return f", and the result is {how}identical to the baseline's"
    return ""


def _figures(report: DrillReport, lost: Sequence[WorkLost]) -> Iterator[Html]:
    job_run = report.evicted
    assert job_run is not None, "Figures require an evicted run."
    planned = report.evictions_planned
    note = "at random intervals" if planned is None else f"of {planned:,} planned"
    yield _figure("evictions", f"{report.evictions_landed:,}", note)
    yield _figure(
        "attempts",
        f"{len(job_run.attempts):,}",
        _side_by_side(report),
    )
    items = [item for one in report.comparisons for item in one.items]
    if items:
        note = f"{report.items_lost:,} missing, {_count(report.duplicates or 0, 'duplicate')}"
        label = "items" if len(items) == 1 else f"items in {len(items)} files"
        yield _figure(label, f"{sum(one.items for one in items):,}", note)
    if report.workers == 1:
        yield _figure("work lost", *_lost_figure(report, lost))
    left = [one.left_seconds for one in job_run.evictions if one.had_full_grace and not one.killed]
    if left:
        grace = f"of {report.grace_seconds:g} s grace period"
        yield _figure("slowest exit", f"{max(left):.2f} s", grace)
    baseline = report.figures and f"baseline: {format_duration(report.figures.seconds)}"
    yield _figure("duration", format_duration(job_run.seconds), baseline or "no baseline")


def _side_by_side(report: DrillReport) -> str:
    if report.nodes is not None:
        return f"each on {_count(report.nodes, 'node')}"
    return f"{report.workers} in parallel" if report.workers > 1 else "one at a time"


def _lost_figure(report: DrillReport, lost: Sequence[WorkLost]) -> tuple[str, str]:
    steps = [one.steps for one in lost if one.steps is not None]
    if report.runs and steps:
        least = any(one.is_minimum for one in lost)
        most = f"at most {max(steps):,} per eviction"
        clock = report.seconds_lost
        at_least = f"at least; {format_duration(clock)} of time" if clock else "at least"
        return _count(sum(steps), "step"), at_least if least else most
    if "finished" in report.names_with(CheckResult.FAIL):
        return "unknown", "it did not finish"
    if report.seconds_lost is not None:
        return format_duration(report.seconds_lost), "compared with the baseline"
    return "unknown", "no journal and no baseline"


def _figure(name: str, value: str, small: str) -> Html:
    return element("div", element("dt", name), element("dd", value, element("small", small)))


def _answer(check: Check) -> Html:
    sign, word, color, kind = _MARKS[check.result]
    mark = join([element("span", f"{sign} ", aria_hidden="true"), word])
    return element(
        "li",
        element("span", mark, class_=f"mark {color}".strip()),
        element(
            "p",
            element("b", _check_title(check)),
            " ",
            prose(check.reason),
            " ",
            element("code", check.name, class_="code"),
        ),
        class_=kind,
    )


def _check_title(check: Check) -> str:
    """What the check proves, or what is wrong if it did not pass."""
    title, problem = _CHECKS.get(check.name, (check.name, check.name))
    if check.result in (CheckResult.FAIL, CheckResult.WARN):
        return f"{problem[0].upper()}{problem[1:]}."
    return title


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _listed(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])}, and {words[-1]}"
