"""Wait for asynchronous calls from ordinary threads, with an end that is kept.

The calls run on one event loop in a daemon thread, started at the first use. A call that is not
over in time is cancelled, which closes its connection, and the process can leave at any moment.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from outlast.storage.errors import StoreUnavailable
from outlast.storage.limits import Countdown

T = TypeVar("T")

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None
_loop_pid = 0


def submit(call: Coroutine[Any, Any, T]) -> "Future[T]":
    """Start a call; it runs while the caller does something else."""
    try:
        return asyncio.run_coroutine_threadsafe(call, _running_loop())
    except BaseException:
        call.close()
        raise


def wait(future: "Future[T]", countdown: Countdown) -> T:
    """The result of a call. Raises `StorageTimeout` in time, and then the call is cancelled."""
    try:
        return future.result(countdown.seconds_left())
    except FutureTimeout:
        raise countdown.timeout() from None
    finally:
        # Does nothing to a call that is over; stops one that we do not wait for any more.
        future.cancel()


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _loop_pid
    with _lock:
        if _loop is None:
            _loop = asyncio.new_event_loop()
            _loop_pid = os.getpid()
            threading.Thread(target=_loop.run_forever, name="outlast-storage", daemon=True).start()
        if _loop_pid != os.getpid():
            # A child inherits neither this thread nor those of the client: it would wait for ever.
            raise StoreUnavailable(
                "An object store was used before this process was forked, so it cannot be used in "
                "the child.",
                hint="Start the process by 'spawn' or 'forkserver', or use the store there only.",
            )
        return _loop
