"""What happened in a leg of the drill, as plain values. Nothing here runs or reads anything.

Times are seconds since the start of the leg. Exit codes are as a shell and a Pod show them: 137 is
a process that died of SIGKILL.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Moment(StrEnum):
    """When an eviction strikes."""

    ANY = "any"
    START_UP = "start-up"
    """Before the program is ready."""
    SAVE = "save"
    """While something is being written in the folder of the leg."""
    LAST_SAVE = "last-save"
    """A notice, and then the kill in the middle of the save that the notice set off."""


class Handling(StrEnum):
    """What process 1 of the node had set for SIGTERM at the moment of the notice."""

    CAUGHT = "caught"
    DEFAULT = "default"
    IGNORED = "ignored"
    UNKNOWN = "unknown"
    """It cannot be told, or it had a handler before and was about to leave."""


NEVER_HEARD = frozenset({Handling.DEFAULT, Handling.IGNORED})


class Ended(StrEnum):
    """Why an attempt ended."""

    FINISHED = "finished"
    FAILED = "failed"
    EVICTED = "evicted"
    STOPPED = "stopped"
    """The leg was over: the job was complete, had failed, or its time was up."""


class LegEnd(StrEnum):
    """How a leg ended."""

    COMPLETE = "complete"
    CRASH_LOOP = "crash-loop"
    TIMED_OUT = "timed-out"


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One life of the command on one node.

    `sign_seconds` is when it gave its first sign of life, `hears_seconds` when it had a handler for
    SIGTERM; None if that was never seen. `ready_seconds` is when its start-up counted as over.
    `output_tail` are its last lines.
    """

    number: int
    worker: int
    started_seconds: float
    sign_seconds: float | None
    hears_seconds: float | None
    ready_seconds: float | None
    ended_seconds: float
    ended: Ended
    exit_code: int
    cpu_seconds: float
    output_lines: int
    output_tail: str
    eviction: int | None = None

    @property
    def seconds(self) -> float:
        return self.ended_seconds - self.started_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Eviction:
    """An eviction that was sent to a node.

    `hit` says whether the hostile moment was met. `left_seconds` is the time from the notice to the
    end. `killed` says that its time was up. `work_seconds` is the work that the attempt had done by
    then. `unfinished_zero` says that it left with exit code 0 before the work was done,
    `unproven_zero` that it left with 0 and nothing shows whether the work was done. `writing` names
    what was written just before a kill, `torn` what of it no longer reads as its own format.
    """

    number: int
    attempt: int
    at_seconds: float
    moment: Moment
    notice: bool
    overlap: bool
    hit: bool
    in_start_up: bool
    handling: Handling
    process: str
    left_seconds: float
    killed: bool
    exit_code: int
    work_seconds: float
    unfinished_zero: bool = False
    unproven_zero: bool = False
    writing: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()

    @property
    def took_effect(self) -> bool:
        """Whether it ended unfinished work. One that came as the work was done shows nothing."""
        return self.exit_code != 0 or self.unfinished_zero

    @property
    def had_full_grace(self) -> bool:
        return self.notice and self.moment is not Moment.LAST_SAVE


@dataclass(frozen=True, kw_only=True, slots=True)
class Save:
    """Something was written in the folder of the leg, after a pause without.

    `lasted_seconds` is the time to the last write before the next pause. It may be one long save or
    many short ones.
    """

    at_seconds: float
    path: str
    lasted_seconds: float = 0.0

    @property
    def until_seconds(self) -> float:
        return self.at_seconds + self.lasted_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Leg:
    """A whole leg. `work_seconds` is the time in which at least one node was at work."""

    name: str
    began: datetime
    seconds: float
    work_seconds: float
    end: LegEnd
    attempts: tuple[Attempt, ...]
    evictions: tuple[Eviction, ...]
    saves: tuple[Save, ...]

    @property
    def landed(self) -> int:
        """How many evictions took effect."""
        return sum(one.took_effect for one in self.evictions)

    @property
    def finisher(self) -> Attempt | None:
        """The attempt that ended the job, if it is complete."""
        if self.end is not LegEnd.COMPLETE:
            return None
        done = [one for one in self.attempts if one.exit_code == 0]
        return max(done, key=lambda one: one.ended_seconds, default=None)
