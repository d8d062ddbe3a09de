"""Checks, their results, and the verdict that they add up to. Plain values; nothing here runs.

A check is named for what it proves, so a failed `resumed` means that the job did not resume.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from outlast.drills.compare.artifacts import Comparison
from outlast.drills.compare.divergence import HashComparison
from outlast.drills.judge.evidence import JournaledRun
from outlast.drills.run.baseline import BaselineFigures
from outlast.drills.run.evidence import AttemptEvidence, JobEvidence
from outlast.drills.run.records import Attempt, JobRun

CONCLUSIVE = "conclusive"


class CheckResult(StrEnum):
    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    NOT_APPLICABLE = "n/a"
    """The drill could not decide it; the reason explains why."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One thing that a drill proves or disproves, such as `resumed`, with the reason."""

    name: str
    result: CheckResult
    reason: str


class Verdict(StrEnum):
    """What all checks of a drill add up to."""

    SURVIVED = "survived"
    SURVIVED_WITH_WARNINGS = "survived with warnings"
    DID_NOT_SURVIVE = "did not survive"
    INCONCLUSIVE = "inconclusive"
    """No check failed except `conclusive`: the drill proves nothing."""


def verdict_of(checks: Iterable[Check]) -> Verdict:
    """The verdict over all checks. A failed check outweighs an inconclusive drill."""
    checks = tuple(checks)
    failed = {one.name for one in checks if one.result is CheckResult.FAIL}
    if failed - {CONCLUSIVE}:
        return Verdict.DID_NOT_SURVIVE
    if failed:
        return Verdict.INCONCLUSIVE
    if any(one.result is CheckResult.WARN for one in checks):
        return Verdict.SURVIVED_WITH_WARNINGS
    return Verdict.SURVIVED


def passed(name: str, reason: str) -> Check:
    return Check(name=name, result=CheckResult.PASS, reason=reason)


def failed(name: str, reason: str) -> Check:
    return Check(name=name, result=CheckResult.FAIL, reason=reason)


def not_applicable(name: str, reason: str) -> Check:
    return Check(name=name, result=CheckResult.NOT_APPLICABLE, reason=reason)


@dataclass(frozen=True, kw_only=True, slots=True)
class Observations:
    """Everything that a drill observed. `figures` is None without a baseline.

    `finished_when` is the result of the user's test after the job ended. `needed` is how many
    evictions must have landed. `evidence` is what each attempt printed and did with files.
    `repeat` compares the baseline with a second run without evictions, and is empty if there was
    no need for one. `control` is the attempt of such a run, which may have been stopped before its
    end. `expected` are the names that were to be compared. `may_save_elsewhere` means
    that the options refer to state outside the folder of the run.
    """

    job_run: JobRun
    workers: int
    grace_seconds: float
    needed: int
    figures: BaselineFigures | None = None
    finished_when: bool | None = None
    comparisons: tuple[Comparison, ...] = ()
    missing: tuple[str, ...] = ()
    runs: tuple[JournaledRun, ...] = ()
    hashes: HashComparison | None = None
    evidence: JobEvidence = field(default_factory=dict)
    baseline_evidence: AttemptEvidence | None = None
    repeat: tuple[Comparison, ...] = ()
    repeat_hashes: HashComparison | None = None
    control: Attempt | None = None
    expected: tuple[str, ...] = ()
    may_save_elsewhere: bool = False
