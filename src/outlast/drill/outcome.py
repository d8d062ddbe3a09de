"""What a drill has found, as plain values, and what follows from them. Renders nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from outlast.drill.artifacts import Comparison
from outlast.drill.baseline import Figures
from outlast.drill.divergence import Divergence
from outlast.drill.evidence import RunEvidence
from outlast.drill.records import Leg
from outlast.drill.verdicts import NotJudged, Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What a drill has found.

    `baseline` is None without one, or if it was recorded earlier; `figures` has what counts of it.
    `disturbed` is None if the command failed even undisturbed. `runs` are those of this library, as
    their journals tell them, and `steps_lost` what each eviction cost them, by its number.
    `evictions_planned` is None if only their rate was given.
    """

    outlast_version: str
    command: tuple[str, ...]
    began: datetime
    seconds: float
    seed: int
    grace_seconds: float
    workers: int
    isolation: str
    verdicts: tuple[Verdict, ...]
    not_judged: tuple[NotJudged, ...]
    evictions_planned: int | None
    figures: Figures | None
    baseline: Leg | None
    disturbed: Leg | None
    comparisons: tuple[Comparison, ...] = ()
    baseline_runs: tuple[RunEvidence, ...] = ()
    runs: tuple[RunEvidence, ...] = ()
    divergence: Divergence | None = None
    remarks: tuple[str, ...] = ()

    @property
    def survived(self) -> bool:
        return all(verdict.ok for verdict in self.verdicts)

    @property
    def evictions_landed(self) -> int:
        return self.disturbed.landed if self.disturbed is not None else 0

    @property
    def evictions_told(self) -> str:
        """How many landed, of how many if a number was planned."""
        if self.evictions_planned is None:
            return f"{self.evictions_landed:,}"
        return f"{self.evictions_landed:,} of {self.evictions_planned:,}"

    @property
    def steps_lost(self) -> Mapping[int, int]:
        """Steps that had to be done again, by the number of the eviction, as far as known."""
        if self.disturbed is None:
            return {}
        lost = {
            eviction.number: [run.steps_lost_by(eviction.attempt) for run in self.runs]
            for eviction in self.disturbed.evictions
        }
        return {
            number: sum(filter(None, steps))
            for number, steps in lost.items()
            if any(step is not None for step in steps)
        }

    @property
    def steps_lost_max(self) -> int | None:
        """The most that one eviction cost; None if the command keeps no journal."""
        return max(self.steps_lost.values(), default=None) if self.runs else None

    @property
    def seconds_lost(self) -> float | None:
        """Work done more than once, about: by the clocks of both legs."""
        if self.figures is None or self.disturbed is None:
            return None
        return max(0.0, self.disturbed.work_seconds - self.figures.work_seconds)

    @property
    def items_lost(self) -> int | None:
        """None if no artifact holds rows."""
        items = [item for one in self.comparisons for item in one.items]
        return sum(item.lost for item in items) if items else None

    @property
    def duplicates(self) -> int | None:
        """Items that were stored more than once; None if no artifact holds rows."""
        items = [item for one in self.comparisons for item in one.items]
        return sum(item.doubled for item in items) if items else None
