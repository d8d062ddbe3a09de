"""The events of a drill in progress, for live views and logs. Plain values.

Times are seconds since the start of the run. A listener is called on the thread of the drill, so it
must return at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from outlast.drills.run.records import Attempt, Eviction, EvictionMoment, JobRun


@dataclass(frozen=True, kw_only=True, slots=True)
class DrillEvent:
    """Something happened in a run of the job: `baseline`, or `evicted`."""

    job_run: str
    at_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRunStarted(DrillEvent):
    """A run of the job started. `expected_seconds` is how long the baseline took, if known."""

    evictions_planned: int
    expected_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptStarted(DrillEvent):
    attempt: int
    worker: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptReady(DrillEvent):
    """Its startup seems complete: it printed a line, wrote a file or set a handler."""

    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveSeen(DrillEvent):
    """A file in the folder of the run is being written."""

    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EvictionSent(DrillEvent):
    """A node was evicted. With a notice, it has `grace_seconds` left; without, it is gone.

    `node` is which of several nodes.
    """

    number: int
    attempt: int
    notice: bool
    moment: EvictionMoment
    overlap: bool
    grace_seconds: float
    node: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Killed(DrillEvent):
    """The node was killed at the end of its grace period."""

    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEnded(DrillEvent):
    """The process ended. `eviction` is the eviction that ended it, if any."""

    attempt: Attempt
    eviction: Eviction | None


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRunFinished(DrillEvent):
    record: JobRun


Listener: TypeAlias = Callable[[DrillEvent], None]


def ignore(event: DrillEvent) -> None:
    """A listener that does nothing."""
