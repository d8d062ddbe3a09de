"""Check single values of a manifest: numbers in range, hashes, dates.

A hash proves that a manifest is what someone wrote, not that it makes sense. So nothing is built
from a manifest before all of it was checked: its values here, its tables of arrays and chunks in
`table_validation.py`, and the tree of the state in `tree_validation.py`. Every refusal is an
`InvalidManifest` whose text is a clause that says what is wrong. Pure.
"""

import re
import reprlib
from datetime import UTC, datetime

STEP_MAX = 10**12 - 1
ATTEMPT_MAX = 10**9 - 1
NUMBER_MAX = 10**9 - 1
WORLD_SIZE_MAX = 10**6
# Sums of two of these still fit into 64 bits.
BYTES_MAX = 2**60
AXES_MAX = 1000

DIGEST = re.compile(r"[0-9a-f]{32}")

_YEARS = range(1970, 9999)
_REPR = reprlib.Repr()
_REPR.maxlevel = 2
_REPR.maxstring = _REPR.maxlong = _REPR.maxother = 60


class InvalidManifest(ValueError):
    """A manifest that no save can have written. The message is a clause: "the step is -1"."""


def short(value: object) -> str:
    """A value for a message, shortened if it is large or deep."""
    return _REPR.repr(value)


def checked_int(value: object, what: str, *, most: int) -> int:
    """The value, if it is an integer from 0 to `most`; bools and floats are refused."""
    if type(value) is not int or not 0 <= value <= most:
        raise InvalidManifest(f"{what} is {short(value)}")
    return value


def checked_digest(value: object, what: str) -> str:
    """The value, if it is a hash or an id of 32 hexadecimal digits."""
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise InvalidManifest(f"{what} is {short(value)}")
    return value


def checked_date(value: object) -> datetime:
    """A date with a time zone, in UTC."""
    try:
        if isinstance(value, str) and len(value) <= 40:
            date = datetime.fromisoformat(value)
            if date.utcoffset() is not None and (date := date.astimezone(UTC)).year in _YEARS:
                return date
    except (ValueError, OverflowError):
        pass
    raise InvalidManifest(f"the date is {short(value)}")
