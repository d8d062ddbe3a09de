"""Stores that fail, hang or kill the process, around a real one."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence

import pytest

from outlast.checkpoint import session
from outlast.storage import (
    ROUTINE,
    AccessPattern,
    Buffer,
    Limits,
    StorageError,
    Store,
    StoreEntry,
    open_store,
)


class AroundStore:
    """Passes everything on; `before` and `after` are told of each change, as it is made."""

    def __init__(self, store: Store) -> None:
        self.inner = store

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def access(self) -> AccessPattern:
        return self.inner.access

    def before(self, name: str, limits: Limits) -> None:
        """Called before an object is created or deleted."""

    def after(self, name: str) -> None:
        """Called once that is durable."""

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        self.before(name, limits)
        self.inner.create(name, parts, limits=limits)
        self.after(name)

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        return self.inner.read(name, start=start, length=length, limits=limits)

    def read_into(
        self, name: str, *buffers: Buffer, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        self.inner.read_into(name, *buffers, start=start, limits=limits)

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[StoreEntry]:
        return self.inner.list(prefix, limits=limits)

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        for name in names:
            self.before(name, limits)
            self.inner.delete([name], limits=limits)
            self.after(name)


class KillingStore(AroundStore):
    """Kills this process at the given boundary: 0 is before the first change, 1 after it."""

    def __init__(self, store: Store, boundary: int) -> None:
        super().__init__(store)
        self._left = boundary
        self._lock = threading.Lock()

    def before(self, name: str, limits: Limits) -> None:
        self._count(f"before {name}")

    def after(self, name: str) -> None:
        self._count(f"after {name}")

    def _count(self, where: str) -> None:
        with self._lock:
            if self._left == 0:
                os.write(1, f"killed {where}\n".encode())
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1


class FailingStore(AroundStore):
    """Raises `error` for changes of names that start with `prefix`, while it is set."""

    def __init__(self, store: Store, prefix: str) -> None:
        super().__init__(store)
        self.error: StorageError | None = None
        self._prefix = prefix

    def before(self, name: str, limits: Limits) -> None:
        if self.error is not None and name.startswith(self._prefix):
            raise self.error


class SlowStore(AroundStore):
    """Takes `seconds` for each pack from the given number on, whatever the limits say."""

    def __init__(self, store: Store, seconds: float, packs_before: int = 0) -> None:
        super().__init__(store)
        self._seconds = seconds
        self._fast_left = packs_before

    def before(self, name: str, limits: Limits) -> None:
        if name.startswith("packs/"):
            self._fast_left -= 1
            if self._fast_left < 0:
                os.write(1, f"slow: {name}\n".encode())
                time.sleep(self._seconds)


class CostlyStore(AroundStore):
    """Lets `seconds` pass for the first pack, for all who ask for the time, without any waiting."""

    def __init__(self, store: Store, seconds: float) -> None:
        super().__init__(store)
        self._seconds = seconds

    def before(self, name: str, limits: Limits) -> None:
        if name.startswith("packs/"):
            seconds, self._seconds = self._seconds, 0.0
            monotonic = time.monotonic
            time.monotonic = lambda: monotonic() + seconds


def install(wrap: Callable[[Store], Store]) -> None:
    """Have every checkpointer of this process open its store through `wrap`."""
    session.open_store = lambda url: wrap(open_store(url))  # type: ignore[attr-defined]


def install_killing(boundary: int) -> None:
    install(lambda store: KillingStore(store, boundary))


def install_slow(seconds: float, packs_before: int) -> None:
    install(lambda store: SlowStore(store, seconds, packs_before))


def install_costly(seconds: float) -> None:
    install(lambda store: CostlyStore(store, seconds))


def wrapped(patch: pytest.MonkeyPatch, wrap: Callable[[Store], Store]) -> None:
    """As `install`, for the length of a test."""
    patch.setattr(session, "open_store", lambda url: wrap(open_store(url)))
