"""Threads that work in the background, and are never started without memory."""

import contextlib
import mmap
import os
import sys
import threading
from collections.abc import Callable

_NICENESS = 10
# Several times what a thread allocates before its first line of Python.
_START_BYTES = 4 * 1024**2


def start_thread(
    work: Callable[[], object], name: str, *, low_priority: bool = True
) -> threading.Thread:
    """Run `work` in a daemon thread. At low priority, the training keeps the processors.

    Raises `MemoryError` or `RuntimeError` if no thread can be started.
    """

    def run() -> None:
        if low_priority:
            lower_priority()
        work()

    thread = threading.Thread(target=run, name=name, daemon=True)
    ensure_room_for_thread()
    thread.start()
    return thread


def lower_priority() -> None:
    """Let the calling thread yield to others. Linux gives each thread a priority of its own."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def ensure_room_for_thread() -> None:
    """Raise `MemoryError` if a new thread could not even report that it has started.

    `Thread.start` would wait forever for a thread that runs out of memory before that.
    """
    try:
        mmap.mmap(-1, _START_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        raise MemoryError("no memory is left to start a thread") from error
