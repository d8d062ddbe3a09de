"""Workflow commands, which GitHub shows on the changed lines of a pull request."""

from outlast.manifests.lint.finding import Finding
from outlast.manifests.lint.report import Report

_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def write(report: Report) -> str:
    return "".join(_command(finding) for finding in report)


def _command(finding: Finding) -> str:
    # GitHub takes columns only within one line.
    columns = ""
    if finding.end_line == finding.line:
        columns = f",col={finding.column},endColumn={finding.end_column}"
    return (
        f"::{_COMMANDS[finding.severity.word]} file={_value(finding.file)},line={finding.line},"
        f"endLine={finding.end_line}{columns},title={_value(finding.rule)}"
        f"::{_text(finding.message)} {_text(finding.hint)}\n"
    )


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")
