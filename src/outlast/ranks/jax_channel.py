"""The channel over the key-value store of jax.distributed, which the program has initialized."""

import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from outlast.ranks.errors import ChannelLost

# Waits cannot be ended from outside. This is how long closing a connection may take.
_SLICE_SECONDS = 0.5
_ABSENT = "NOT_FOUND"
_TAKEN = "ALREADY_EXISTS"
_LATE = "DEADLINE_EXCEEDED"


def open_jax_channel(name: str) -> "JaxChannel":
    """A channel over the coordination service of jax.distributed."""
    return JaxChannel(sys.modules["jax._src.distributed"].global_state.client, name)


class JaxChannel:
    """A `Channel` over the client of jax.distributed, which any number of threads may use."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name
        self._closed = threading.Event()

    def set(self, key: str, value: bytes) -> None:
        self._call(
            lambda: self._client.key_value_set_bytes(self._path(key), value, allow_overwrite=True)
        )

    def get(self, key: str) -> bytes | None:
        found = self._call(
            lambda: self._client.key_value_try_get_bytes(self._path(key)), without=_ABSENT
        )
        return None if found is None else bytes(found)

    def wait(self, keys: Sequence[str], seconds: float) -> bool:
        give_up_at = time.monotonic() + seconds
        return all(self._wait_for(key, give_up_at) for key in keys)

    def claim(self, key: str, value: bytes) -> bytes:
        if not value:
            raise ValueError("A claim needs a value.")
        self._call(lambda: self._client.key_value_set_bytes(self._path(key), value), without=_TAKEN)
        winner = self.get(key)
        assert winner is not None, "A key that is set is never deleted."
        return winner

    def connect(self) -> "JaxChannel":
        return JaxChannel(self._client, self._name)

    def close(self) -> None:
        self._closed.set()

    def _wait_for(self, key: str, give_up_at: float) -> bool:
        while True:
            left_seconds = give_up_at - time.monotonic()
            limit = math.ceil(max(0.001, min(left_seconds, _SLICE_SECONDS)) * 1000)
            get = partial(self._client.blocking_key_value_get_bytes, self._path(key), limit)
            found = self._call(get, without=_LATE)
            if found is not None:
                return True
            if left_seconds <= 0:
                return False

    def _path(self, key: str) -> str:
        return f"{self._name}/{key}"

    def _call(self, act: Callable[[], Any], *, without: str | None = None) -> Any:
        """The result; None if the call failed only `without` a value, or because there is one."""
        if self._closed.is_set():
            raise ChannelLost("This connection between the ranks was closed.")
        try:
            return act()
        except Exception as error:
            if without is not None and without in str(error):
                return None
            raise ChannelLost(
                "The store between the ranks does not answer.",
                hint="It runs in the process that jax.distributed calls the coordinator.",
            ) from error
