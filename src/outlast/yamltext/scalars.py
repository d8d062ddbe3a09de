"""What a plain scalar means to Kubernetes: YAML 1.1 as implemented in Go.

`yes`, `on` and `y` are booleans, `0400` is octal, `1e3` is a float, `1:30` and dates are text.
Kubernetes converts YAML to JSON by these rules before it validates anything.
"""

import re
from functools import lru_cache
from typing import Any

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE"), True),
    **dict.fromkeys(("on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE"), False),
    **dict.fromkeys(("off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
_NUMBER_STARTS = frozenset("0123456789+-.")
_INTEGER = re.compile(
    r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)", re.ASCII
)
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
# No Go number has more digits.
_NUMBER_CHARACTERS_MAX = 400
_BASES = {"x": 16, "b": 2, "o": 8}

_TAG = "tag:yaml.org,2002:"


@lru_cache(maxsize=4096)
def resolve(text: str) -> Scalar:
    """The value of an unquoted scalar without a tag."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _NUMBER_CHARACTERS_MAX:
        return text
    digits = text if text[0] == "." else text.replace("_", "")
    if _INTEGER.fullmatch(digits):
        number = _integer(digits)
        if -(2**63) <= number < 2**64:
            return number
    if _FLOAT.fullmatch(digits):
        value = float(digits)
        # JSON has no infinity, and Go rejects values too large for a float.
        return text if value in (float("inf"), float("-inf")) else value
    return text


def resolve_tagged(text: str, tag: str) -> Scalar:
    """The value of a scalar with a tag, such as `!!str 1`; unknown tags give text."""
    if tag in (_TAG + "bool", _TAG + "null", _TAG + "int", _TAG + "float"):
        return resolve(text)
    return text


def as_key(value: Any) -> str | None:
    """A scalar as text, such as a key in JSON needs; None if it is not a scalar."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    return None


def _integer(digits: str) -> int:
    sign = -1 if digits[0] == "-" else 1
    body = digits.lstrip("+-")
    if body[0] == "0" and len(body) > 1:
        base = _BASES.get(body[1].lower())
        return sign * (int(body[2:], base) if base else int(body, 8))
    return sign * int(body)
