"""Clocks that know when this machine will be taken away.

A clock only says how many seconds are left; whether that is a notice is the watcher's business.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from outlast._base.durations import format_duration
from outlast.errors import SettingError
from outlast.interruption.guard_settings import GuardSettings
from outlast.interruption.machine import seconds_since_boot
from outlast.interruption.settings import EXPIRES_AT

OVERDUE_SECONDS_MAX = 60.0
"""A machine that lives on longer than this after a clock ran out shows that the clock is wrong."""

BOOT_MARGIN_SECONDS = 60.0
"""A lease starts when the VM is created; its kernel boots somewhat later."""


class ExpiryClock(Protocol):
    @property
    def source(self) -> str:
        """Where the end is known from, in words for a person."""
        ...

    def seconds_left(self) -> float:
        """Seconds until the machine goes; negative once it should be gone."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class WallExpiry:
    """A point in time. Follows the wall clock, so that a corrected clock corrects the end."""

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
    """The end that the user named, refused where it is long past.

    Were a stale time taken as a notice, the job would leave at every start, for ever.
    """
    if settings.expires_at is None:
        return None
    clock = WallExpiry(expires_at=settings.expires_at, source="the expiry time that was set")
    overdue_seconds = -clock.seconds_left()
    if overdue_seconds > OVERDUE_SECONDS_MAX:
        raise SettingError(
            f"{EXPIRES_AT.variable} (or the keyword {EXPIRES_AT.keyword}) is "
            f"{settings.expires_at.isoformat()}, which passed {format_duration(overdue_seconds)} "
            "ago on a machine that still runs.",
            hint="Set it anew at each start, or leave it out.",
            source=EXPIRES_AT.variable,
        )
    return clock


def is_credible(clock: ExpiryClock) -> bool:
    """Whether the clock can be right, given that the machine still runs."""
    return clock.seconds_left() > -(OVERDUE_SECONDS_MAX + BOOT_MARGIN_SECONDS)
