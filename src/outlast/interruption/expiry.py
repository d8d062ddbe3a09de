"""Clocks that know when this machine will be taken away.

A clock only reports how many seconds are left; the watcher decides whether that is a notice.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from outlast._base.durations import format_duration
from outlast.errors import SettingError
from outlast.interruption.machine import seconds_since_boot
from outlast.interruption.settings import EXPIRES_AT, GuardSettings

OVERDUE_SECONDS_MAX = 60.0
"""If a machine still runs this long after a clock ran out, the clock is wrong."""

BOOT_MARGIN_SECONDS = 60.0
"""A lease starts when the VM is created; its kernel boots somewhat later."""


class ExpiryClock(Protocol):
    @property
    def source(self) -> str:
        """What the time is derived from, in words for a person."""
        ...

    def seconds_left(self) -> float:
        """Seconds until the machine is taken away; negative afterwards."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class WallExpiry:
    """A point in time. Follows the wall clock, so that correcting the clock corrects the expiry."""

    expires_at: datetime
    source: str

    def seconds_left(self) -> float:
        return (self.expires_at - datetime.now(UTC)).total_seconds()


@dataclass(frozen=True, kw_only=True, slots=True)
class BootExpiry:
    """A maximum run duration, counted from the boot of the kernel."""

    max_run_seconds: float
    source: str = "the maximum run duration since boot"

    def seconds_left(self) -> float:
        return self.max_run_seconds - seconds_since_boot() - BOOT_MARGIN_SECONDS


def explicit_expiry(settings: GuardSettings) -> ExpiryClock | None:
    """The expiry that the user set. Raises `SettingError` if it has long passed.

    If a stale time counted as a notice, the job would exit at every start, forever.
    """
    if settings.expires_at is None:
        return None
    clock = WallExpiry(expires_at=settings.expires_at, source="the configured expiry time")
    overdue_seconds = -clock.seconds_left()
    if overdue_seconds > OVERDUE_SECONDS_MAX:
        raise SettingError(
            f"{EXPIRES_AT.variable} (or the keyword {EXPIRES_AT.keyword}) is "
            f"{settings.expires_at.isoformat()}, which passed {format_duration(overdue_seconds)} "
            "ago, but this machine is still running.",
            hint="Set it again at each start, or leave it unset.",
            source=EXPIRES_AT.variable,
        )
    return clock


def is_credible(clock: ExpiryClock) -> bool:
    """Whether the clock can be right, given that the machine is still running."""
    return clock.seconds_left() > -(OVERDUE_SECONDS_MAX + BOOT_MARGIN_SECONDS)


def wrong_clock_warning(clock: ExpiryClock) -> str:
    return (
        f"According to {clock.source}, this machine should have been taken away "
        f"{format_duration(-clock.seconds_left())} ago, but it is running. Ignoring that clock."
    )
