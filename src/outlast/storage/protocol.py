"""The one seam between Outlast and where bytes are kept.

A store holds immutable objects under names. There is no overwriting, no appending and no rename:
`create` is the only commit, and whoever loses a race is told.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from outlast.storage.limits import ROUTINE, Limits

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Contiguous memory. Of a memoryview, any format and shape will do: its bytes are taken."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """An object as a listing shows it. `modified` is in UTC, by the clock of the store."""

    name: str
    size_bytes: int
    modified: datetime


class Store(Protocol):
    """Safe to use from many threads. Every call raises a `StorageError` when it fails."""

    @property
    def url(self) -> str:
        """What `open_store` takes to open this store again, without any secret."""
        ...

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        """Write one object from `parts`, end to end; on return it is durable and listed.

        Raises `AlreadyExists` if the name is taken. The parts must not change meanwhile. After
        `StorageTimeout` or `StoreUnavailable` it may or may not exist: see `create_or_confirm`.

        If killed: the object is there whole, or neither listed nor readable.
        """
        ...

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        """The bytes of an object in a range, fewer where the object ends, as with a slice.

        Raises `NotFound` if there is no such object.
        """
        ...

    def read_into(
        self, name: str, buffer: Buffer, *, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        """Fill a writable buffer with the bytes from `start` on, without holding them twice.

        Raises `NotFound`, or `TooShort` if the object ends before the buffer is full. After an
        error, what the buffer holds is not defined, and nothing writes to it any more.
        """
        ...

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[Entry]:
        """All whole objects whose names start with `prefix`, sorted by name."""
        ...

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        """Remove objects. A name that is not there is fine.

        If killed: some are gone, each one whole or not at all.
        """
        ...
