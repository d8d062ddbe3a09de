"""SARIF 2.1.0, which code hosts show beside the lines of a pull request."""

import hashlib
import json
from importlib.metadata import version
from typing import Any
from urllib.parse import quote

from outlast.manifests.lint.finding import Finding
from outlast.manifests.lint.report import Report
from outlast.manifests.lint.rule import Rule

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def write(report: Report) -> str:
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
                        "rules": [_rule(rule) for rule in report.rules],
                    }
                },
                "columnKind": "unicodeCodePoints",
                "results": [_result(finding, rules[finding.code]) for finding in report],
            }
        ],
    }
    return json.dumps(data, indent=2) + "\n"


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": rule.manual.title},
        "fullDescription": {"text": rule.manual.why},
        "help": {"text": rule.manual.instead},
        "defaultConfiguration": {"level": _LEVELS[rule.severity.word]},
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    line = finding.fault.place.source.line_text(finding.line).strip()
    identity = "\0".join((finding.code, finding.file, line)).encode(errors="replace")
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity.word],
        "message": {"text": f"{finding.message} {finding.hint}"},
        "partialFingerprints": {"outlast/v1": hashlib.sha256(identity).hexdigest()},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(finding.file)},
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
