"""Write values as YAML: documents with comments, block lines, or one line in flow style or JSON.

Text is quoted wherever a YAML 1.1 reader or Go's reader could take it for something else, so what
is read back is always the same text.
"""

import json
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

WIDTH = 100

# Words of these characters, with a colon only inside, mean nothing special to YAML.
_PLAIN = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*", re.ASCII)
_WORDS_WITH_MEANING = {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
# A number, a date, a time or base 60 to some YAML reader.
_NUMBER_LIKE = re.compile(r"[-+.]?[0-9][0-9a-fxob_.,:e+tz-]*|\.(inf|nan)", re.ASCII | re.IGNORECASE)
# JSON leaves these as they are, but YAML forbids them or reads them as the end of a line.
_UNSAFE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")

Value: TypeAlias = (
    "str | int | float | bool | Sequence[Value] | Mapping[str, Value] | Commented | None"
)


@dataclass(frozen=True, slots=True)
class Commented:
    """A value and the reason for it, which is written as a comment above it."""

    value: Value
    reason: str


def to_yaml(value: Value, *, reason: str = "") -> str:
    """A document. `reason` is the comment at its top."""
    return "\n".join([*_comment(reason, 0), *_block(value, 0)]) + "\n"


def scalar_text(value: str | int | float | bool | None, *, is_json: bool = False) -> str:
    """A scalar that every YAML reader takes for exactly this value."""
    if not isinstance(value, str):
        return json.dumps(value)
    if (
        not is_json
        and _PLAIN.fullmatch(value)
        and not _NUMBER_LIKE.fullmatch(value)
        and value.lower() not in _WORDS_WITH_MEANING
    ):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", quoted)


def flow_text(value: Any, *, is_json: bool = False) -> str:
    """A value on one line."""
    if isinstance(value, Mapping):
        parts = (
            f"{scalar_text(key, is_json=is_json)}: {flow_text(item, is_json=is_json)}"
            for key, item in value.items()
        )
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(flow_text(item, is_json=is_json) for item in value) + "]"
    return scalar_text(value, is_json=is_json)


def entry_lines(key: str, value: Value) -> list[str]:
    """A key with its value, as lines that start at the key's column."""
    return list(_entry(key, value, 0))


def item_lines(value: Value) -> list[str]:
    """An item of a list, as lines that start at its dash."""
    return list(_item(value, 0))


def _block(value: Value, indent: int) -> list[str]:
    if isinstance(value, Mapping):
        return [line for item in value.items() for line in _entry(*item, indent)]
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [line for item in value for line in _item(item, indent)]
    assert not isinstance(value, Commented)
    return [" " * indent + scalar_text(value)]


def _entry(key: str, value: Value, indent: int) -> Iterator[str]:
    value, reason = _apart(value)
    yield from _comment(reason, indent)
    head = f"{' ' * indent}{scalar_text(key)}:"
    if _is_collection(value):
        yield head
        yield from _block(value, indent + 2)
    else:
        yield f"{head} {flow_text(value)}"


def _item(value: Value, indent: int) -> Iterator[str]:
    value, reason = _apart(value)
    yield from _comment(reason, indent)
    pad = " " * indent
    if not _is_collection(value):
        yield f"{pad}- {flow_text(value)}"
        return
    lines = _block(value, indent + 2)
    # The comment of an item's first line goes above the dash.
    while lines[0].lstrip().startswith("#"):
        yield pad + lines.pop(0).lstrip()
    yield f"{pad}- {lines.pop(0).lstrip()}"
    yield from lines


def _apart(value: Value) -> tuple[Value, str]:
    return (value.value, value.reason) if isinstance(value, Commented) else (value, "")


def _is_collection(value: Value) -> bool:
    return isinstance(value, Mapping | Sequence) and not isinstance(value, str) and len(value) > 0


def _comment(reason: str, indent: int) -> list[str]:
    """The reason as comment lines. Wrapping removes all line breaks from it."""
    prefix = " " * indent + "# "
    # A number stays on the same line as its unit.
    kept = re.sub(r"(?<=\d) (?=s\b|h\b|GB)", "\0", reason)
    lines = textwrap.wrap(
        kept, WIDTH, initial_indent=prefix, subsequent_indent=prefix, break_on_hyphens=False
    )
    return [line.replace("\0", " ") for line in lines]
