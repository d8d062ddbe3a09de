"""The channel over the store that torch.distributed has opened for its process group.

Three properties of its `TCPStore` shape this module. `set` returns before the server has the value,
so it is followed by a `get`. A wait that times out logs warnings from C++, with host names that it
looks up first, so a wait with a limit asks again and again instead. A wait in C++ has no end from
outside, so this module knows the socket of each connection.
"""

import contextlib
import errno
import math
import os
import queue
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from outlast.ranks.errors import ChannelLost, RanksNotReady

T = TypeVar("T")

# The store counts milliseconds in 32 bits, so that a wait of months would end at once.
_WAIT_SECONDS_MAX = 86_400.0
_FIRST_LOOK_SECONDS = 0.0005
_LOOK_SECONDS_MAX = 0.05
_LOOK_GROWTH = 1.5

# torch would try for as long as the store's own timeout, which is minutes, even if nothing listens.
_PROBE_SECONDS_MAX = 5.0
_CONNECT_SECONDS_MAX = 25.0

_ENDED_HINT = "The process of rank 0 or, with torchrun, the agent of node 0 has ended."

_INTERNET = (socket.AF_INET, socket.AF_INET6)
_connecting = threading.Lock()


def open_torch_channel(name: str) -> "TorchChannel":
    """A channel over the store of the default process group, which must be initialized."""
    # The store of a group has no public name.
    store: Any = _torch().distributed_c10d._get_default_store()  # noqa: SLF001
    if not hasattr(store, "clone"):
        raise RanksNotReady(
            "This version of torch cannot share its store between threads.",
            hint="Upgrade torch to 2.8 or newer.",
        )
    return TorchChannel(store, name)


class TorchChannel:
    """A `Channel` over a connection of its own to this store of torch.distributed."""

    def __init__(self, store: Any, name: str) -> None:
        self._name = name
        with _losses():
            self._store, self._socket_number = _connect(store)
        self._prefixed = _torch().PrefixStore(name, self._store)
        self._lock = threading.Lock()
        self._calls_in_progress = 0
        self._is_closed = False

    def set(self, key: str, value: bytes) -> None:
        def set_and_confirm(store: Any) -> None:
            store.set(key, value)
            store.get(key)

        self._call(set_and_confirm)

    def get(self, key: str) -> bytes | None:
        def look_up(store: Any) -> bytes | None:
            # `get` alone would wait for the key.
            return bytes(store.get(key)) if store.check([key]) else None

        return self._call(look_up)

    def wait(self, keys: Sequence[str], seconds: float) -> bool:
        wanted = list(keys)
        if not wanted:
            return True
        if seconds == math.inf and self._socket_number is not None:
            while not self._call(partial(_wait_in_store, keys=wanted)):
                pass
            return True
        give_up_at = time.monotonic() + seconds
        pause_seconds = _FIRST_LOOK_SECONDS
        while not self._call(lambda store: bool(store.check(wanted))):
            left_seconds = give_up_at - time.monotonic()
            if left_seconds <= 0:
                return False
            time.sleep(min(pause_seconds, left_seconds))
            pause_seconds = min(pause_seconds * _LOOK_GROWTH, _LOOK_SECONDS_MAX)
        return True

    def claim(self, key: str, value: bytes) -> bytes:
        if not value:
            raise ValueError("A claim needs a value.")
        return self._call(lambda store: bytes(store.compare_set(key, "", value)))

    def connect(self) -> "TorchChannel":
        with self._lock:
            store = self._store
        if store is None:
            raise ChannelLost("This connection between the ranks was closed.")
        return TorchChannel(store, self._name)

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            # A call in progress keeps the store. Otherwise the connection ends with this line.
            self._store = self._prefixed = None
            number, self._socket_number = self._socket_number, None
            if self._calls_in_progress and number is not None:
                # While the lock is held, the call cannot end and free the number for another file.
                _disconnect(number)

    def _call(self, act: Callable[[Any], T]) -> T:
        with self._lock:
            if self._is_closed:
                raise ChannelLost("This connection between the ranks was closed.")
            store = self._prefixed
            self._calls_in_progress += 1
        try:
            with _losses():
                return act(store)
        finally:
            # The store must not be released before this is known: see `close`.
            with self._lock:
                self._calls_in_progress -= 1


