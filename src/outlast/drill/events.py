"""What a drill tells a listener while it goes on: for live views and logs. Plain values.

Times are seconds since the start of the leg. A listener is called between two moves of the drill,
so it must return at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from outlast.drill.records import Attempt, Eviction, Leg, Moment


@dataclass(frozen=True, kw_only=True, slots=True)
class DrillEvent:
    """Something happened in a leg."""

    leg: str
    at_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class LegStarted(DrillEvent):
    """`expected_seconds` is how long the baseline took, if that is known."""

    evictions_planned: int
    expected_seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptStarted(DrillEvent):
    attempt: int
    worker: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptReady(DrillEvent):
    """Its start-up is over, as far as that shows: by a line of output, a file, a handler."""

    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveSeen(DrillEvent):
    """Something is being written in the folder of the leg."""

    path: str


@dataclass(frozen=True, kw_only=True, slots=True)
class EvictionSent(DrillEvent):
    """With a notice, the node has `grace_seconds` from now; without, it is gone already."""

    number: int
    attempt: int
    notice: bool
    moment: Moment
    overlap: bool
    grace_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Killed(DrillEvent):
    """The grace period was over, and the node vanished."""

    attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptEnded(DrillEvent):
    """The process has ended. `eviction` is what became of the eviction, if that ended it."""

    attempt: Attempt
    eviction: Eviction | None
    replaced_in_seconds: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class LegFinished(DrillEvent):
    record: Leg


Listener: TypeAlias = Callable[[DrillEvent], None]


def ignore(event: DrillEvent) -> None:
    """The listener that does not care."""
