"""The report for people: each finding with its line, why it matters and what to do."""

import textwrap
import unicodedata
from collections.abc import Collection
from functools import lru_cache

from outlast._redact import known_secrets, redact_excerpt
from outlast.manifests.lint.engine.report import Finding, LintReport

WIDTH = 100
_EXCERPT_WIDTH = 120
_COLORS = {"error": "1;31", "warning": "1;33", "info": "1;36"}


def write_text(report: LintReport, *, color: bool = False) -> str:
    secrets = known_secrets()
    return "".join(_finding(finding, secrets, color=color) for finding in report)


def summary(report: LintReport) -> str:
    """One line that sums up the report."""
    parts = [
        f"{count} {word}{'s' if count != 1 and word != 'info' else ''}"
        for word, count in report.counts().items()
        if count
    ]
    found = ", ".join(parts) if parts else "no findings"
    text = f"{found} in {_many(report.objects, 'object')}"
    if report.pools:
        text += f" and {_many(report.pools, 'node pool')}"
    text += f" ({_many(report.files, 'file')})"
    for count, words in ((report.fixed, "fixed"), (report.ignored, "ignored")):
        if count:
            text += f", {count} {words}"
    if report.known:
        text += f", {report.known} in the baseline"
    return text[0].upper() + text[1:] + "."


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _finding(finding: Finding, secrets: Collection[str], *, color: bool) -> str:
    word = finding.severity.word
    head = f"{printable(finding.where)}: {_painted(word, _COLORS[word], color)} {finding.rule}: "
    lines = [head + printable(finding.message), *_excerpt(finding, secrets)]
    hint = finding.hint
    if finding.fault.fix is not None:
        flags = "--fix" if finding.fault.fix.is_safe else "--fix --unsafe-fixes"
        hint += f" ({flags} can do this: {finding.fault.fix.title}.)"
    for label, text in (("why:", finding.why), ("fix:", hint)):
        lines += _wrapped(label, text)
    return "\n".join(lines) + "\n\n"


# Most texts are from the manual of a rule, so they occur again.
@lru_cache(maxsize=256)
def _wrapped(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        printable(text),
        width=WIDTH,
        initial_indent=f"  {label} ",
        subsequent_indent="       ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _excerpt(finding: Finding, secrets: Collection[str]) -> list[str]:
    """The line with carets under the fault."""
    source = finding.fault.place.source
    text = source.line_text(finding.line)
    start = finding.column - 1
    end = finding.end_column - 1 if finding.end_line == finding.line else len(text)
    # A long line is shown from shortly before the fault.
    cut = max(0, start - 40) if len(text) > _EXCERPT_WIDTH else 0
    shown = text[cut : cut + _EXCERPT_WIDTH]
    before = shown[: start - cut]
    marked = text[start : max(start + 1, end)][: _EXCERPT_WIDTH - (start - cut)]
    number = str(finding.line)
    if (redacted := redact_excerpt(text, source.text, secrets=secrets)) != text:
        # The carets would be in the wrong place.
        return [f"  {number} | {printable(redacted[:_EXCERPT_WIDTH], keep_tabs=True)}"]
    pad = "".join("\t" if sign == "\t" else " " * _width(sign) for sign in before)
    carets = "^" * max(1, sum(map(_width, marked)))
    return [
        f"  {number} | {printable(shown, keep_tabs=True)}",
        f"  {' ' * len(number)} | {pad}{carets}",
    ]


def printable(text: str, *, keep_tabs: bool = False) -> str:
    """The text without characters that could control a terminal."""
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


def _painted(text: str, code: str, color: bool) -> str:
    return f"\033[{code}m{text}\033[0m" if color else text
