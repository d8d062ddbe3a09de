"""Sizes, durations and instants as people write them, read exactly: `12GiB`, `1h30m`, `2d`.

Pure. Sizes are whole bytes and durations `timedelta`, with no detour through floats. Every refusal
is a `ValueError` with a sentence on what is expected.
"""

import re
from datetime import datetime, timedelta
from fractions import Fraction

_SIZE = re.compile(
    r"(?P<number>\d{1,18}(?:\.\d{1,12})?)\s*(?P<prefix>[kKMGTP]?)(?P<binary>i?)B?", re.ASCII
)
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_SIZE_BYTES_MAX = 2**60

_DURATION = re.compile(r"(?:\d{1,18}(?:\.\d{1,12})?\s*(?:ms|[smhdw])\s*)+", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhdw])", re.ASCII)
_UNIT_MICROSECONDS = {
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
    "w": 604_800_000_000,
}
_DURATION_MAX = timedelta(days=3650)


def parse_size(text: str) -> int:
    """The bytes in a size such as `12GiB`, `1.5 TB` or `500Mi`. The unit is required."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or text.strip().isdecimal() or (match["binary"] and not match["prefix"]):
        raise ValueError("A size is a number and a unit, such as 12GiB or 500MB.")
    base = 1024 if match["binary"] else 1000
    count = Fraction(match["number"]) * base ** _POWERS[match["prefix"]]
    if count.denominator != 1:
        raise ValueError("A size is a whole number of bytes.")
    if not 0 < count <= _SIZE_BYTES_MAX:
        raise ValueError("A size is above 0 and at most 1024 PiB.")
    return int(count)


def format_size(count_bytes: int) -> str:
    """A size as a workload file takes it: in the largest binary unit that keeps it exact."""
    for power, prefix in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "K")):
        if count_bytes and count_bytes % 1024**power == 0:
            return f"{count_bytes // 1024**power}{prefix}iB"
    return f"{count_bytes}B"


def parse_exact_duration(text: str) -> timedelta:
    """A duration such as `90s`, `15m`, `1h30m` or `2d`. The unit is required."""
    if _DURATION.fullmatch(text.strip()) is None:
        raise ValueError("A duration is a number and a unit, such as 90s, 15m, 3h or 2d.")
    parts = _DURATION_PART.findall(text)
    units = [unit for _, unit in parts]
    if len(set(units)) != len(units):
        raise ValueError("A duration names each unit once, such as 1h30m.")
    total = sum((Fraction(n) * _UNIT_MICROSECONDS[unit] for n, unit in parts), Fraction(0))
    if total > _DURATION_MAX // timedelta(microseconds=1):
        raise ValueError("A duration is at most ten years.")
    if total % 1000:
        raise ValueError("A duration is a whole number of milliseconds.")
    return timedelta(microseconds=int(total))


def format_exact_duration(duration: timedelta) -> str:
    """A duration as a workload file takes it: `1d12h`, `90m` as `1h30m`, `0s`."""
    left = duration // timedelta(microseconds=1)
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, _UNIT_MICROSECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if left:
        raise ValueError(f"{duration!r} is finer than a millisecond.")
    return "".join(parts) or "0s"


def parse_instant(text: str) -> datetime:
    """An aware point in time, as RFC 3339 has it."""
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("A point in time is written as 2026-11-20T18:00:00Z.") from None
    if instant.tzinfo is None:
        raise ValueError("The time has no time zone; write 2026-11-20T18:00:00Z.")
    return instant
