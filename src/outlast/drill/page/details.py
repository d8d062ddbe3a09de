"""The rest of the page: what was compared, last outputs, how the drill was held. Pure."""

from collections.abc import Iterator, Sequence

from outlast._base.durations import format_duration
from outlast.drill.artifacts import Comparison
from outlast.drill.page.markup import Html, element, join
from outlast.drill.records import Attempt, Ended, LegEnd
from outlast.drill.report import Report

_COMPARED_MAX = 200
_OUTPUTS_MAX = 5


def compared(report: Report) -> Html | None:
    """What the disturbed run made, against what the undisturbed one made."""
    # Generators that nobody seeded differ from the start, and mean nothing if the result is right.
    differs = any(one.code == "not-identical" and not one.ok for one in report.verdicts)
    if not report.comparisons and not (report.divergence and differs):
        return None
    has_items = any(one.items for one in report.comparisons)
    rows = [_row(one, has_items=has_items) for one in report.comparisons[:_COMPARED_MAX]]
    heads = ["file", "the same?", "compared"]
    heads += ["items", "missing", "twice"] if has_items else []
    head = [
        element("th", name, scope="col", class_="n" if index > 2 else None)
        for index, name in enumerate(heads)
    ]
    table = rows and element(
        "div",
        element("table", element("thead", element("tr", *head)), element("tbody", *rows)),
        class_="scroll",
        tabindex=0,
        role="region",
        aria_label="Compared files",
    )
    said = f"The two runs first went apart at {report.divergence}."
    apart = element("p", said) if report.divergence is not None and differs else None
    return element("section", element("h2", "What it made"), table or None, apart)


def outputs(report: Report) -> Html | None:
    """The last lines of the attempts that failed by themselves, or of the one that hung."""
    leg = report.disturbed or report.baseline
    if leg is None:
        return None
    failed = [one for one in leg.attempts if one.ended is Ended.FAILED]
    if not failed and leg.end is LegEnd.TIMED_OUT:
        failed = list(leg.attempts[-1:])
    if not failed:
        return None
    alike: dict[tuple[int, str], list[Attempt]] = {}
    for one in failed:
        alike.setdefault((one.exit_code, one.output_tail), []).append(one)
    shown = [part for ones in list(alike.values())[-_OUTPUTS_MAX:] for part in _output(ones)]
    return element("section", element("h2", "What it printed last"), *shown)


def about(report: Report) -> Html:
    """How the drill was held, so that it can be held again."""
    facts: list[tuple[str, object]] = [
        ("evictions", report.evictions_told),
        ("grace period", f"{report.grace_seconds:g} s"),
        ("workers", report.workers),
        ("seed", report.seed),
        ("each node", report.isolation),
        ("began", report.began.isoformat(timespec="seconds")),
        ("the whole drill took", format_duration(report.seconds)),
        ("outlast", report.outlast_version),
    ]
    for run in report.runs:
        if run.save_seconds is not None:
            said = f"{run.saves:,}, each {run.save_seconds:.3f} s (median) until durable"
            facts.append((f"saves in {run.folder}", said))
    pairs = [part for name, value in facts for part in _pair(name, value)]
    notes = [element("p", one, class_="note") for one in report.remarks]
    return element(
        "section", element("h2", "How it was held"), *notes, element("dl", *pairs, class_="facts")
    )


def _row(one: Comparison, *, has_items: bool) -> Html:
    same = one.difference is None
    answer = "yes" if same else join([element("b", "no: ", class_="bad"), one.difference])
    counts = [
        sum(getattr(item, name) for item in one.items) if one.items else "\u2013"
        for name in ("items", "lost", "doubled")
    ]
    return element(
        "tr",
        element("th", element("bdi", one.name), scope="row"),
        element("td", answer),
        element("td", one.how),
        *(element("td", count, class_="n") for count in counts if has_items),
    )


def _output(attempts: Sequence[Attempt]) -> Iterator[Html]:
    last = attempts[-1]
    others = f", as {len(attempts) - 1:,} before it" if len(attempts) > 1 else ""
    yield element("h3", f"Attempt {last.number}, exit code {last.exit_code}{others}")
    yield element("pre", element("code", last.output_tail or "(nothing)"), tabindex=0)


def _pair(name: str, value: object) -> Iterator[Html]:
    yield element("dt", name)
    yield element("dd", value)
