"""What a notice is and what its deadline is. Pure; time is an argument."""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

PREEMPTION_WINDOW_SECONDS = 30.0
"""Compute Engine powers a preempted VM off about this long after it says so."""


class Source(StrEnum):
    """Who says that the process should stop."""

    SIGNAL = "signal"
    KEYBOARD = "keyboard"
    PREEMPTION = "preemption"
    MAINTENANCE = "maintenance"
    EXPIRY = "expiry"
    PROGRAM = "program"

    @property
    def is_outside(self) -> bool:
        """Whether someone else ends the process at the deadline, whatever the program does."""
        return self not in (Source.KEYBOARD, Source.PROGRAM)


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """The warning that this process will be ended.

    `arrived` and `deadline` are `time.monotonic()` seconds; at the deadline the process is expected
    to be killed.
    """

    source: Source
    reason: str
    arrived: float
    deadline: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Announcement:
    """What a source said, before anyone's grace period is applied to it.

    `window_seconds` is what the source itself leaves; infinite where it does not say.
    """

    source: Source
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


def merge(standing: Notice | None, new: Notice) -> Notice:
    """Both notices as one: the deadline can only come closer, and an outside cause is named first.

    Signals come doubled where a process group and a forwarding wrapper both deliver them, so a
    repetition must not grant time.
    """
    if standing is None:
        return new
    if new.source.is_outside and not standing.source.is_outside:
        return replace(new, deadline=min(standing.deadline, new.deadline))
    if new.deadline < standing.deadline:
        return replace(standing, deadline=new.deadline)
    return standing
