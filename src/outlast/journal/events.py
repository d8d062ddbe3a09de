"""The events of an attempt, as plain values. Nothing here writes, reads or checks the time.

A `step` is always the number of steps done: 0 before the first. Times are in UTC, by the clock of
the machine, which may be wrong or set back: do not use them to order events. Exactly these fields
are written, and nothing else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import ClassVar, TypeAlias

Scalar: TypeAlias = bool | int | float | str | None


def utc_now() -> datetime:
    """The current time, for `at`."""
    return datetime.now(UTC)


@dataclass(frozen=True, kw_only=True, slots=True)
class Event:
    """Something that happened `at` a time. `extra` contains fields written by a newer version."""

    kind: ClassVar[str] = ""
    prompt: ClassVar[bool] = True
    """Whether it is written immediately; other events wait for the next flush."""
    minor: ClassVar[bool] = False
    """Whether it is dropped before others when the buffer is full."""

    at: datetime
    extra: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.at.utcoffset() is None:
            raise ValueError(f"The time of an event needs a time zone; {self.at!r} has none.")


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptStarted(Event):
    """A process claimed the attempt. `resumed_from` is None if there is none, or not yet known.

    `host` is the host name, which in an indexed Job is not the name of the Pod. The fields from
    `pod` on are what the manifest states, see `outlast.journal.place`; None if it does not.
    `process_seconds` is how long the process had been preparing for it, such as by imports.
    """

    kind: ClassVar[str] = "started"

    attempt: int
    host: str
    pid: int
    resumed_from: int | None = None
    world_size: int = 1
    process_seconds: float = 0.0
    pod: str | None = None
    pod_uid: str | None = None
    node: str | None = None
    tier: str | None = None
    machine: str | None = None
    zone: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PassedOver:
    """A checkpoint that was skipped on resume, and why."""

    checkpoint: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed(Event):
    """The state was restored from the checkpoint of `step`; newer ones were `passed_over`."""

    kind: ClassVar[str] = "resumed"

    step: int
    seconds: float
    bytes_read: int
    passed_over: tuple[PassedOver, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StepsPlanned(Event):
    """The loop is to complete `steps` steps in all, including those of earlier attempts."""

    kind: ClassVar[str] = "planned"
    prompt: ClassVar[bool] = False

    steps: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress(Event):
    """The number of steps done. Written from time to time, it shows what a kill cost."""

    kind: ClassVar[str] = "progress"
    prompt: ClassVar[bool] = False
    minor: ClassVar[bool] = True

    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Alive(Event):
    """The process is running, and would write another sign of life `within_seconds`.

    It bounds when a process was killed that wrote no other event.
    """

    kind: ClassVar[str] = "alive"
    prompt: ClassVar[bool] = False
    minor: ClassVar[bool] = True

    within_seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Metrics(Event):
    """Values that the user logged."""

    kind: ClassVar[str] = "metrics"
    prompt: ClassVar[bool] = False
    minor: ClassVar[bool] = True

    step: int
    values: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True, slots=True)
class Saved(Event):
    """A checkpoint is durable.

    `stall_seconds`: how long the loop was blocked. `slow_seconds`: how much its steps were slowed
    down while the checkpoint was written. `seconds`: from staging to commit. `final`: it was saved
    because of a notice.
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
    """A save failed; earlier checkpoints are unaffected."""

    kind: ClassVar[str] = "save_failed"

    step: int
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointGivenUp(Event):
    """A checkpoint was deleted early, to make room for the one of `step`."""

    kind: ClassVar[str] = "given_up"

    step: int
    checkpoint: str
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeArrived(Event):
    """The process was told to stop within `seconds_left`."""

    kind: ClassVar[str] = "notice"

    source: str
    reason: str
    seconds_left: float


class FinalChoice(StrEnum):
    """What is saved after a notice."""

    FULL = "full"
    STAGED = "staged"
    KEEP = "keep"


@dataclass(frozen=True, kw_only=True, slots=True)
class FinalDecision(Event):
    """What the final save contains: the full state, what is already staged, or nothing.

    `numbers` are what the decision was based on, such as `seconds_left`, `seconds_needed` and
    `bytes_new`.
    """

    kind: ClassVar[str] = "final_decision"

    step: int
    choice: FinalChoice
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptInterrupted(Event):
    """The loop ended because of a notice."""

    kind: ClassVar[str] = "interrupted"

    step: int
    reason: str


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptFenced(Event):
    """This attempt stopped because a newer one took over."""

    kind: ClassVar[str] = "fenced"

    step: int
    newer_attempt: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptFailed(Event):
    """The program ended with an error."""

    kind: ClassVar[str] = "failed"

    step: int
    error: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFinished(Event):
    """All work is done."""

    kind: ClassVar[str] = "finished"

    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class AttemptExited(Event):
    """The process exited by itself; the last event of an attempt that was not killed."""

    kind: ClassVar[str] = "left"

    exit_code: int
    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Dropped(Event):
    """`count` events are missing, because they could not be written or buffered."""

    kind: ClassVar[str] = "dropped"

    count: int


@dataclass(frozen=True, kw_only=True, slots=True)
class UnknownEvent(Event):
    """An event whose kind or fields this version does not know; everything is in `extra`."""

    name: str


KINDS: Mapping[str, type[Event]] = {
    kind.kind: kind
    for kind in (
        AttemptStarted,
        Resumed,
        StepsPlanned,
        Progress,
        Alive,
        Metrics,
        Saved,
        SaveFailed,
        CheckpointGivenUp,
        NoticeArrived,
        FinalDecision,
        AttemptInterrupted,
        AttemptFenced,
        AttemptFailed,
        RunFinished,
        AttemptExited,
        Dropped,
    )
}
