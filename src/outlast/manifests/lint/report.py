"""The result of a lint."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from outlast.manifests.lint.finding import Finding
from outlast.manifests.lint.rule import Rule, Severity


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """What was found, and in how much. Iterating over it gives the findings.

    `ignored` were dropped by ignores, `known` by the baseline, `fixed` by fixes. `notices` tell a
    person what was left out.
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
        """Whether something is at least as bad as `fail_on`; nothing is for None."""
        return fail_on is not None and any(one.severity >= fail_on for one in self.findings)

    def counts(self) -> dict[str, int]:
        """How many findings there are of each severity, the worst first."""
        counts = Counter(finding.severity for finding in self.findings)
        return {severity.word: counts[severity] for severity in sorted(Severity, reverse=True)}
