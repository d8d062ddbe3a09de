"""What can happen in an attempt, as plain values. Nothing here writes, reads or asks for the time.

A `step` is always the number of steps done: 0 before the first. Times are in UTC, by the clock of
the machine, which may be wrong and may be set back: they order nothing, they only date. What a
value holds is what gets written, and nothing else is: no secret gets in by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar, TypeAlias

Scalar: TypeAlias = bool | int | float | str | None


def utc_now() -> datetime:
    """The time for `at`."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened `at` a time. `extra` holds fields that a newer version wrote."""

    kind: ClassVar[str] = ""
    prompt: ClassVar[bool] = True
    """Whether it is written at once; what is not prompt waits for the next time."""
    minor: ClassVar[bool] = False
    """Whether it is dropped before others when there is no room."""

    at: datetime
    extra: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.at.utcoffset() is None:
            raise ValueError(f"The time of an event needs a time zone; {self.at!r} has none.")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptStarted(Event):
    """A process claimed the attempt. `resumed_from` is None if that is none, or not yet known."""

    kind: ClassVar[str] = "started"

    attempt: int
    host: str
    pid: int
    resumed_from: int | None = None
    world_size: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PassedOver:
    """A checkpoint that was not resumed from, and why."""

    checkpoint: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed(Event):
    """The state was filled from the checkpoint of `step`; `passed_over` were newer, but unfit."""

    kind: ClassVar[str] = "resumed"

    step: int
    seconds: float
    bytes_read: int
    passed_over: tuple[PassedOver, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress(Event):
    """So many steps are done. Written now and then, it tells what a kill cost."""

    kind: ClassVar[str] = "progress"
    prompt: ClassVar[bool] = False
    minor: ClassVar[bool] = True

    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Metrics(Event):
    """What the user measured."""

    kind: ClassVar[str] = "metrics"
    prompt: ClassVar[bool] = False
    minor: ClassVar[bool] = True

    step: int
    values: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved(Event):
    """A checkpoint is durable.

    `stall_seconds`: the loop stood still. `slow_seconds`: what its steps lost meanwhile. `seconds`:
    from staging to commit. `final`: it was made because of a notice.
    """

    kind: ClassVar[str] = "saved"
    prompt: ClassVar[bool] = False

    step: int
    stall_seconds: float
    seconds: float
    bytes_total: int
    bytes_new: int
    slow_seconds: float = 0.0
    final: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveFailed(Event):
    """A save came to nothing; the checkpoints before it stand."""

    kind: ClassVar[str] = "save_failed"

    step: int
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeArrived(Event):
    """The process was told to stop within `seconds_left`."""

    kind: ClassVar[str] = "notice"

    source: str
    reason: str
    seconds_left: float


class FinalChoice(StrEnum):
    """What is saved on a notice."""

    FULL = "full"
    STAGED = "staged"
    KEEP = "keep"


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalDecision(Event):
    """What the final save is to be: all of it, what is staged already, or none.

    `numbers` are those it was decided by, such as `seconds_left`, `seconds_needed` and `bytes_new`.
    """

    kind: ClassVar[str] = "final_decision"

    step: int
    choice: FinalChoice
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Interrupted(Event):
    """The loop was left because of a notice."""

    kind: ClassVar[str] = "interrupted"

    step: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Fenced(Event):
    """This attempt stopped because a newer one has taken over."""

    kind: ClassVar[str] = "fenced"

    step: int
    newer_attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Failed(Event):
    """The program ended by an error of its own."""

    kind: ClassVar[str] = "failed"

    step: int
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Finished(Event):
    """All work is done."""

    kind: ClassVar[str] = "finished"

    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Left(Event):
    """The process left by itself; the last line of an attempt that was not killed."""

    kind: ClassVar[str] = "left"

    exit_code: int
    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped(Event):
    """So many events are missing, because they could not be written or kept."""

    kind: ClassVar[str] = "dropped"

    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Other(Event):
    """An event of a kind, or of a shape, that this version does not know; all is in `extra`."""

    name: str


KINDS: Mapping[str, type[Event]] = {
    kind.kind: kind
    for kind in (
        AttemptStarted,
        Resumed,
        Progress,
        Metrics,
        Saved,
        SaveFailed,
        NoticeArrived,
        FinalDecision,
        Interrupted,
        Fenced,
        Failed,
        Finished,
        Left,
        Dropped,
    )
}
