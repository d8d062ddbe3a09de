"""How a report is written: for people, for programs, for the tools that show it elsewhere."""

from enum import StrEnum
from importlib import import_module
from typing import Any

from outlast.manifests.lint.report import Report


class ReportFormat(StrEnum):
    """The formats of a report."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"
    GITHUB = "github"
    JUNIT = "junit"


def write_report(report: Report, format: ReportFormat, *, colour: bool = False) -> str:
    """The report as text. Only the format for people has colours."""
    # Each format is loaded when asked for, to keep the start short.
    module: Any = import_module(f"outlast.manifests.lint.reports.{format}")
    options = {"colour": colour} if format is ReportFormat.TEXT else {}
    return str(module.write(report, **options))
