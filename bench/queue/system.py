"""What a queue under measurement looks like."""

from collections.abc import Iterator
from typing import Protocol

PAYLOAD = '"' + "x" * 98 + '"'
"""100 bytes of JSON, for items and results alike."""


class Puller(Protocol):
    """One consumer. It holds a chunk between two steps."""

    def step(self, chunk: int) -> int:
        """Store the results of the chunk held, acknowledge it and claim the next: its size."""

    def close(self) -> None: ...


class System(Protocol):
    """`database` is a folder, or the address of a database, that is empty at the start."""

    name: str
    knows_chunks: bool

    def is_installed(self) -> bool: ...

    def fill(self, place: str, count: int) -> None: ...

    def open(self, place: str) -> Puller: ...


def numbered(count: int) -> Iterator[tuple[str, str]]:
    return ((f"item-{number:09}", PAYLOAD) for number in range(count))
