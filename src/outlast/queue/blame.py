"""Whom to blame when something fails, and in which words it is remembered. Pure."""

from collections.abc import Sequence
from datetime import datetime
from typing import TypeVar

ERROR_CHARACTERS_MAX = 4000
ERRORS_KEPT = 20
"""So many of an item's failures are remembered, the latest."""

EXPIRED_ALONE = "The worker died or its lease expired while it worked on this item alone."

_Any = TypeVar("_Any")


def suspects(items: Sequence[_Any]) -> list[Sequence[_Any]]:
    """The groups in which the items of an expired lease come back, if there are two or more.

    One of them may have killed its worker. Each group is claimed by itself, so that it is found by
    halving.
    """
    middle = (len(items) + 1) // 2
    return [items[:middle], items[middle:]]


def remembered(error: str, *, worker: str, at: datetime) -> str:
    """The line that is kept of a failure: of a long error the end, which says what happened."""
    if len(error) > ERROR_CHARACTERS_MAX:
        error = "..." + error[-ERROR_CHARACTERS_MAX:]
    return f"{at:%Y-%m-%dT%H:%M:%SZ} {worker}: {error}"


def next_token(last: int, *, wall_seconds: float) -> int:
    """A token above the last one, and comparable with those of other queues by the wall clock."""
    return max(last + 1, int(wall_seconds * 1_000_000))
