"""Exit before the process is killed: last callbacks, a flush, the exit code."""

import contextlib
import logging
import os
import queue
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from outlast._base.logs import get_logger
from outlast.interruption.exit_notes import note_exit_now

log = get_logger(__name__)

Work = Callable[[], object]


class StandbyThread:
    """A thread that is started before it is needed, and makes the calls it is given in order.

    Calls that may hang (callbacks, logging) must not run in the watcher's thread. And a thread
    cannot always be started later: Python 3.12 refuses once the main thread has ended, and the
    machine may be out of memory. An error is logged, and the next call follows.
    """

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, work: Work) -> threading.Event:
        """Make this call in the thread. The event is set when it has returned."""
        done = threading.Event()

        def work_and_report() -> None:
            try:
                work()
            finally:
                done.set()

        self._work.put(work_and_report)
        return done

    def close(self) -> None:
        """Let the thread end after its last call. Does not wait, because that call may hang."""
        self._work.put(None)

    def join(self, seconds_max: float) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds_max)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException:
                log.exception("A guard callback failed.")


_SIGEV_THREAD = 2


@dataclass(frozen=True, kw_only=True, slots=True)
class ScheduledExit:
    """When the process exits by itself, its exit code, and how long the last callbacks may take."""

    at: float
    code: int
    seconds_max: float


class Exit:
    """Ends the process. Its threads start in advance: one for the last callbacks, one for the log.

    Either may hang, on a lock or on a pipe that is not read, and must not delay the other.
    """

    def __init__(self) -> None:
        self._callback_thread = StandbyThread("outlast-last-callbacks")
        self._log_thread = StandbyThread("outlast-last-log")

    def end_process(
        self, scheduled_exit: ScheduledExit, why: str, callbacks: Sequence[Callable[[], object]]
    ) -> NoReturn:
        """Run the last callbacks and end this process, regardless of its other threads."""
        try:
            end = time.monotonic() + scheduled_exit.seconds_max
            last_acts = (lambda: note_exit_now(scheduled_exit.code), *callbacks)
            called = [self._callback_thread.do(act) for act in last_acts]
            logged = self._log_thread.do(lambda: log.warning(why))
            for done in (*called, logged):
                done.wait(max(0.0, end - time.monotonic()))
            # Flush again, for what the callbacks have printed.
            self._log_thread.do(_flush).wait(max(0.0, end - time.monotonic()))
        finally:
            # Nothing else ends a process whose main thread is in a call that does not return.
            os._exit(scheduled_exit.code)

    def close(self) -> None:
        self._callback_thread.close()
        self._log_thread.close()

    def join(self, seconds_max: float) -> None:
        self._callback_thread.join(seconds_max)
        self._log_thread.join(seconds_max)


def exit_by_timer(scheduled_exit: ScheduledExit) -> None:
    """Have the C library end this process shortly after this exit is due, even if Python hangs.

    No Python thread runs while the interpreter shuts down, which may take longer than the grace
    period. If the C library cannot do it, the kill ends the process.
    """
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return
    # Loaded only here, at the end of an interrupted process.
    with contextlib.suppress(ImportError, AttributeError, OSError):
        import ctypes

        c_library = ctypes.CDLL(None)
        try:
            create = c_library.timer_create
        except AttributeError:
            # glibc before 2.34 keeps timers in a library of their own.
            c_library = ctypes.CDLL("librt.so.1")
            create = c_library.timer_create
        exit_address = ctypes.cast(ctypes.CDLL(None)["_exit"], ctypes.c_void_p).value or 0
        # struct sigevent, padded: call _exit(code) in a new thread (SIGEV_THREAD).
        event = struct.pack("@QiiQQ32x", scheduled_exit.code, 0, _SIGEV_THREAD, exit_address, 0)
        # The watcher exits first, as long as its thread still runs.
        at = scheduled_exit.at + 1.5 * scheduled_exit.seconds_max
        seconds = max(at - time.monotonic(), 0.001)
        # struct itimerspec: no interval, then seconds and nanoseconds.
        when = struct.pack("@4l", 0, 0, int(seconds), int(seconds % 1 * 1e9))
        timer = ctypes.c_void_p()
        if create(time.CLOCK_MONOTONIC, event, ctypes.byref(timer)) == 0:
            c_library.timer_settime(timer, 0, when, None)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        # A program may have closed its streams, or have none.
        if stream is not None and not stream.closed:
            stream.flush()
    logging.shutdown()
