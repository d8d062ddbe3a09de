"""Backoff between the attempts of a store operation.

Pauses grow: a broken connection is retried soon, and an outage of a minute is waited out. While the
process is about to exit, pauses are short.
"""

import contextlib
import random
import threading
import time
from collections.abc import Iterator

FIRST_PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 32.0
_PAUSE_GROWTH = 4.0
_JITTER = 0.25
_HURRIED_PAUSE_SECONDS = 0.25

_changed = threading.Condition()
_hurried = 0


def pauses(attempts_max: int) -> Iterator[float]:
    """Seconds to wait after each attempt but the last.

    They vary, so that processes that lost the same store do not all retry at the same time.
    """
    seconds = FIRST_PAUSE_SECONDS
    for _ in range(attempts_max - 1):
        yield seconds * random.uniform(1 - _JITTER, 1 + _JITTER)
        seconds = min(seconds * _PAUSE_GROWTH, PAUSE_SECONDS_MAX)


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """Shorten all pauses in this process, including current ones."""
    global _hurried
    with _changed:
        _hurried += 1
        _changed.notify_all()
    try:
        yield
    finally:
        with _changed:
            _hurried -= 1


def pause(seconds: float) -> None:
    """Wait before the next attempt, but only briefly while `hurried` is active."""
    short = min(seconds, _HURRIED_PAUSE_SECONDS)
    time.sleep(short)
    with _changed:
        _changed.wait_for(lambda: _hurried > 0, seconds - short)
