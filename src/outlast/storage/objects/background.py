"""Run asynchronous calls from ordinary threads, with reliable timeouts.

The calls run on one event loop in a daemon thread, which starts at first use. A call that times out
is cancelled, which closes its connection, and the process can exit at any time.

The client uses its own native threads. If one of them waits for the interpreter while it shuts
down, the process aborts: a run that had saved everything would exit with 134. So shutdown waits for
these threads, which takes microseconds.
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
    """An event loop that tracks which threads are passing it a callback."""

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
    """Start a call in the background."""
    try:
        return asyncio.run_coroutine_threadsafe(call, _running_loop())
    except BaseException:
        call.close()
        raise


def wait(future: "Future[T]", countdown: Countdown) -> T:
    """The result of a call. After the time limit, cancels it and raises `StorageTimeout`."""
    try:
        return future.result(countdown.seconds_left())
    except FutureTimeout:
        raise countdown.timeout() from None
    finally:
        # Has no effect on a finished call; stops one that is no longer needed.
        future.cancel()


def _settle(loop: _Loop, pid: int) -> None:
    """Wait briefly until no thread of the client needs the interpreter anymore."""
    if pid != os.getpid():
        return
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        loop.call_soon_threadsafe(task.cancel)
    if tasks:
        # The client takes a moment to notice a cancelled call.
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
            # A child inherits neither this thread nor those of the client: it would wait forever.
            raise StoreUnavailable(
                "An object store was used before this process was forked, so it cannot be used in "
                "the child.",
                hint="Start the process with 'spawn' or 'forkserver', or use the store only in "
                "the child.",
            )
        return _loop
