"""The protocol of the channel between ranks: small values by key, shared by all of one world.

A key keeps the value that it was given first, except the heartbeats. Nothing is ever deleted. The
values end with the processes, so a kill leaves nothing behind.
"""

from collections.abc import Sequence
from typing import Protocol


class Channel(Protocol):
    """One connection to the values that all ranks share. Each thread needs its own.

    Every method raises `ChannelLost` if the store is gone or the connection was closed. A store
    that is frozen answers neither way: a call then takes until `close`, from another thread, ends
    it. So no thread that has a deadline may call these methods itself.
    """

    def set(self, key: str, value: bytes) -> None:
        """Set the value, and return once all ranks can see it."""
        ...

    def get(self, key: str) -> bytes | None:
        """The value, or None if it is not set. Never waits for it."""
        ...

    def wait(self, keys: Sequence[str], seconds: float) -> bool:
        """Wait until all these keys are set. False if that takes longer than `seconds`."""
        ...

    def claim(self, key: str, value: bytes) -> bytes:
        """Set the value if the key has none. Returns the value that the key has for all ranks.

        The value must not be empty.
        """
        ...

    def connect(self) -> "Channel":
        """Another connection to the same values, for another thread."""
        ...

    def close(self) -> None:
        """Close this connection. A call in progress in another thread raises `ChannelLost`."""
        ...
