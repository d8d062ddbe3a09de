"""Runs the fixtures of a rule and reads the marks in them.

A folder `tests/fixtures/rules/NAME` holds `flagged.yaml` and `clean.yaml`. A file of another ending
whose name starts alike (`flagged.sh`) belongs to it; every other file belongs to both. A line that
the rule must flag ends in `# <- CODE`; no other line may be flagged by it.
"""

import re
from pathlib import Path

from outlast.manifests.lint.engine.configuration import LintOptions
from outlast.manifests.lint.engine.report import LintReport
from outlast.manifests.lint.engine.rule import Rule
from outlast.manifests.linting import lint

FIXTURES = Path(__file__).parents[3] / "fixtures" / "rules"

_MARK = re.compile(r"# <- (OL\d{3}(?:, OL\d{3})*)\s*$")

Flagged = tuple[str, str, int]
"""A code, a file name and a line."""


def files_of(rule: Rule, kind: str) -> list[Path]:
    """The files of `flagged` or `clean`, with those that belong to both."""
    other = {"flagged": "clean", "clean": "flagged"}[kind]
    return sorted(path for path in (FIXTURES / rule.name).iterdir() if path.stem != other)


def marks_in(files: list[Path]) -> set[Flagged]:
    """What the marks in these files say."""
    return {
        (code, path.name, number)
        for path in files
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if (match := _MARK.search(line))
        for code in match[1].split(", ")
    }


def found_by(rule: Rule, files: list[Path]) -> set[Flagged]:
    """What the rule finds in these files. All rules run, because one looks at what others find."""
    return {one for one in flagged(lint_files(*files)) if one[0] == rule.code}


def flagged(report: LintReport) -> set[Flagged]:
    return {(one.code, Path(one.file).name, one.line) for one in report}


def lint_files(*files: Path, options: LintOptions | None = None) -> LintReport:
    return lint(*files, options=options)
