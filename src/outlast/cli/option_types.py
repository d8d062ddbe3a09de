"""Types of options that several commands share: whole numbers, durations and lists."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter, Token

from outlast._base.durations import parse_duration


def _whole_number(_kind: object, tokens: Sequence[Token]) -> int:
    """A whole number. The option parser itself would round 1.5 to 2."""
    text = tokens[0].value
    try:
        return int(text, 0) if text.lstrip("+-")[:2].lower() in ("0x", "0o", "0b") else int(text)
    except ValueError:
        raise ValueError(f"Expected a whole number, got {text!r}.") from None


def _duration(_kind: object, tokens: Sequence[Token]) -> timedelta:
    try:
        return timedelta(seconds=parse_duration(tokens[0].value))
    except OverflowError:
        raise ValueError("The duration is too long.") from None


def _positive_duration(kind: object, tokens: Sequence[Token]) -> timedelta:
    if not (duration := _duration(kind, tokens)):
        raise ValueError(f"Expected a duration above 0, got {tokens[0].value!r}.")
    return duration


def _positive_durations(kind: object, tokens: Sequence[Token]) -> tuple[timedelta, ...]:
    try:
        return tuple(_positive_duration(kind, [token]) for token in tokens)
    except ValueError as error:
        # The option parser names an option only if it has one value.
        where = "" if len(tokens) == 1 else f"Invalid value for {tokens[0].keyword}: "
        raise ValueError(f"{where}{error}") from None


def _shown(duration: timedelta | None) -> str | None:
    if duration is None:
        return None
    seconds = duration.total_seconds()
    return f"{seconds / 3600:g}h" if seconds % 3600 == 0 else f"{seconds:g}s"


WholeNumber = Annotated[int, Parameter(converter=_whole_number)]
Duration = Annotated[
    timedelta, Parameter(converter=_duration, metavar="DURATION", show_default=_shown)
]
PositiveDuration = Annotated[
    timedelta, Parameter(converter=_positive_duration, metavar="DURATION", show_default=_shown)
]
PositiveDurations = Annotated[
    tuple[timedelta, ...],
    Parameter(converter=_positive_durations, metavar="DURATION", show_default=False),
]
Texts = Annotated[tuple[str, ...], Parameter(show_default=False)]
Files = Annotated[tuple[Path, ...], Parameter(show_default=False)]
