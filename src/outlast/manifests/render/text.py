"""Write YAML with a comment above every line that has a reason to be explained.

Small on purpose: block style, and quotes wherever a reader of YAML 1.1 or of Go's dialect could
take a text for something else. Whatever a text holds, what is read back is that text.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

WIDTH = 100

# Words of these signs, with a colon only inside, mean nothing special to YAML.
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*", re.ASCII)
_WORDS_WITH_MEANING = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
# A number, a date, a time or base 60: some reader of YAML sees one in what is shaped like this.
_NUMBER_LIKE = re.compile(r"[-+.]?[0-9][0-9a-fxob_.,:e+tz-]*|\.(inf|nan)", re.ASCII | re.IGNORECASE)
# What JSON leaves as it is, but YAML does not allow or takes for the end of a line.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")

Value: TypeAlias = "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | Why | None"


@dataclass(frozen=True, slots=True)
class Why:
    """A value and the reason for it, which becomes a comment above it."""

    value: Value
    reason: str


def to_yaml(value: Value, *, reason: str = "") -> str:
    """A document. `reason` stands at its head."""
    return "\n".join([*_comment(reason, 0), *_block(value, 0)]) + "\n"


def scalar(value: str | int | float | bool | None) -> str:
    """A scalar that every reader of YAML takes for this very value."""
    if not isinstance(value, str):
        return json.dumps(value)
    if (
        _PLAIN.fullmatch(value)
        and not _NUMBER_LIKE.fullmatch(value)
        and value.lower() not in _WORDS_WITH_MEANING
    ):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def _block(value: Value, indent: int) -> list[str]:
    if isinstance(value, Mapping):
        return [line for item in value.items() for line in _entry(*item, indent)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [line for item in value for line in _item(item, indent)]
    assert not isinstance(value, Why)
    return [" " * indent + scalar(value)]


def _entry(key: str, value: Value, indent: int) -> Iterator[str]:
    value, reason = _apart(value)
    yield from _comment(reason, indent)
    head = f"{' ' * indent}{scalar(key)}:"
    if _is_collection(value):
        yield head
        yield from _block(value, indent + 2)
    else:
        yield f"{head} {_inline(value)}"


def _item(value: Value, indent: int) -> Iterator[str]:
    value, reason = _apart(value)
    yield from _comment(reason, indent)
    pad = " " * indent
    if not _is_collection(value):
        yield f"{pad}- {_inline(value)}"
        return
    lines = _block(value, indent + 2)
    # The reason for an item's first line goes above the dash.
    while lines[0].lstrip().startswith("#"):
        yield pad + lines.pop(0).lstrip()
    yield f"{pad}- {lines.pop(0).lstrip()}"
    yield from lines


def _apart(value: Value) -> tuple[Value, str]:
    return (value.value, value.reason) if isinstance(value, Why) else (value, "")


def _is_collection(value: Value) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and len(value) > 0


def _inline(value: Value) -> str:
    if isinstance(value, Mapping):
        return "{}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[]"
    assert not isinstance(value, Why)
    return scalar(value)


def _comment(reason: str, indent: int) -> list[str]:
    """The reason as comment lines. Wrapping takes every line break out of it."""
    prefix = " " * indent + "# "
    # A number stays with its unit.
    kept = re.sub(r"(?<=\d) (?=s\b|h\b|GB)", "\0", reason)
    lines = textwrap.wrap(
        kept, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in lines]
