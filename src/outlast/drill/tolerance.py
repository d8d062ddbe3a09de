"""Compare two contents leaf by leaf, numbers within a tolerance; tell the first difference. Pure.

Two numbers agree if they differ by at most the tolerance times the larger of 1 and their sizes.
Tolerance 0 means equal, of texts letter by letter. NaN agrees with NaN.
"""

import contextlib
import math
from collections.abc import Mapping, Sequence


def agree(one: object, other: object, tolerance: float) -> bool:
    """Whether two plain values agree; within a tolerance, texts may be numbers too."""
    if one == other or (_is_nan(one) and _is_nan(other)):
        return True
    if not tolerance:
        return False
    left, right = _number(one), _number(other)
    if left is None or right is None:
        return False
    try:
        if not (math.isfinite(left) and math.isfinite(right)):
            return left == right or (math.isnan(left) and math.isnan(right))
        return abs(left - right) <= tolerance * max(1, abs(left), abs(right))
    except OverflowError:
        # An integer beyond every float.
        return False


def first_difference(one: object, other: object, tolerance: float, path: str = "") -> str | None:
    """Where two trees of plain values differ first; None if they agree."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in [*one, *(name for name in other if name not in one)]:
            below = f"{path}.{name}" if path else str(name)
            if name not in one or name not in other:
                return f"{below} is only in one of them"
            if found := first_difference(one[name], other[name], tolerance, below):
                return found
        return None
    if _is_list(one) and _is_list(other):
        assert isinstance(one, Sequence) and isinstance(other, Sequence)
        if len(one) != len(other):
            return f"{path or 'it'} has {len(other)} entries, not {len(one)}"
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            if found := first_difference(left, right, tolerance, f"{path}[{index}]"):
                return found
        return None
    if agree(one, other, tolerance):
        return None
    return f"{path or 'it'} is {_short(other)}, not {_short(one)}"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _number(value: object) -> int | float | None:
    """The number that a value is or spells. Integers stay what they are, because floats round."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(value)
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
