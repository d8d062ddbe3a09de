"""Events as lines of JSON, and back. Pure.

One object per line, keys sorted. What JSON has no number for is a string: "NaN", "Infinity",
"-Infinity". A reader keeps what it does not know, so that an old version can read the journal of a
newer one: unknown fields go into `extra`, unknown kinds and shapes become `Other`. A line that is
no such object is garbled: it is counted, and reading goes on.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields
from datetime import UTC, datetime
from typing import NamedTuple, NoReturn

from outlast.journal.events import KINDS, Event, FinalChoice, Other, PassedOver, Scalar

TEXT_CHARACTERS_MAX = 4000
"""Longer texts, such as a long error message, are cut."""

_NO_NUMBERS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_COMMON = frozenset({"kind", "at"})


class Segment(NamedTuple):
    """The first line of a segment: whose batch of lines this is. It lets a repetition be told."""

    writer: str
    batch: int


class Lines(NamedTuple):
    """What a segment holds. `segment` is None if its first line is garbled."""

    segment: Segment | None
    events: tuple[Event, ...]
    garbled: int


def encode(event: Event) -> bytes:
    """One line, with its end. Raises `ValueError` or `TypeError` for what JSON cannot hold."""
    kind = event.name if isinstance(event, Other) else event.kind
    own = {f.name: getattr(event, f.name) for f in _own_fields(type(event))}
    if isinstance(event, Other):
        del own["name"]
    at = event.at.astimezone(UTC).isoformat()
    # What an event says itself goes last, so that `extra` cannot replace it.
    return _dump({**event.extra, **own, "kind": kind, "at": at})


def encode_segment(segment: Segment) -> bytes:
    return _dump({"kind": "segment", **segment._asdict()})


def decode(line: bytes) -> Event:
    """The event in a line. Raises `ValueError` if the line is garbled."""
    return _event(_load(line))


def decode_lines(data: bytes) -> Lines:
    """All that can be read of a segment, whatever it holds."""
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
    """The same value in what JSON knows; foreign numbers, such as NumPy's, by their `item()`."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return float(value) if math.isfinite(value) else _no_number(value)
        case str():
            return str(value)[:TEXT_CHARACTERS_MAX]
        case PassedOver():
            return {"checkpoint": _plain(value.checkpoint), "reason": _plain(value.reason)}
        case Mapping():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
    item = getattr(value, "item", None)
    # One step only: an item that is no plain value after all is refused below.
    if callable(item) and isinstance(number := item(), bool | int | float | str):
        return _plain(number)
    raise TypeError(f"A {type(value).__name__} cannot be written to the journal.")


def _no_number(value: float) -> str:
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
    return Other(name=kind, at=at, extra=rest)


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
        raise ValueError("A text is expected.")
    return value


def _time(value: object) -> datetime:
    time = datetime.fromisoformat(_text(value))
    if time.utcoffset() is None:
        raise ValueError("A time zone is expected.")
    return time.astimezone(UTC)


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError("A whole number is expected.")
    return value


def _whole_or_none(value: object) -> int | None:
    return None if value is None else _whole(value)


def _number(value: object) -> float:
    if isinstance(value, str) and value in _NO_NUMBERS:
        return _NO_NUMBERS[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("A number is expected.")
    try:
        return float(value)
    except OverflowError:
        raise ValueError("The number is too large.") from None


def _truth(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("True or false is expected.")
    return value


def _scalar(value: object) -> Scalar:
    if isinstance(value, str):
        return _NO_NUMBERS.get(value, value)
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError("A plain value is expected.")


def _mapping(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("An object is expected.")
    return value


def _passed_over(value: object) -> tuple[PassedOver, ...]:
    if not isinstance(value, list):
        raise ValueError("A list is expected.")
    found = [_mapping(item) for item in value]
    return tuple(
        PassedOver(checkpoint=_text(item.get("checkpoint")), reason=_text(item.get("reason")))
        for item in found
    )


_READERS: Mapping[object, Callable[[object], object]] = {
    str: _text,
    int: _whole,
    int | None: _whole_or_none,
    float: _number,
    bool: _truth,
    FinalChoice: lambda value: FinalChoice(_text(value)),
    tuple[PassedOver, ...]: _passed_over,
    Mapping[str, Scalar]: lambda value: {k: _scalar(v) for k, v in _mapping(value).items()},
    Mapping[str, float]: lambda value: {k: _number(v) for k, v in _mapping(value).items()},
}
