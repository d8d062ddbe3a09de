"""The table of evictions: when, of what kind, heard or not, and what each cost. Pure."""

from collections.abc import Sequence

from outlast.drill.page import kinds
from outlast.drill.page.losses import WorkLost
from outlast.drill.page.markup import Html, element, prose
from outlast.drill.report import Report

SHOWN = 25
"""More than these are folded away."""

ROWS_MAX = 3000
_HEAD = (
    ("#", True),
    ("when", True),
    ("attempt", True),
    ("kind", False),
    ("heard", False),
    ("left after", True),
    ("exit code", True),
    ("work lost", True),
)


def evictions(report: Report, lost: Sequence[WorkLost]) -> Html | None:
    """The section; None if no eviction landed."""
    if not lost:
        return None
    first, rest = lost[:SHOWN], lost[SHOWN:ROWS_MAX]
    left_out = len(lost) - len(first) - len(rest)
    folded = rest and element(
        "details",
        element("summary", f"Show {len(rest):,} more"),
        _table(rest, f"Evictions {SHOWN + 1} to {SHOWN + len(rest)}"),
    )
    note = left_out and element(
        "p", f"{left_out:,} more are in the output of --format json.", class_="note"
    )
    return element(
        "section",
        element("h2", "Evictions"),
        element("p", prose(_said(report, lost)), class_="note"),
        _table(first, "Evictions"),
        folded or None,
        note or None,
    )


def _said(report: Report, lost: Sequence[WorkLost]) -> str:
    said = f"The grace period was {report.grace_seconds:g} s."
    if any(one.steps is None or (one.is_minimum and not one.steps) for one in lost):
        said += " Work lost in seconds is a bound: the work since the attempt last wrote anything."
    if any(one.steps and one.is_minimum for one in lost):
        said += " A kill may cost more steps than the journal had written down by then."
    return said


def _table(rows: Sequence[WorkLost], label: str) -> Html:
    heads = [
        element("th", name, scope="col", class_="n" if is_number else None)
        for name, is_number in _HEAD
    ]
    table = element(
        "table",
        element("thead", element("tr", *heads)),
        element("tbody", *map(_row, rows)),
        class_="evictions",
    )
    return element("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def _row(lost: WorkLost) -> Html:
    one = lost.eviction
    left = f"{one.left_seconds:.2f} s{', killed' if one.killed else ''}"
    code = f"{one.exit_code}{' too soon' if one.unfinished_zero else ''}"
    return element(
        "tr",
        element("th", one.number, scope="row", class_="n"),
        element("td", f"{one.at_seconds:.1f} s", class_="n"),
        element("td", one.attempt, class_="n"),
        element("td", kinds.kind_of(one)),
        element("td", kinds.heard_by(one) if one.notice else None),
        element("td", left if one.notice else None, class_="n"),
        element("td", code, class_="n"),
        element("td", str(lost), class_="n"),
    )
