"""Leave the processors to the training."""

import contextlib
import os
import sys
import threading

_NICENESS = 10


def lower_priority() -> None:
    """Let the calling thread yield to others. Linux gives each thread a priority of its own."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
