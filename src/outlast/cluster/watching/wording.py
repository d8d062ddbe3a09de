"""How times, durations, sizes and counts read on a screen. Pure."""

from datetime import UTC, datetime

_UNITS = ((1024**4, "TiB"), (1024**3, "GiB"), (1024**2, "MiB"), (1024, "KiB"))


def span(seconds: float) -> str:
    """A duration with at most two units: 42 s, 6 min, 2 h 10 min, 3 d 4 h."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


def since(time: datetime | None, now: datetime) -> str:
    """How long ago, never negative: clocks differ."""
    return span((now - time).total_seconds()) if time else "unknown time"


def at(time: datetime | None, now: datetime) -> str:
    """A time of day in UTC, with the date unless it is today."""
    if time is None:
        return "-"
    time, now = time.astimezone(UTC), now.astimezone(UTC)
    day = "" if time.date() == now.date() else f"{time:%b} {time.day} "
    return f"{day}{time:%H:%M}"


def size(count: int) -> str:
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: 1 step, 8,200 steps."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
