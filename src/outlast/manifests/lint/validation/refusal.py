"""A refusal of the API server: which field, for which reason, in the server's own terms.

Checks receive the parsed part of an object and its path. They skip values of the wrong type, which
the schema rules report, and build a path only when they refuse something.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from outlast.yamltext.nodes import Path

_PRINTED_MAX = 80


class Reason(StrEnum):
    """The reasons by which the API server classifies what it refuses."""

    REQUIRED = "Required value"
    INVALID = "Invalid value"
    UNSUPPORTED = "Unsupported value"
    DUPLICATE = "Duplicate value"
    FORBIDDEN = "Forbidden"
    NOT_FOUND = "Not found"
    TOO_LONG = "Too long"
    TOO_MANY = "Too many"
    MALFORMED = "Malformed value"
    """The server cannot even decode the object."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """One thing that the server refuses. `of_key`: the key at the path is wrong, not its value."""

    path: Path
    reason: Reason
    detail: str
    hint: str | None = None
    of_key: bool = False


Refusals = Iterator[Refusal]


def required(path: Path, detail: str, hint: str | None = None) -> Refusal:
    return Refusal(path=path, reason=Reason.REQUIRED, detail=detail, hint=hint)


def invalid(path: Path, detail: str, hint: str | None = None, *, of_key: bool = False) -> Refusal:
    return Refusal(path=path, reason=Reason.INVALID, detail=detail, hint=hint, of_key=of_key)


def forbidden(path: Path, detail: str, hint: str | None = None) -> Refusal:
    return Refusal(path=path, reason=Reason.FORBIDDEN, detail=detail, hint=hint, of_key=True)


def duplicate(path: Path, value: object, hint: str | None = None) -> Refusal:
    detail = f"{shown(value)} appears more than once"
    return Refusal(path=path, reason=Reason.DUPLICATE, detail=detail, hint=hint)


def too_many(path: Path, count: int, most: int) -> Refusal:
    detail = f"there are {count}, at most {most} are allowed"
    return Refusal(path=path, reason=Reason.TOO_MANY, detail=detail)


def unsupported(path: Path, value: object, options: Iterable[str]) -> Refusal:
    listed = tuple(options)
    expected = listed[0] if len(listed) == 1 else f"one of {', '.join(listed)}"
    return Refusal(
        path=path,
        reason=Reason.UNSUPPORTED,
        detail=f"{shown(value)} is not {expected}",
        hint=f"Use {expected}.",
    )


def choice(node: Any, key: str, at: Path, options: Iterable[str]) -> Refusals:
    """Refuse a text that is none of the options. An empty or missing one gets its default."""
    value = node.get(key)
    if isinstance(value, str) and value and value not in options:
        yield unsupported((*at, key), value, options)


def counted(node: Any, at: Path, *keys: str) -> Refusals:
    """Refuse negative numbers."""
    for key in keys:
        value = node.get(key)
        if is_integer(value) and value < 0:
            yield invalid((*at, key), f"{value} is negative", "Use 0 or more.")


def shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _PRINTED_MAX else text[: _PRINTED_MAX - 3] + "..."


def is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def mapping(node: Any, key: str) -> dict[str, Any]:
    """The mapping under a key, empty if there is none."""
    found = node.get(key)
    return found if isinstance(found, dict) else {}


def listed(node: Any, key: str) -> list[Any]:
    """The list under a key, empty if there is none."""
    found = node.get(key)
    return found if isinstance(found, list) else []


def mappings(node: Any, key: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The mappings in the list under a key, with their index."""
    found = node.get(key)
    if isinstance(found, list):
        for index, item in enumerate(found):
            if isinstance(item, dict):
                yield index, item


def text(node: Any, key: str) -> str:
    """The text under a key, empty if there is none."""
    found = node.get(key)
    return found if isinstance(found, str) else ""


def number(node: Any, key: str) -> int | None:
    found = node.get(key)
    return found if is_integer(found) else None
