"""Quantities such as `500m`, `16Gi` and `1e3`, as the API server reads them."""

import re
from decimal import Decimal, InvalidOperation
from functools import lru_cache

_FORM = re.compile(
    r"(?P<number>[+-]?(?:\d+\.?\d*|\.\d+))"
    r"(?P<unit>[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,3})?",
    re.ASCII,
)
_BINARY: dict[str, int] = {
    unit: 1024 ** (power + 1) for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi"))
}
_BINARY["Ei"] = 1024**6
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_LENGTH_MAX = 64
_LIKELY = {
    "kb": "k", "mb": "M", "gb": "G", "tb": "T", "kib": "Ki", "mib": "Mi", "gib": "Gi",
    "tib": "Ti", "ki": "Ki", "mi": "Mi", "gi": "Gi", "ti": "Ti", "g": "G", "t": "T", "K": "k",
}  # fmt: skip


@lru_cache(1024)
def _parsed(text: str) -> Decimal | None:
    match = _FORM.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if match is None:
        return None
    unit = match["unit"] or ""
    try:
        number = Decimal(match["number"])
        if unit in _BINARY:
            return number * _BINARY[unit]
        power = int(unit[1:]) if len(unit) > 1 else _DECIMAL.get(unit, 0)
        scaled: Decimal = number.scaleb(power)
        return scaled
    except InvalidOperation:
        return None


def quantity(value: object) -> Decimal | None:
    """The amount, None if it is not a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return _parsed(value if isinstance(value, str) else str(value))


def is_quantity(value: object) -> bool:
    """Whether the server can read it. Values of other types are left to the schema."""
    return not isinstance(value, str) or quantity(value) is not None


def likely_quantity(text: str) -> str | None:
    """What a text that is not a quantity was meant to be: `16Gi` for `16 gib`."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", text, re.ASCII)
    unit = _LIKELY.get(match[2]) or _LIKELY.get(match[2].lower()) if match else None
    if match and unit is None and _parsed(match[1] + match[2]) is not None:
        unit = match[2]
    return f"{match[1]}{unit}" if match and unit else None
