"""Threads that work in the background, and are never started without memory."""

import contextlib
import mmap
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable

from outlast._base.logs import get_logger

log = get_logger(__name__)

_NICENESS = 10
# Several times what a thread allocates before its first line of Python.
_START_BYTES = 4 * 1024**2


class BackgroundThread:
    """One thread, usually at low priority, which does one job after the other.

    It waits between two jobs: a new thread would have to run before its starter goes on, which
    takes milliseconds on a busy machine. It ends with `close`, or with the last reference to this.
    """

    def __init__(self, name: str, *, low_priority: bool = True) -> None:
        self._name = name
        self._low_priority = low_priority
        self._jobs: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._thread: threading.Thread | None = None
        # Not at the end of the interpreter, where no thread should come back from a wait.
        weakref.finalize(self, self._jobs.put, None).atexit = False

    @property
    def is_busy(self) -> bool:
        # The thread does not exist in a forked child.
        return self._thread is not None and self._thread.is_alive() and not self._idle.is_set()

    def do(self, job: Callable[[], object]) -> None:
        """Do this job, which must not raise. Only while the thread is not busy.

        Raises `MemoryError` or `RuntimeError` if no thread can be started.
        """
        assert not self.is_busy, "There is one job at a time."
        if self._thread is None or not self._thread.is_alive():
            jobs, idle = self._jobs, self._idle
            self._thread = start_thread(
                lambda: _do_jobs(jobs, idle), self._name, low_priority=self._low_priority
            )
        self._idle.clear()
        self._jobs.put(job)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the job is done; False on a timeout."""
        return not self.is_busy or self._idle.wait(timeout_seconds)

    def close(self) -> None:
        """End the thread after its job."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None


def _do_jobs(jobs: "queue.SimpleQueue[Callable[[], object] | None]", idle: threading.Event) -> None:
    while (job := jobs.get()) is not None:
        try:
            job()
        except BaseException:
            # Whoever waits for it must not wait forever.
            log.exception("Unexpected error in a background thread.")
        # What the job refers to is not kept until the next one.
        del job
        idle.set()


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


def lower_priority(native_id: int | None = None) -> None:
    """Let a thread yield to others, by default the calling one.

    Linux gives each thread a priority of its own, which it cannot raise again.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, native_id or threading.get_native_id(), _NICENESS)


def ensure_room_for_thread() -> None:
    """Raise `MemoryError` if a new thread could not even report that it has started.

    `Thread.start` would wait forever for a thread that runs out of memory before that.
    """
    try:
        mmap.mmap(-1, _START_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError as error:
        raise MemoryError("no memory is left to start a thread") from error
