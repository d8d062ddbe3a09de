"""The report formats for programs: JSON, SARIF, GitHub's workflow commands and JUnit's XML."""

import hashlib
import json
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from outlast.manifests.lint.engine.report import Finding, LintReport
from outlast.manifests.lint.engine.rule import Rule
from outlast.report.junit import JUnitCase, junit_xml
from outlast.yamltext.editing import Splice, plan_revision
from outlast.yamltext.source import SourceText

_SARIF_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_SARIF_BASE = "SRCROOT"
_GITHUB_COMMANDS = {"error": "error", "warning": "warning", "info": "notice"}


def write_json(report: LintReport) -> str:
    """One object with everything in it."""
    data = {
        "findings": [finding.as_json() for finding in report],
        "summary": {
            **report.counts(),
            "files": report.files,
            "objects": report.objects,
            "pools": report.pools,
            "ignored": report.ignored,
            "known": report.known,
            "fixed": report.fixed,
        },
        "notices": list(report.notices),
    }
    return json.dumps(data, indent=2) + "\n"


def write_sarif(report: LintReport) -> str:
    """SARIF 2.1.0, which code hosts show next to the lines of a pull request."""
    rules = {rule.code: index for index, rule in enumerate(report.rules)}
    data = {
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "outlast",
                        "version": version("outlast"),
                        "rules": [_sarif_rule(rule) for rule in report.rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {
                    _SARIF_BASE: {
                        "description": {"text": "The folder in which outlast was started."}
                    }
                },
                "results": [_sarif_result(finding, rules[finding.code]) for finding in report],
            }
        ],
    }
    return json.dumps(data, indent=2) + "\n"


def _sarif_rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.manual.title},
        "fullDescription": {"text": rule.manual.why},
        "help": {"text": rule.manual.instead},
        "defaultConfiguration": {"level": _SARIF_LEVELS[rule.severity.word]},
    }


def _sarif_result(finding: Finding, index: int) -> dict[str, Any]:
    line = finding.fault.place.source.line_text(finding.line).strip()
    identity = "\0".join((finding.code, finding.file, line)).encode(errors="replace")
    result = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _SARIF_LEVELS[finding.severity.word],
        "message": {"text": f"{finding.message} {finding.hint}"},
        "partialFingerprints": {"outlast/v1": hashlib.sha256(identity).hexdigest()},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": _sarif_file(finding.file),
                    "region": {
                        "startLine": finding.line,
                        "startColumn": finding.column,
                        "endLine": finding.end_line,
                        "endColumn": finding.end_column,
                    },
                }
            }
        ],
    }
    fix = _sarif_fix(finding)
    return result if fix is None else {**result, "fixes": [fix]}


def _sarif_file(name: str) -> dict[str, str]:
    """A relative path is relative to the base; an absolute one stands for itself."""
    if name.startswith("/"):
        return {"uri": f"file://{quote(name)}"}
    return {"uri": quote(name), "uriBaseId": _SARIF_BASE}


def _sarif_fix(finding: Finding) -> dict[str, Any] | None:
    """The changes of the text that fix a finding, None if there are none."""
    fault = finding.fault
    if fault.fix is None or fault.view is None:
        return None
    source = fault.place.source
    revision = plan_revision(source, fault.view.manifest.data, fault.fix.changes)
    if revision is None:
        return None
    changes = [_sarif_replacement(source, splice) for splice in revision.splices]
    return {
        "description": {"text": fault.fix.title},
        "artifactChanges": [
            {"artifactLocation": _sarif_file(finding.file), "replacements": changes}
        ],
        "properties": {"safe": fault.fix.is_safe},
    }


def _sarif_replacement(source: SourceText, splice: Splice) -> dict[str, Any]:
    start_line, start_column = source.position(splice.start)
    end_line, end_column = source.position(splice.end)
    return {
        "deletedRegion": {
            "startLine": start_line,
            "startColumn": start_column,
            "endLine": end_line,
            "endColumn": end_column,
        },
        "insertedContent": {"text": splice.text},
    }


def write_github(report: LintReport) -> str:
    """Workflow commands, which GitHub shows on the changed lines of a pull request."""
    return "".join(_command(finding) for finding in report)


def _command(finding: Finding) -> str:
    # GitHub accepts columns only within one line.
    columns = ""
    if finding.end_line == finding.line:
        columns = f",col={finding.column},endColumn={finding.end_column}"
    command = _GITHUB_COMMANDS[finding.severity.word]
    return (
        f"::{command} file={_escaped_value(finding.file)},line={finding.line},"
        f"endLine={finding.end_line}{columns},title={_escaped_value(finding.rule)}"
        f"::{_escaped(finding.message)} {_escaped(finding.hint)}\n"
    )


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escaped_value(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")


def write_junit(report: LintReport) -> str:
    """JUnit XML, which most CI systems count and show as failed tests."""
    cases = [_case(finding) for finding in report]
    # Some systems treat a suite without tests as an error.
    return junit_xml(
        "outlast lint", cases or [JUnitCase(classname="outlast.lint", name="no findings")]
    )


def _case(finding: Finding) -> JUnitCase:
    return JUnitCase(
        classname=finding.file,
        name=f"{finding.rule} at {finding.where}",
        failure=finding.message,
        failure_type=finding.severity.word,
        details=f"{finding.message}\nwhy: {finding.why}\nfix: {finding.hint}",
        attributes={"file": finding.file, "line": str(finding.line)},
    )
