"""Notices and their deadlines. Pure; time is an argument."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

PREEMPTION_WINDOW_SECONDS = 30.0
"""Compute Engine powers off a preempted VM about this long after the announcement."""


class NoticeSource(StrEnum):
    """Where a notice came from."""

    SIGNAL = "signal"
    KEYBOARD = "keyboard"
    PREEMPTION = "preemption"
    MAINTENANCE = "maintenance"
    EXPIRY = "expiry"
    PROGRAM = "program"
    PEER = "peer"

    @property
    def is_outside(self) -> bool:
        """Whether something outside the program stops the process at the deadline."""
        return self not in (NoticeSource.KEYBOARD, NoticeSource.PROGRAM)


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """The warning that this process will be stopped.

    `arrived` and `deadline` are `time.monotonic()` seconds. The process is killed at the deadline.
    """

    source: NoticeSource
    reason: str
    arrived: float
    deadline: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Announcement:
    """What a source reported, before a guard's grace period is applied.

    `window_seconds` is the time that the source itself grants; infinite if it does not say.
    """

    source: NoticeSource
    reason: str
    arrived: float
    window_seconds: float = math.inf

    def for_grace(self, grace_seconds: float) -> Notice:
        window_seconds = min(self.window_seconds, grace_seconds)
        return Notice(
            source=self.source,
            reason=self.reason,
            arrived=self.arrived,
            deadline=self.arrived + window_seconds,
        )


def merge(current: Notice | None, new: Notice) -> Notice:
    """Both notices as one: the earlier deadline, and a cause from outside if there is one.

    A signal arrives twice if both the process group and a forwarding wrapper deliver it, so a
    repeated signal must not grant more time.
    """
    if current is None:
        return new
    if new.source.is_outside and not current.source.is_outside:
        return replace(new, deadline=min(current.deadline, new.deadline))
    if new.deadline < current.deadline:
        return replace(current, deadline=new.deadline)
    return current
