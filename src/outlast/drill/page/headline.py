"""The top of the page: the verdict in a sentence, the figures that count, each question. Pure."""

import shlex
from collections.abc import Iterator, Sequence

from outlast._base.durations import format_duration
from outlast.drill.page.losses import WorkLost
from outlast.drill.page.markup import Html, element, join, prose
from outlast.drill.report import Report
from outlast.drill.verdicts import NotJudged, Verdict

_COMMAND_CHARACTERS_MAX = 2000

_QUESTIONS = {
    "not-finished": ("Did it finish?", "it did not finish"),
    "exit-zero": ("Do its exit codes fit a Job?", "it left with exit code 0 before it was done"),
    "killed": ("Did it leave before SIGKILL?", "it was still there when its grace period was over"),
    "started-over": ("Did it resume?", "it started over"),
    "torn": ("Were all its files whole?", "it was left with a half-written file"),
    "crashed": ("Did no attempt fail by itself?", "attempts failed by themselves"),
    "not-identical": (
        "Is the result that of an undisturbed run?",
        "its result is not that of an undisturbed run",
    ),
    "lost-items": ("Is every item there?", "items are missing"),
    "doubled-items": ("Is every item there only once?", "items were stored more than once"),
    "inconclusive": ("Did all evictions land?", "too few evictions landed to tell"),
}


def title(report: Report) -> str:
    """The verdict in a few words."""
    landed = _count(report.evictions_landed, "eviction")
    if report.survived:
        return f"Survived {landed}"
    if [one.code for one in report.verdicts if not one.ok] == ["inconclusive"]:
        return "Nothing proved"
    if report.disturbed is None:
        return "Failed even undisturbed"
    return f"Did not survive {landed}"


def headline(report: Report, lost: Sequence[WorkLost]) -> Html:
    command = shlex.join(report.command)
    if len(command) > _COMMAND_CHARACTERS_MAX:
        command = f"{command[:_COMMAND_CHARACTERS_MAX]} \u2026"
    when = report.began.strftime("%Y-%m-%d %H:%M UTC")
    return element(
        "header",
        element("p", f"Outlast drill, {when}", class_="over"),
        element("h1", title(report), class_="good" if report.survived else "bad"),
        element("p", _sentence(report), class_="lead"),
        element("pre", element("code", command), class_="command"),
        element("dl", *_figures(report, lost), class_="figures") if report.disturbed else None,
        element("ul", *_answers(report), class_="answers"),
    )


def _sentence(report: Report) -> str:
    faults = [_QUESTIONS.get(one.code, ("", one.code))[1] for one in report.verdicts if not one.ok]
    leg = report.disturbed
    if leg is None:
        return f"The command was never evicted, because even undisturbed {_listed(faults)}."
    silent = sum(not one.notice for one in leg.evictions)
    evicted = f"It was evicted {_times(len(leg.evictions))}"
    if silent:
        evicted += f", {silent:,} of them without notice" if silent < len(leg.evictions) else ""
        evicted += ", always without notice" if silent == len(leg.evictions) > 0 else ""
    if faults:
        return f"{evicted}: {_listed(faults)}."
    finisher = leg.finisher
    finished = f"finished in attempt {finisher.number}" if finisher else "finished"
    if report.workers > 1:
        finished = f"its {report.workers} workers finished"
    return f"{evicted}, {'and ' if not _sameness(report) else ''}{finished}{_sameness(report)}."


def _sameness(report: Report) -> str:
    """What is known of the result, for the end of the sentence."""
    items = sum(item.items for one in report.comparisons for item in one.items)
    if items:
        return f", and each of {items:,} items is there exactly once"
    if any(one.code == "not-identical" and one.ok for one in report.verdicts):
        exact = all(one.how == "bit for bit" for one in report.comparisons)
        how = "bit for bit " if exact else ""
        return f", and the result is {how}that of an undisturbed run"
    return ""


def _figures(report: Report, lost: Sequence[WorkLost]) -> Iterator[Html]:
    leg = report.disturbed
    assert leg is not None, "There are no figures without it."
    planned = report.evictions_planned
    said = "by chance, at a rate" if planned is None else f"of {planned:,} planned"
    yield _figure("evictions", f"{report.evictions_landed:,}", said)
    yield _figure("attempts", f"{len(leg.attempts):,}", f"{report.workers} at a time")
    items = [item for one in report.comparisons for item in one.items]
    if items:
        said = f"{report.items_lost:,} missing, {report.duplicates:,} twice"
        yield _figure("items", f"{sum(one.items for one in items):,}", said)
    if report.workers == 1:
        yield _figure("work lost", *_lost_said(report, lost))
    left = [one.left_seconds for one in leg.evictions if one.had_full_grace and not one.killed]
    if left:
        grace = f"of {report.grace_seconds:g} s of grace"
        yield _figure("slowest to leave", f"{max(left):.2f} s", grace)
    calm = report.figures and f"{format_duration(report.figures.seconds)} undisturbed"
    yield _figure("took", format_duration(leg.seconds), calm or "no undisturbed run")


def _lost_said(report: Report, lost: Sequence[WorkLost]) -> tuple[str, str]:
    steps = [one.steps for one in lost if one.steps is not None]
    if report.runs and steps:
        least = any(one.is_minimum for one in lost)
        most = f"at most {max(steps):,} at once"
        clock = report.seconds_lost
        about = f"at least; {format_duration(clock)} by clock" if clock else "at least"
        return _count(sum(steps), "step"), about if least else most
    if not all(one.ok for one in report.verdicts if one.code == "not-finished"):
        return "not known", "it did not finish"
    if report.seconds_lost is not None:
        return format_duration(report.seconds_lost), "by the clocks of both runs"
    return "not known", "no journal and no undisturbed run"


def _figure(name: str, value: str, small: str) -> Html:
    return element("div", element("dt", name), element("dd", value, element("small", small)))


def _answers(report: Report) -> Iterator[Html]:
    for verdict in report.verdicts:
        yield _answer(verdict, "yes" if verdict.ok else "no")
    for question in report.not_judged:
        yield _answer(question, "open")


def _answer(verdict: Verdict | NotJudged, kind: str) -> Html:
    sign, word, colour = {
        "yes": ("\u2713", "yes", "good"),
        "no": ("\u2717", "no", "bad"),
        "open": ("\u2013", "not judged", ""),
    }[kind]
    question = _QUESTIONS.get(verdict.code, (verdict.code, ""))[0]
    mark = join([element("span", f"{sign} ", aria_hidden="true"), word])
    return element(
        "li",
        element("span", mark, class_=f"mark {colour}".strip()),
        element(
            "p",
            element("b", question),
            " ",
            prose(verdict.reason),
            " ",
            element("code", verdict.code, class_="code"),
        ),
        class_=kind,
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def _listed(words: Sequence[str]) -> str:
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])}, and {words[-1]}"
