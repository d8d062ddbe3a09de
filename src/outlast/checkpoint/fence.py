"""Attempts: which life of a run this process is, and whether a newer one has begun.

Two Pods of one run may live at once. Each claims a number by create-if-absent; whoever sees a
higher number than its own stops. If killed: the number stays taken, and the next attempt takes a
higher one.
"""

import json
import os
import re
import socket
import uuid
from datetime import UTC, datetime

from outlast.checkpoint.errors import Fenced
from outlast.storage import (
    ROUTINE,
    AlreadyExists,
    Limits,
    Store,
    StoreUnavailable,
    create_or_confirm,
)

_PREFIX = "attempts/"
_NAME = re.compile(r"attempts/(\d{6})\.json")
_TRIES_MAX = 100


def claim(store: Store) -> int:
    """Begin a new attempt and return its number."""
    number = newest(store) + 1
    content = _content()
    for _ in range(_TRIES_MAX):
        try:
            create_or_confirm(store, f"{_PREFIX}{number:06d}.json", content)
        except AlreadyExists:
            number += 1
        else:
            return number
    raise StoreUnavailable(
        f"No number for this attempt could be had in {store.url} in {_TRIES_MAX} tries.",
        hint="Are very many processes starting the same run?",
    )


def newest(store: Store, *, limits: Limits = ROUTINE) -> int:
    """The highest attempt that was ever claimed; 0 if there is none."""
    matches = (_NAME.fullmatch(entry.name) for entry in store.list(_PREFIX, limits=limits))
    return max((int(match[1]) for match in matches if match), default=0)


def check(store: Store, attempt: int, *, limits: Limits = ROUTINE) -> None:
    """Raise `Fenced` if a newer attempt has begun."""
    newer = newest(store, limits=limits)
    if newer > attempt:
        raise Fenced(
            f"Attempt {newer} of this run has started, so attempt {attempt} stops.",
            hint="Two processes share one run URL. Give each its own, or let only one run.",
            newer_attempt=newer,
        )


def _content() -> bytes:
    facts = {
        "id": uuid.uuid4().hex,
        "created": datetime.now(UTC).isoformat(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }
    return json.dumps(facts).encode()
