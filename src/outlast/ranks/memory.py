"""A channel in memory, for tests in which threads act as ranks."""

import threading
import time
from collections.abc import Sequence

from outlast.ranks.errors import ChannelLost


class MemoryChannels:
    """The values that connected channels share. `lose()` makes every call fail from then on."""

    def __init__(self) -> None:
        self._store = _Store()

    def open(self) -> "MemoryChannel":
        """One more connection."""
        return MemoryChannel(self._store)

    def lose(self) -> None:
        """Fail every call, as if the process with the store had died."""
        with self._store.changed:
            self._store.is_lost = True
            self._store.changed.notify_all()

    def freeze(self) -> None:
        """Answer no call, as if the process with the store were stopped."""
        with self._store.changed:
            self._store.is_frozen = True

    def thaw(self) -> None:
        """Answer calls again."""
        with self._store.changed:
            self._store.is_frozen = False
            self._store.changed.notify_all()


class MemoryChannel:
    """A `Channel` in memory."""

    def __init__(self, store: "_Store") -> None:
        self._store = store
        self._is_closed = False

    def set(self, key: str, value: bytes) -> None:
        with self._store.changed:
            self._await_answer()
            self._store.values[key] = value
            self._store.changed.notify_all()

    def get(self, key: str) -> bytes | None:
        with self._store.changed:
            self._await_answer()
            return self._store.values.get(key)

    def wait(self, keys: Sequence[str], seconds: float) -> bool:
        give_up_at = time.monotonic() + seconds
        with self._store.changed:
            self._await_answer()
            while not all(key in self._store.values for key in keys):
                left_seconds = give_up_at - time.monotonic()
                if left_seconds <= 0:
                    return False
                self._store.changed.wait(min(left_seconds, threading.TIMEOUT_MAX))
                self._await_answer()
            return True

    def claim(self, key: str, value: bytes) -> bytes:
        if not value:
            raise ValueError("A claim needs a value.")
        with self._store.changed:
            self._await_answer()
            winner = self._store.values.setdefault(key, value)
            self._store.changed.notify_all()
            return winner

    def connect(self) -> "MemoryChannel":
        return MemoryChannel(self._store)

    def close(self) -> None:
        with self._store.changed:
            self._is_closed = True
            self._store.changed.notify_all()

    def _await_answer(self) -> None:
        """Wait while the store is frozen. The lock must be held."""
        while self._store.is_frozen and not self._store.is_lost and not self._is_closed:
            self._store.changed.wait()
        if self._is_closed:
            raise ChannelLost("This connection between the ranks was closed.")
        if self._store.is_lost:
            raise ChannelLost("The store between the ranks does not answer.")


class _Store:
    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.changed = threading.Condition()
        self.is_lost = False
        self.is_frozen = False
