"""What is reported: a fault, by which rule, how bad, and where in which file."""

from dataclasses import dataclass, field
from typing import Any

from outlast.manifests.lint.rule import Rule, Severity
from outlast.manifests.lint.view import Fault


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A reported fault. Lines and columns count from 1; the end is not included any more."""

    code: str
    name: str
    severity: Severity
    message: str
    hint: str
    why: str
    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    fixable: bool
    fault: Fault = field(repr=False, compare=False)

    @property
    def rule(self) -> str:
        return f"{self.code} {self.name}"

    @property
    def where(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"

    def as_json(self) -> dict[str, Any]:
        """What the JSON report holds of it."""
        fix = self.fault.fix
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity.word,
            "message": self.message,
            "hint": self.hint,
            "why": self.why,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
            "fixable": self.fixable,
            "fix": None if fix is None else {"title": fix.title, "safe": fix.is_safe},
        }


def finding_of(rule: Rule, fault: Fault, severity: Severity) -> Finding:
    source = fault.place.source
    line, column = source.position(fault.place.start)
    end_line, end_column = source.position(max(fault.place.start, fault.place.end))
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=severity,
        message=fault.message,
        hint=fault.hint or rule.manual.instead,
        why=rule.manual.why,
        file=source.name,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        fixable=fault.fix is not None,
        fault=fault,
    )
