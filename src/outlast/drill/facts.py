"""What was seen in a drill, and what is said about it. Plain values."""

from dataclasses import dataclass

from outlast.drill.artifacts import Comparison
from outlast.drill.baseline import Figures
from outlast.drill.divergence import HashComparison
from outlast.drill.evidence import RunEvidence
from outlast.drill.records import Leg


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """`code` names the fault that is looked for; `ok` says that it was not found."""

    code: str
    ok: bool
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NotJudged:
    """A question that this drill could not answer, and why."""

    code: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """Everything that was seen. `figures` is None without a baseline.

    `finished_when` is what the user's own test said at the end. `needed` is how many evictions must
    have landed.
    """

    leg: Leg
    workers: int
    grace_seconds: float
    needed: int
    figures: Figures | None = None
    finished_when: bool | None = None
    comparisons: tuple[Comparison, ...] = ()
    missing: tuple[str, ...] = ()
    runs: tuple[RunEvidence, ...] = ()
    hashes: HashComparison | None = None
