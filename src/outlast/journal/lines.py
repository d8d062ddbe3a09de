"""The format of a journal: events as lines of JSON, and the names of its segments. Pure.

One object per line, keys sorted. Numbers that JSON lacks are strings: "NaN", "Infinity",
"-Infinity". A reader keeps what it does not know, so that an old version can read the journal of a
newer one: unknown fields go into `extra`, and unknown kinds become `UnknownEvent`. Any other line
is garbled: it is counted and skipped.

Objects are never appended to, so the journal of an attempt consists of small segments:
`journal/000007-000001.jsonl` is segment 1 of attempt 7.
"""

import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime
from typing import NamedTuple, NoReturn

from outlast._redact import redact
from outlast.journal.events import KINDS, Event, FinalChoice, PassedOver, Scalar, UnknownEvent

TEXT_CHARACTERS_MAX = 4000
"""Longer texts, such as a long error message, are truncated."""

NUMBER_MAX = 1e18
"""More than any duration or size of a run. Larger numbers would overflow the figures."""

_NOT_IN_JSON = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_COMMON = frozenset({"kind", "at"})


class Segment(NamedTuple):
    """The first line of a segment: its writer and batch. Identifies a repeated batch."""

    writer: str
    batch: int


class Lines(NamedTuple):
    """The content of a segment. `segment` is None if its first line is garbled."""

    segment: Segment | None
    events: tuple[Event, ...]
    garbled: int


def encode(event: Event) -> bytes:
    """One line, with a line break. Raises `ValueError` or `TypeError` if JSON cannot express it."""
    kind = event.name if isinstance(event, UnknownEvent) else event.kind
    own = {f.name: getattr(event, f.name) for f in _own_fields(type(event))}
    if isinstance(event, UnknownEvent):
        del own["name"]
    at = event.at.astimezone(UTC).isoformat()
    # The fields of the event go last, so that `extra` cannot replace them.
    return _dump({**event.extra, **own, "kind": kind, "at": at})


def encode_segment(segment: Segment) -> bytes:
    return _dump({"kind": "segment", **segment._asdict()})


def decode(line: bytes) -> Event:
    """The event in a line. Raises `ValueError` if the line is garbled."""
    return _event(_load(line))


def decode_lines(data: bytes) -> Lines:
    """Everything in a segment that can be read."""
    segment = None
    events = []
    garbled = 0
    for line in data.splitlines():
        try:
            found = _load(line)
            if found.get("kind") == "segment":
                segment = Segment(_text(found.get("writer")), _whole(found.get("batch")))
            else:
                events.append(_event(found))
        except ValueError:
            garbled += 1
    return Lines(segment, tuple(events), garbled)


def _dump(value: Mapping[str, object]) -> bytes:
    text = json.dumps(_plain(value), sort_keys=True, allow_nan=False, separators=(",", ":"))
    return text.encode() + b"\n"


def _plain(value: object) -> object:
    """The value in types that JSON supports; NumPy numbers and the like by their `item()`."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return float(value) if math.isfinite(value) else _not_in_json(value)
        case str():
            # Redacted first: half a secret would not be recognized.
            return redact(str(value))[:TEXT_CHARACTERS_MAX]
        case PassedOver():
            return {"checkpoint": _plain(value.checkpoint), "reason": _plain(value.reason)}
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    item = getattr(value, "item", None)
    # Only once: an item that is still not a plain value is refused below.
    if callable(item) and isinstance(number := item(), bool | int | float | str):
        return _plain(number)
    raise TypeError(f"A {type(value).__name__} cannot be written to the journal.")


def _not_in_json(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _load(line: bytes) -> dict[str, object]:
    try:
        found = json.loads(line.decode(), parse_constant=_refuse)
    except RecursionError:
        raise ValueError("The line is nested too deeply.") from None
    if not isinstance(found, dict):
        raise ValueError("The line is not an object.")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON.")


def _event(found: dict[str, object]) -> Event:
    kind, at = _text(found.get("kind")), _time(found.get("at"))
    rest = {name: value for name, value in found.items() if name not in _COMMON}
    known = KINDS.get(kind)
    if known is not None:
        try:
            return _built(known, at, rest)
        except ValueError:
            pass
    return UnknownEvent(name=kind, at=at, extra=rest)


def _built(kind: type[Event], at: datetime, rest: Mapping[str, object]) -> Event:
    """An event of a known kind. Raises `ValueError` if a field is missing or of another type."""
    own = _own_fields(kind)
    given: dict[str, object] = {}
    for f in own:
        if f.name in rest:
            given[f.name] = _READERS[f.type](rest[f.name])
        elif f.default is MISSING and f.default_factory is MISSING:
            raise ValueError(f"{f.name!r} is missing.")
    names = {f.name for f in own}
    extra = {name: value for name, value in rest.items() if name not in names}
    build: Callable[..., Event] = kind
    return build(at=at, extra=extra, **given)


def _own_fields(kind: type[Event]) -> list["Field[object]"]:
    return [f for f in fields(kind) if f.name not in ("at", "extra")]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("Expected a text.")
    return value


def _time(value: object) -> datetime:
    time = datetime.fromisoformat(_text(value))
    if time.utcoffset() is None:
        raise ValueError("Expected a time zone.")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise ValueError("The time is out of range.") from None


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("Expected a whole number.")
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def _number(value: object) -> float:
    if isinstance(value, str) and value in _NOT_IN_JSON:
        return _NOT_IN_JSON[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("Expected a number.")
    if abs(value) > NUMBER_MAX:
        # No run has such a number: the figures count the event as garbled.
        return NUMBER_MAX if value > 0 else -NUMBER_MAX
    # Dividing by a denormal number overflows.
    return float(value) if abs(value) >= sys.float_info.min else 0.0


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("Expected true or false.")
    return value


def _scalar(value: object) -> Scalar:
    if isinstance(value, str):
        return _NOT_IN_JSON.get(value, value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError("Expected a plain value.")


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("Expected an object.")
    return value


def _passed_over(value: object) -> tuple[PassedOver, ...]:
    if not isinstance(value, list):
        raise ValueError("Expected a list.")
    found = [_mapping(item) for item in value]
    return tuple(
        PassedOver(checkpoint=_text(item.get("checkpoint")), reason=_text(item.get("reason")))
        for item in found
    )


_READERS: Mapping[object, Callable[[object], object]] = {
    str: _text,
    int: _whole,
    int | None: _whole_or_none,
    str | None: lambda value: None if value is None else _text(value),
    float: _number,
    bool: _truth,
    FinalChoice: lambda value: FinalChoice(_text(value)),
    tuple[PassedOver, ...]: _passed_over,
    Mapping[str, Scalar]: lambda value: {k: _scalar(v) for k, v in _mapping(value).items()},
    Mapping[str, float]: lambda value: {k: _number(v) for k, v in _mapping(value).items()},
}


FOLDER = "journal/"

_NAME = re.compile(r"journal/(\d{6,})-(\d{6,})\.jsonl", re.ASCII)


class SegmentName(NamedTuple):
    attempt: int
    segment: int

    def __str__(self) -> str:
        return f"{prefix_of(self.attempt)}{self.segment:06}.jsonl"


def prefix_of(attempt: int) -> str:
    """The common prefix of the names of all segments of an attempt."""
    return f"{FOLDER}{attempt:06}-"


def parse_name(name: str) -> SegmentName | None:
    """None for an object that is not a segment."""
    match = _NAME.fullmatch(name)
    return match and SegmentName(int(match[1]), int(match[2]))
