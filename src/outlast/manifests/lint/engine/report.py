"""The result of a lint: findings, with their rule, severity and position."""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from outlast._redact import redact_all
from outlast.manifests.lint.engine.rule import Rule, Severity
from outlast.manifests.lint.view import Fault


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """A reported fault. Lines and columns count from 1; the end is exclusive."""

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
        """The finding as in the JSON report."""
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


@dataclass(frozen=True, kw_only=True, slots=True)
class LintReport:
    """The findings, and how much was linted. Iterating over it gives the findings.

    `ignored`, `known` and `fixed` count findings removed by ignores, the baseline and fixes.
    `notices` tell the user what was skipped.
    """

    findings: tuple[Finding, ...]
    rules: tuple[Rule, ...]
    files: int
    objects: int
    pools: int
    ignored: int = 0
    known: int = 0
    fixed: int = 0
    notices: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.findings)

    def __len__(self) -> int:
        return len(self.findings)

    def fails(self, fail_on: Severity | None) -> bool:
        """Whether a finding is at least as severe as `fail_on`; never for None."""
        return fail_on is not None and any(one.severity >= fail_on for one in self.findings)

    def counts(self) -> dict[str, int]:
        """The number of findings of each severity, the most severe first."""
        counts = Counter(finding.severity for finding in self.findings)
        return {severity.word: counts[severity] for severity in sorted(Severity, reverse=True)}


def finding_of(
    rule: Rule, fault: Fault, severity: Severity, *, secrets: Collection[str]
) -> Finding:
    """The finding of a fault. `secrets` are masked in its texts, and what looks like one."""
    source = fault.place.source
    line, column = source.position(fault.place.start)
    end_line, end_column = source.position(max(fault.place.start, fault.place.end))
    return Finding(
        code=rule.code,
        name=rule.name,
        severity=severity,
        message=redact_all(fault.message, secrets),
        # The manual contains nothing of the user's.
        hint=redact_all(fault.hint, secrets) if fault.hint else rule.manual.instead,
        why=rule.manual.why,
        file=source.name,
        line=line,
        column=column,
        end_line=end_line,
        end_column=end_column,
        fixable=fault.fix is not None,
        fault=fault,
    )
