"""What happened in a run of the job, as plain values. Nothing here runs or reads anything.

Times are seconds since the start of the run. Exit codes are as in a shell or a Pod: 137 is a
process that died of SIGKILL.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

ONLY_IF_SET = {"only_if_set": True}
"""Marks a field that a report leaves out while it has its default."""


class EvictionMoment(StrEnum):
    """When an eviction happens."""

    ANY = "any"
    START_UP = "start-up"
    """Before the program is ready."""
    SAVE = "save"
    """While a file in the folder of the run is being written."""
    LAST_SAVE = "last-save"
    """With a notice, and killed during the save that the notice triggered."""


class SigtermHandling(StrEnum):
    """How process 1 of the node was set up to handle SIGTERM when the notice came."""

    CAUGHT = "caught"
    DEFAULT = "default"
    IGNORED = "ignored"
    UNKNOWN = "unknown"
    """Not known, or it had a handler before and was about to exit."""


NEVER_HEARD = frozenset({SigtermHandling.DEFAULT, SigtermHandling.IGNORED})


class AttemptEnd(StrEnum):
    """Why an attempt ended."""

    FINISHED = "finished"
    FAILED = "failed"
    EVICTED = "evicted"
    STOPPED = "stopped"
    """The run was over: the job had completed, failed or timed out."""


class JobRunEnd(StrEnum):
    """How a run of the job ended."""

    COMPLETE = "complete"
    CRASH_LOOP = "crash-loop"
    TIMED_OUT = "timed-out"
    """It reached the time limit of the drill."""
    TOO_SLOW = "too-slow"
    """It reached the limit of a run with evictions, a multiple of the baseline."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeExit:
    """The end of one of several nodes. `was_terminated`: it did not exit on its own."""

    node: int
    exit_code: int
    ended_seconds: float
    output_tail: str
    was_terminated: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One execution of the command on one node, or on several nodes that start and end together.

    `sign_seconds` is when it showed its first sign of life, `hears_seconds` when it had a handler
    for SIGTERM; None if that was not observed. `ready_seconds` is when its startup was considered
    complete. `output_tail` is the end of its output. `nodes` has the end of each of several nodes;
    `exit_code` is then that of the evicted node, or of one that failed.
    """

    number: int
    worker: int
    started_seconds: float
    sign_seconds: float | None
    hears_seconds: float | None
    ready_seconds: float | None
    ended_seconds: float
    ended: AttemptEnd
    exit_code: int
    cpu_seconds: float
    output_lines: int
    output_tail: str
    eviction: int | None = None
    nodes: tuple[NodeExit, ...] = field(default=(), metadata=ONLY_IF_SET)

    @property
    def seconds(self) -> float:
        return self.ended_seconds - self.started_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class Eviction:
    """The eviction of a node.

    `hit` is whether the hostile moment was met. `left_seconds` is the time from the notice to the
    end. `killed` is whether it was still running when the grace period ended. `work_seconds` is the
    work that the attempt had done by then. `unfinished_zero` means that it exited with code 0
    before the work was done, `unproven_zero` that it is unknown whether the work was done.
    `writing` lists the files written just before a kill, `torn` those that are now incomplete.
    `node` is which of several nodes was evicted. `work_was_done` means that they had only to exit.
    """

    number: int
    attempt: int
    at_seconds: float
    moment: EvictionMoment
    notice: bool
    overlap: bool
    hit: bool
    in_start_up: bool
    handling: SigtermHandling
    process: str
    left_seconds: float
    killed: bool
    exit_code: int
    work_seconds: float
    unfinished_zero: bool = False
    unproven_zero: bool = False
    writing: tuple[str, ...] = ()
    torn: tuple[str, ...] = ()
    node: int | None = field(default=None, metadata=ONLY_IF_SET)
    work_was_done: bool = field(default=False, metadata=ONLY_IF_SET)

    @property
    def took_effect(self) -> bool:
        """Whether it interrupted unfinished work. One that came after the work proves nothing."""
        return (self.exit_code != 0 or self.unfinished_zero) and not self.work_was_done

    @property
    def where(self) -> str:
        """When it happened, such as ` during a save`; empty for no special moment."""
        if not self.hit or self.moment is EvictionMoment.ANY:
            return ""
        if self.moment is EvictionMoment.START_UP:
            return " during startup"
        return " during a save" if self.moment is EvictionMoment.SAVE else " during its final save"

    @property
    def had_full_grace(self) -> bool:
        return self.notice and self.moment is not EvictionMoment.LAST_SAVE


@dataclass(frozen=True, kw_only=True, slots=True)
class Save:
    """Writes in the folder of the run without a pause between them.

    `lasted_seconds` is the time from the first to the last write. It may be one long save or many
    short ones.
    """

    at_seconds: float
    path: str
    lasted_seconds: float = 0.0

    @property
    def until_seconds(self) -> float:
        return self.at_seconds + self.lasted_seconds


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRun:
    """One run of the job. `work_seconds` is the time in which at least one node was at work."""

    name: str
    began: datetime
    seconds: float
    work_seconds: float
    end: JobRunEnd
    attempts: tuple[Attempt, ...]
    evictions: tuple[Eviction, ...]
    saves: tuple[Save, ...]

    @property
    def landed(self) -> int:
        """How many evictions took effect."""
        return sum(one.took_effect for one in self.evictions)

    @property
    def finisher(self) -> Attempt | None:
        """The attempt that completed the job, if any."""
        if self.end is not JobRunEnd.COMPLETE:
            return None
        done = [one for one in self.attempts if one.exit_code == 0]
        return max(done, key=lambda one: one.ended_seconds, default=None)
