"""For people: each finding with its lines, why it matters and what to do."""

import textwrap
import unicodedata

from outlast.manifests.lint.finding import Finding
from outlast.manifests.lint.report import Report

WIDTH = 100
_EXCERPT_WIDTH = 120
_COLOURS = {"error": "1;31", "warning": "1;33", "info": "1;36"}


def write(report: Report, *, colour: bool = False) -> str:
    return "".join(_finding(finding, colour=colour) for finding in report)


def summary(report: Report) -> str:
    """One line that says how it went."""
    parts = [
        f"{count} {word}{'s' if count != 1 and word != 'info' else ''}"
        for word, count in report.counts().items()
        if count
    ]
    found = ", ".join(parts) if parts else "no findings"
    text = f"{found} in {_many(report.objects, 'object')}"
    if report.pools:
        text += f" and {_many(report.pools, 'node pool')}"
    text += f" of {_many(report.files, 'file')}"
    for count, words in ((report.fixed, "fixed"), (report.ignored, "ignored")):
        if count:
            text += f", {count} {words}"
    if report.known:
        text += f", {report.known} in the baseline"
    return text[0].upper() + text[1:] + "."


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _finding(finding: Finding, *, colour: bool) -> str:
    word = finding.severity.word
    head = f"{printable(finding.where)}: {_painted(word, _COLOURS[word], colour)} {finding.rule}: "
    lines = [head + printable(finding.message), *_excerpt(finding)]
    hint = finding.hint
    if finding.fault.fix is not None:
        flags = "--fix" if finding.fault.fix.is_safe else "--fix --unsafe-fixes"
        hint += f" ({flags} does it: {finding.fault.fix.title}.)"
    for label, text in (("why:", finding.why), ("fix:", hint)):
        lines += textwrap.wrap(
            printable(text),
            width=WIDTH,
            initial_indent=f"  {label} ",
            subsequent_indent="       ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines) + "\n\n"


def _excerpt(finding: Finding) -> list[str]:
    """The line with carets under what is meant."""
    text = finding.fault.place.source.line_text(finding.line)
    start = finding.column - 1
    end = finding.end_column - 1 if finding.end_line == finding.line else len(text)
    # A long line is shown from a little before the place.
    cut = max(0, start - 40) if len(text) > _EXCERPT_WIDTH else 0
    shown = text[cut : cut + _EXCERPT_WIDTH]
    before = shown[: start - cut]
    marked = text[start : max(start + 1, end)][: _EXCERPT_WIDTH - (start - cut)]
    number = str(finding.line)
    pad = "".join("\t" if sign == "\t" else " " * _width(sign) for sign in before)
    carets = "^" * max(1, sum(map(_width, marked)))
    return [
        f"  {number} | {printable(shown, keep_tabs=True)}",
        f"  {' ' * len(number)} | {pad}{carets}",
    ]


def printable(text: str, *, keep_tabs: bool = False) -> str:
    """The text without signs that could steer a terminal."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or (keep_tabs and sign == "\t") else "\N{REPLACEMENT CHARACTER}"
        for sign in text
    )


def _width(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in ("W", "F") else 1


def _painted(text: str, code: str, colour: bool) -> str:
    return f"\033[{code}m{text}\033[0m" if colour else text
