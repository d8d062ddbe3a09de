"""Exact parsing and formatting of sizes, durations and times such as `12GiB`, `1h30m` or `2d`.

Pure. Sizes are integers and durations are `timedelta`; no floats are involved. Every error is a
`ValueError` that says what is expected.
"""

import re
from datetime import datetime, timedelta
from fractions import Fraction

SIZE_EXPECTED = "Expected a size with a unit, such as 12GiB or 500MB."
DURATION_EXPECTED = "Expected a duration with a unit, such as 90s, 15m, 3h or 2d."

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
        raise ValueError(SIZE_EXPECTED)
    base = 1024 if match["binary"] else 1000
    count = Fraction(match["number"]) * base ** _POWERS[match["prefix"]]
    if count.denominator != 1:
        raise ValueError("Expected a whole number of bytes.")
    if not 0 < count <= _SIZE_BYTES_MAX:
        raise ValueError("Expected a size above 0 and at most 1024 PiB.")
    return int(count)


def format_size(count_bytes: int) -> str:
    """A size as written in a workload file, in the largest binary unit that is exact."""
    for power, prefix in ((5, "P"), (4, "T"), (3, "G"), (2, "M"), (1, "K")):
        if count_bytes and count_bytes % 1024**power == 0:
            return f"{count_bytes // 1024**power}{prefix}iB"
    return f"{count_bytes}B"


def parse_exact_duration(text: str) -> timedelta:
    """A duration such as `90s`, `15m`, `1h30m` or `2d`. The unit is required."""
    if _DURATION.fullmatch(text.strip()) is None:
        raise ValueError(DURATION_EXPECTED)
    parts = _DURATION_PART.findall(text)
    units = [unit for _, unit in parts]
    if len(set(units)) != len(units):
        raise ValueError("Expected each unit at most once, such as 1h30m.")
    total = sum((Fraction(n) * _UNIT_MICROSECONDS[unit] for n, unit in parts), Fraction(0))
    if total > _DURATION_MAX // timedelta(microseconds=1):
        raise ValueError("Expected a duration of at most ten years.")
    if total % 1000:
        raise ValueError("Expected a whole number of milliseconds.")
    return timedelta(microseconds=int(total))


def format_exact_duration(duration: timedelta) -> str:
    """A duration as written in a workload file: `1d12h`, `1h30m` (not `90m`), `0s`."""
    left = duration // timedelta(microseconds=1)
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, _UNIT_MICROSECONDS[unit])
        if count:
            parts.append(f"{count}{unit}")
    if left:
        raise ValueError(f"Expected a multiple of 1 ms, got {duration!r}.")
    return "".join(parts) or "0s"


def parse_instant(text: str) -> datetime:
    """A time with a time zone, as in RFC 3339."""
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError("Expected a time such as 2026-11-20T18:00:00Z.") from None
    if instant.tzinfo is None:
        raise ValueError("Expected a time with a time zone, such as 2026-11-20T18:00:00Z.")
    return instant
