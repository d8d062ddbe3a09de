"""A thread that is there before it is needed.

Work that may hang (callbacks, logging) must not run in the watcher's thread. And a thread cannot
always be started at that moment: Python 3.12 refuses once the main thread has ended, and a machine
may be out of memory.
"""

import logging
import queue
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

Work = Callable[[], object]


class Standby:
    """Does what it is given, one after the other. An error is logged and ends nothing."""

    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def do(self, work: Work) -> threading.Event:
        """Have this done; the event says when it is."""
        done = threading.Event()

        def work_and_say() -> None:
            try:
                work()
            finally:
                done.set()

        self._work.put(work_and_say)
        return done

    def close(self) -> None:
        """Let the thread end after what it was given. Does not wait: that may hang."""
        self._work.put(None)

    def join(self, seconds_max: float) -> None:
        if threading.current_thread() is not self._thread:
            self._thread.join(seconds_max)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            try:
                work()
            except BaseException:
                log.exception("A callback of a guard failed.")
