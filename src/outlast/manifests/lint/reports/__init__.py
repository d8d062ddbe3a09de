"""How a report is written: for people, for programs, and for tools that display it elsewhere."""

from enum import StrEnum

from outlast.manifests.lint.engine.report import LintReport


class ReportFormat(StrEnum):
    """The formats of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    JUNIT = "junit"


def write_report(report: LintReport, format: ReportFormat, *, color: bool = False) -> str:
    """The report as text. Only the format for people has colors."""
    # Formats are imported when needed, to start quickly.
    if format is ReportFormat.TEXT:
        from outlast.manifests.lint.reports.text import write_text

        return write_text(report, color=color)
    from outlast.manifests.lint.reports import machine

    writers = {
        ReportFormat.JSON: machine.write_json,
        ReportFormat.SARIF: machine.write_sarif,
        ReportFormat.GITHUB: machine.write_github,
        ReportFormat.JUNIT: machine.write_junit,
    }
    return writers[format](report)
