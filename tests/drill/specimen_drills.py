"""The specimens with the verdicts that an expert would give, and how each is drilled."""

import sys
import tomllib
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from outlast.drills.judge.report import DrillReport
from outlast.drills.judge.verdict import CheckResult
from outlast.drills.rehearsal import drill

FOLDER = Path(__file__).parent / "specimens"
# They resume, but a drill cannot see it.
_RESUME = frozenset({"saves_once"})
_ROWS = ["no-lost-items", "no-duplicates"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Specimen:
    """A program and what an expert would say of it. `says` are words of the reasons."""

    name: str
    verdict: str
    program: str = ""
    shell: str = ""
    expect: str = "result.json"
    reset: str | None = None
    grace_seconds: float = 8.0
    hostile: float = 0.5
    quick: bool = False
    fail: list[str] = field(default_factory=list)
    warn: list[str] = field(default_factory=list)
    na: list[str] = field(default_factory=lambda: list(_ROWS))
    either: list[str] = field(default_factory=list)
    says: dict[str, str] = field(default_factory=dict)

    @property
    def module(self) -> str:
        return self.program or self.name

    @property
    def habit(self) -> str:
        """The docstring of the program, and how it is started if that is its habit."""
        text = (FOLDER / f"{self.module}.py").read_text().split('"""')[1]
        return f"{text} It runs under a shell." if self.shell else text

    @property
    def never_resumes(self) -> bool:
        """Whether it does all the work again at each start, and would finish if left alone."""
        is_unproven = self.verdict == "inconclusive" and self.name not in _RESUME
        return "resumed" in self.fail or is_unproven

    def drill(self, seed: int, *, evictions: int = 3) -> DrillReport:
        command = [sys.executable, "-m", f"tests.drill.specimens.{self.module}"]
        if self.shell:
            command = ["sh", "-c", f"{' '.join(command)}{self.shell}"]
        return drill(
            command,
            evictions=evictions,
            grace=timedelta(seconds=self.grace_seconds),
            hostile=self.hostile,
            seed=seed,
            expect=[self.expect],
            reset=self.reset,
        )

    def wrongs(self, report: DrillReport) -> list[str]:
        """What the drill says differently from the expert; empty if nothing."""
        found = [] if report.verdict == self.verdict else [f"verdict: {report.verdict}"]
        for check in report.checks:
            if check.result != self._result_of(check.name) and check.name not in self.either:
                found.append(f"{check.name}: {check.result}")
            if self.says.get(check.name, "") not in check.reason:
                found.append(f"{check.name}: {check.reason}")
        return found

    def _result_of(self, check: str) -> CheckResult:
        if check in self.fail:
            return CheckResult.FAIL
        if check in self.warn:
            return CheckResult.WARN
        return CheckResult.NOT_APPLICABLE if check in self.na else CheckResult.PASS


def specimens() -> list[Specimen]:
    kept = tomllib.loads((FOLDER / "verdicts.toml").read_text())
    return [Specimen(name=name, **about) for name, about in kept.items()]


def verdicts_page() -> str:
    """The page that lists the habits and their verdicts."""
    rows = [
        f"| {one.habit} | {one.verdict} | {_names(one.fail)} | {_names(one.warn)} |"
        for one in specimens()
    ]
    return "\n".join(
        [
            "# Drill verdicts",
            "",
            "The verdict of a drill on small programs that do what real scripts do. Each drill has",
            "3 evictions, at least one of them with a full grace period, and a file to compare.",
            "The programs are in `tests/drill/specimens`; `make soak` drills them on an idle and",
            "on a busy machine, and every check must come out as listed. Checks that are not",
            "listed pass, or do not apply. [How to drill your job](../how-to/drill-your-job.md)",
            "explains the checks.",
            "",
            "| the program | verdict | fails | warns |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _names(checks: list[str]) -> str:
    return ", ".join(f"`{one}`" for one in checks)