def _wait_in_store(store: Any, *, keys: list[str]) -> bool:
    try:
        store.wait(keys, timedelta(seconds=_WAIT_SECONDS_MAX))
    except _torch().DistStoreError:
        return False
    return True


@contextlib.contextmanager
def _losses() -> Iterator[None]:
    """Turn the errors of a store into `ChannelLost`. All of them are `RuntimeError`."""
    try:
        yield
    except RuntimeError as error:
        raise ChannelLost(
            "The store between the ranks does not answer.",
            hint="It runs in the process of rank 0 or, with torchrun, in the agent of node 0.",
        ) from error


def _connect(store: Any) -> tuple[Any, int | None]:
    """A new connection to the store, and its file descriptor; None if it has none.

    The store does not name the descriptor, so it is the one that is new. Should the program connect
    to the same store at this moment, it stays unknown.
    """
    innermost = store
    while isinstance(innermost, _torch().PrefixStore):
        innermost = innermost.underlying_store
    port = getattr(innermost, "port", None)
    if port is None:
        return store.clone(), None
    _refuse_if_ended(innermost.host, port)
    with _connecting:
        before = _connections_to(port)
        clone = _clone(store)
        new = _connections_to(port) - before
    return clone, new.pop()[0] if len(new) == 1 else None


def _refuse_if_ended(host: str, port: int) -> None:
    """Raise `ChannelLost` at once if nothing listens at the address where the store has been."""
    try:
        socket.create_connection((host, port), _PROBE_SECONDS_MAX).close()
    except ConnectionRefusedError:
        raise ChannelLost(
            f"The store between the ranks at {host}:{port} has ended.", hint=_ENDED_HINT
        ) from None
    except OSError:
        # Not an answer: the network may be slow, and torch tries for longer.
        return


def _clone(store: Any) -> Any:
    """A new connection, or `ChannelLost` within a bounded time.

    A connection attempt has no end from outside, so it is left alone if it takes too long.
    """
    answers: queue.SimpleQueue[tuple[Any, RuntimeError | None]] = queue.SimpleQueue()

    def clone() -> None:
        try:
            answers.put((store.clone(), None))
        except RuntimeError as error:
            answers.put((None, error))

    threading.Thread(target=clone, name="outlast-ranks-connect", daemon=True).start()
    try:
        found, error = answers.get(timeout=_CONNECT_SECONDS_MAX)
    except queue.Empty:
        raise ChannelLost(
            "The store between the ranks has accepted no connection for "
            f"{_CONNECT_SECONDS_MAX:.0f} s.",
            hint=_ENDED_HINT,
        ) from None
    if error is not None:
        raise error
    return found


def _connections_to(port: int) -> set[tuple[int, object]]:
    """The file descriptors of this process that are connected to a port, with their own address."""
    found: set[tuple[int, object]] = set()
    for path in Path("/dev/fd").iterdir():
        number = int(path.name)
        with contextlib.suppress(OSError), _opened(number) as connection:
            peer = connection.getpeername()
            if connection.family in _INTERNET and peer[1] == port:
                found.add((number, connection.getsockname()))
    return found


def _disconnect(number: int) -> None:
    with contextlib.suppress(OSError), _opened(number) as connection:
        connection.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def _opened(number: int) -> Iterator[socket.socket]:
    """A second handle on a socket. Raises `OSError` if the descriptor is closed or no socket."""
    if not stat.S_ISSOCK(os.fstat(number).st_mode):
        raise OSError(errno.ENOTSOCK, "not a socket")
    with socket.socket(fileno=os.dup(number)) as handle:
        yield handle


def _torch() -> Any:
    return sys.modules["torch.distributed"]
