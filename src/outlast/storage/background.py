"""Wait for asynchronous calls from ordinary threads, with an end that is kept.

The calls run on one event loop in a daemon thread, started at the first use. A call that is not
over in time is cancelled, which closes its connection, and the process can leave at any moment.

The client answers from threads of its own, which are not Python's. One that waits for the
interpreter while that comes to its end would abort the process: a run that had saved everything
would leave with 134. So the end waits until they are out, which takes them microseconds.
"""

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextvars import Context
from typing import Any, TypeVar, TypeVarTuple

from outlast.storage.errors import StoreUnavailable
from outlast.storage.limits import Countdown

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_SETTLE_SECONDS_MAX = 1.0
_CANCEL_SECONDS = 0.05


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that knows which threads are handing something over to it."""

    def __init__(self) -> None:
        super().__init__()
        self.callers: set[int] = set()

    def call_soon_threadsafe(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        caller = threading.get_ident()
        self.callers.add(caller)
        try:
            return super().call_soon_threadsafe(callback, *args, context=context)
        finally:
            self.callers.discard(caller)


_lock = threading.Lock()
_loop: _Loop | None = None
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


def _settle(loop: _Loop, pid: int) -> None:
    """Wait, but not for long, until no thread of the client needs the interpreter any more."""
    if pid != os.getpid():
        return
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        loop.call_soon_threadsafe(task.cancel)
    if tasks:
        # The client notices a cancelled call in its own time.
        time.sleep(_CANCEL_SECONDS)
    give_up_at = time.monotonic() + _SETTLE_SECONDS_MAX
    while loop.callers and time.monotonic() < give_up_at:
        time.sleep(0.001)


def _running_loop() -> asyncio.AbstractEventLoop:
    global _loop, _loop_pid
    with _lock:
        if _loop is None:
            _loop = _Loop()
            _loop_pid = os.getpid()
            atexit.register(_settle, _loop, _loop_pid)
            threading.Thread(target=_loop.run_forever, name="outlast-storage", daemon=True).start()
        if _loop_pid != os.getpid():
            # A child inherits neither this thread nor those of the client: it would wait for ever.
            raise StoreUnavailable(
                "An object store was used before this process was forked, so it cannot be used in "
                "the child.",
                hint="Start the process by 'spawn' or 'forkserver', or use the store there only.",
            )
        return _loop
