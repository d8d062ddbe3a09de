"""Attempts: which attempt of a run this process is, and whether a newer one has started.

Two Pods of one run may be alive at once. Each claims a number by create-if-absent, and stops when
it sees a higher number. Only the newest few numbers stay listed: one higher number is enough to
stop an older attempt, and the highest is never deleted, so no number is claimed twice by processes
that could both continue. If killed: the number stays taken, and the next attempt claims a higher
one.
"""

import json
import os
import re
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime

from outlast.checkpoint.errors import CheckpointError, Fenced
from outlast.storage import (
    ROUTINE,
    AlreadyExists,
    Limits,
    Store,
    StoreUnavailable,
    create_or_confirm,
)

KEPT = 50
"""How many of the newest attempts stay listed."""

NUMBER_MAX = 999_999_999

_PREFIX = "attempts/"
_NAME = re.compile(r"attempts/(\d{6,})\.json")
_TRIES_MAX = 100


def name_of(attempt: int) -> str:
    return f"{_PREFIX}{attempt:06d}.json"


def numbers(store: Store, *, limits: Limits = ROUTINE) -> list[int]:
    """The listed attempts, in order."""
    return sorted(int(match[1]) for match in _listed(store, limits=limits))


def newest(store: Store, *, limits: Limits = ROUTINE) -> int:
    """The highest attempt that was ever claimed; 0 if there is none."""
    return max(numbers(store, limits=limits), default=0)


def claim(store: Store, *, after: int, facts: Mapping[str, object] | None = None) -> int:
    """Start an attempt after the newest one, with these facts in its file; returns its number."""
    content = _content(facts or {})
    for number in range(after + 1, after + 1 + _TRIES_MAX):
        _refuse_beyond_last(store, number)
        try:
            create_or_confirm(store, name_of(number), content)
        except AlreadyExists:
            continue
        return number
    raise StoreUnavailable(
        f"Could not claim an attempt number in {store.url} in {_TRIES_MAX} tries.",
        hint="Check whether very many processes are starting this run at once.",
    )


def outdated(listed: Sequence[int]) -> list[str]:
    """The files of listed attempts that are no longer needed."""
    return [name_of(number) for number in listed[:-KEPT]]


def check(store: Store, attempt: int, *, limits: Limits = ROUTINE) -> None:
    """Raise `Fenced` if a newer attempt has started."""
    newer = newest(store, limits=limits)
    if newer > attempt:
        raise Fenced(
            f"Attempt {newer} of this run has started, so attempt {attempt} stops.",
            hint="Two processes share one run URL. Give each its own URL, or run only one.",
            newer_attempt=newer,
        )


def _listed(store: Store, *, limits: Limits = ROUTINE) -> Iterator[re.Match[str]]:
    entries = store.list(_PREFIX, limits=limits)
    return filter(None, (_NAME.fullmatch(entry.name) for entry in entries))


def _refuse_beyond_last(store: Store, number: int) -> None:
    if number > NUMBER_MAX:
        # Listed again for their exact names, which may have leading zeros.
        named = (match[0] for match in _listed(store) if int(match[1]) >= NUMBER_MAX)
        files = ", ".join(sorted(named)) or name_of(number - 1)
        raise CheckpointError(
            f"Cannot start another attempt in {store.url}: {files} has the highest possible "
            f"number, {NUMBER_MAX}, or a higher one.",
            hint="A run does not reach this number by itself, so something else wrote the file. "
            f"Check that no process is using this run, then delete {files}.",
        )


def _content(facts: Mapping[str, object]) -> bytes:
    own = {
        "id": uuid.uuid4().hex,
        "created": datetime.now(UTC).isoformat(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
    }
    return json.dumps({**facts, **own}).encode()
