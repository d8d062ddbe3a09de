"""Parse JSON that someone else may have written: bounded in depth, unambiguous and finite. Pure."""

import json
import math
from typing import Any, NoReturn


class InvalidJson(ValueError):
    """Text that is not strict JSON. The message is a clause, such as "it is not JSON"."""


def strict_json(data: bytes) -> Any:
    """Parse JSON without repeated keys and without infinite numbers. Raises `InvalidJson`."""
    try:
        return json.loads(
            data, object_pairs_hook=_object, parse_constant=_refuse, parse_float=_finite
        )
    except InvalidJson:
        raise
    except (ValueError, RecursionError, MemoryError) as error:
        raise InvalidJson(f"it is not JSON ({type(error).__name__})") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InvalidJson("an object in it has the same key twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise InvalidJson(f"it contains {constant}, which is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise InvalidJson(f"it contains the number {text[:40]}, which is out of range")
    return number
