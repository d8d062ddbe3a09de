"""The protocol of a store, and what all stores share: names, buffers, and the commit.

A store holds immutable objects by name. There is no overwriting, appending or renaming: `create` is
the only commit, and it raises an error for all but one process in a race.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from outlast.storage.errors import (
    AlreadyExists,
    BadName,
    NotFound,
    StorageError,
    StorageTimeout,
    StoreUnavailable,
)
from outlast.storage.limits import ROUTINE, Countdown, Limits

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Contiguous memory. A memoryview may have any format and shape: its bytes are used."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoreEntry:
    """An object in a listing. `modified` is in UTC, by the clock of the store."""

    name: str
    size_bytes: int
    modified: datetime


@dataclass(frozen=True, kw_only=True, slots=True)
class AccessPattern:
    """How a store is used fastest. A transfer needs memory for `reads_at_once` reads."""

    read_bytes: int
    """Up to how many bytes to combine smaller reads that are next to each other."""
    reads_at_once: int
    creates_at_once: int
    """How many large objects to write at the same time."""
    first_create_bytes: int | None = None
    """How large the first of several objects is best, each next one up to twice as large; None if
    it may be as large as any. Until the first one is hashed, the store has nothing to do."""


class Store(Protocol):
    """Safe to use from many threads. Every call raises a `StorageError` when it fails."""

    @property
    def url(self) -> str:
        """The URL with which `open_store` opens this store again, without secrets."""
        ...

    @property
    def access(self) -> AccessPattern: ...

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        """Write one object that consists of `parts`. On return, it is durable and listed.

        Raises `AlreadyExists` if the name is taken. The parts must not change during the call.
        After `StorageTimeout` or `StoreUnavailable`, the object may or may not exist: see
        `create_or_confirm`.

        If killed: the object is complete, or neither listed nor readable.
        """
        ...

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        """The bytes of an object in a range; fewer if the object ends earlier, like a slice.

        Raises `NotFound` if there is no such object, and `Unreadable` if it alone cannot be read.
        """
        ...

    def read_into(
        self, name: str, *buffers: Buffer, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        """Fill writable buffers, one after the other, with the bytes from `start` on.

        Raises `NotFound`, `Unreadable`, or `TooShort` if the object ends before they are full.
        After an error, the content of the buffers is undefined, and nothing writes to them anymore.
        """
        ...

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[StoreEntry]:
        """All complete objects whose names start with `prefix`, sorted by name."""
        ...

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        """Delete objects. Names that do not exist are ignored.

        If killed: some objects are deleted, and the others are complete.
        """
        ...


def byte_views(parts: Sequence[Buffer]) -> list[memoryview]:
    """The parts as flat views of bytes, without empty ones."""
    if isinstance(parts, bytes | bytearray | memoryview | str):
        raise TypeError("Expected a sequence of buffers: put a single buffer in a list.")
    return [_flat(view) for part in parts if (view := memoryview(part)).nbytes]


def writable_views(buffers: Sequence[Buffer]) -> list[memoryview]:
    """The buffers as flat, writable views of bytes, without empty ones."""
    return [view for view in map(writable_view, buffers) if len(view)]


def writable_view(buffer: Buffer) -> memoryview:
    """The buffer as a flat, writable view of bytes."""
    view = memoryview(buffer)
    if view.readonly:
        raise TypeError("The buffer to read into must be writable.")
    return _flat(view) if view.nbytes else memoryview(bytearray())


def total_bytes(views: Sequence[memoryview]) -> int:
    return sum(view.nbytes for view in views)


def _flat(view: memoryview) -> memoryview:
    if not view.c_contiguous:
        raise TypeError("Only contiguous memory can be stored.")
    return view.cast("B")


NAME_CHARACTERS_MAX = 600
PART_CHARACTERS_MAX = 200

_PART = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")
_PREFIX = re.compile(r"[A-Za-z0-9._/-]*")


def check_name(name: str) -> None:
    """Raise `BadName` unless `name` is a valid object name.

    The same name must work as a path on any file system and as a key in any object store, and must
    not lead out of the store. Hidden parts are refused because stores keep their own files there.
    """
    if not is_name(name):
        raise BadName(
            f"{name!r} is not a valid object name.",
            hint="Use letters, digits, '.', '_' and '-', in parts separated by '/' that do not "
            "start with a dot.",
            name=name,
        )


def is_name(name: str) -> bool:
    return len(name) <= NAME_CHARACTERS_MAX and all(
        len(part) <= PART_CHARACTERS_MAX and _PART.fullmatch(part) for part in name.split("/")
    )


def folder_of(prefix: str) -> str:
    """The deepest folder that contains all names with this prefix; empty for the top."""
    folder, slash, _ = prefix.rpartition("/")
    if not _PREFIX.fullmatch(prefix) or (slash and not is_name(folder)):
        raise BadName(
            f"{prefix!r} is not a valid prefix of object names.",
            hint="Use the start of a name, such as 'manifests/'.",
            name=prefix,
        )
    return folder


def create_or_confirm(store: Store, name: str, data: bytes, *, limits: Limits = ROUTINE) -> None:
    """Create `name`, or confirm that it already contains exactly these bytes.

    A server may respond with 503 after a successful write, or the connection may break before the
    response arrives; a retry then finds that the object exists. So `data` must contain something
    unique to this writer, such as a save id: equal bytes then mean that the write was ours. Raises
    `AlreadyExists` if it was not.

    If killed: the object is complete, or does not exist.
    """
    countdown = Countdown(limits, f"Trying to commit {name!r} in {store.url}")
    try:
        store.create(name, [data], limits=limits)
    except (AlreadyExists, StoreUnavailable, StorageTimeout) as error:
        if not _holds(store, name, data, countdown, error):
            raise


def _holds(store: Store, name: str, data: bytes, countdown: Countdown, first: StorageError) -> bool:
    try:
        found = store.read(name, length=len(data) + 1, limits=countdown.limits_left())
    except NotFound:
        return False
    except StorageError:
        # A second failure adds nothing to the first one.
        if not isinstance(first, AlreadyExists):
            return False
        raise
    return found == data
