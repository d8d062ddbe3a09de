"""Read fields of objects of the API server. Nothing raises: what is missing is empty or None."""

import re
from datetime import UTC, datetime
from fractions import Fraction

from outlast.cluster.resources import Object

_UNITS: dict[str, Fraction] = {
    "m": Fraction(1, 1000),
    **{letter: Fraction(1000**power) for power, letter in enumerate(("", *"kMGTP"))},
    **{f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTP", start=1)},
}


def map_of(found: Object, key: str) -> Object:
    value = found.get(key)
    return value if isinstance(value, dict) else {}


def maps_of(found: Object, key: str) -> list[Object]:
    value = found.get(key)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def text_of(found: Object, key: str) -> str:
    value = found.get(key)
    return value if isinstance(value, str) else ""


def number_of(found: Object, key: str) -> int | None:
    value = found.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def time_of(found: Object, key: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(text_of(found, key))
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def quantity(text: str) -> Fraction:
    """A quantity of Kubernetes, such as 500m or 16Gi. 0 if it cannot be read."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(m|k|[KMGTP]i|[MGTP]?)", str(text).strip())
    if found is None:
        return Fraction(0)
    return Fraction(found[1]) * _UNITS[found[2]]
