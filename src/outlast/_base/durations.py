"""Durations as people write them: `25s`, `1.5m`, `2h`. Pure; a duration is never negative."""

import re

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(?P<number>\d+(?:\.\d+)?|\.\d+)\s*(?P<unit>ms|s|m|h|d)", re.ASCII)


def parse_duration(text: str) -> float:
    """The seconds in a duration such as `25s`. The unit is required."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(
            f"{text!r} is not a duration. Use a number and a unit, such as 800ms, 25s or 2m."
        )
    return float(match["number"]) * _UNIT_SECONDS[match["unit"]]


def format_duration(seconds: float) -> str:
    """A duration in a suitable unit: `0.4 s`, `13 s`, `3.5 min`, `2.0 h`, `6.9 d`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.1f} min"
    if seconds < 172_800:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:.1f} d"
