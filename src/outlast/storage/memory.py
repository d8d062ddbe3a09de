"""A store in memory, for tests. Each `memory://name` URL opens the same store."""

import itertools
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from urllib.parse import urlsplit

from outlast.storage.errors import AlreadyExists, NotFound, TooShort
from outlast.storage.limits import ROUTINE, Limits
from outlast.storage.protocol import (
    AccessPattern,
    Buffer,
    StoreEntry,
    byte_views,
    check_name,
    folder_of,
    total_bytes,
    writable_views,
)

_SHARED: "dict[str, MemoryStore]" = {}
_SHARED_LOCK = threading.Lock()
_NUMBERS = itertools.count(1)


class MemoryStore:
    """Keeps objects until the process ends. Without a name, it is not shared."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or f"unnamed-{next(_NUMBERS)}"
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, datetime]] = {}

    @classmethod
    def open(cls, url: str) -> "MemoryStore":
        split = urlsplit(url)
        name = split.netloc + split.path
        with _SHARED_LOCK:
            return _SHARED.setdefault(name, cls(name or "default"))

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    @property
    def access(self) -> AccessPattern:
        return AccessPattern(read_bytes=1, reads_at_once=2, creates_at_once=1)

    def create(self, name: str, parts: Sequence[Buffer], *, limits: Limits = ROUTINE) -> None:
        check_name(name)
        data = b"".join(byte_views(parts))
        with self._lock:
            if name in self._objects:
                raise AlreadyExists(f"{name!r} already exists in {self.url}.", name=name)
            self._objects[name] = (data, datetime.now(UTC))

    def read(
        self, name: str, *, start: int = 0, length: int | None = None, limits: Limits = ROUTINE
    ) -> bytes:
        data = self._data(name)
        return data[start:] if length is None else data[start : start + length]

    def read_into(
        self, name: str, *buffers: Buffer, start: int = 0, limits: Limits = ROUTINE
    ) -> None:
        views = writable_views(buffers)
        found = memoryview(self._data(name))[start:]
        if (missing := total_bytes(views) - len(found)) > 0:
            raise TooShort(f"{name!r} in {self.url} is {missing} bytes too short.", name=name)
        for view in views:
            view[:] = found[: len(view)]
            found = found[len(view) :]

    def list(self, prefix: str = "", *, limits: Limits = ROUTINE) -> list[StoreEntry]:
        folder_of(prefix)
        with self._lock:
            objects = sorted(self._objects.items())
        return [
            StoreEntry(name=name, size_bytes=len(data), modified=modified)
            for name, (data, modified) in objects
            if name.startswith(prefix)
        ]

    def delete(self, names: Iterable[str], *, limits: Limits = ROUTINE) -> None:
        for name in names:
            check_name(name)
            with self._lock:
                self._objects.pop(name, None)

    def _data(self, name: str) -> bytes:
        check_name(name)
        with self._lock:
            try:
                return self._objects[name][0]
            except KeyError:
                raise NotFound(f"{name!r} does not exist in {self.url}.", name=name) from None
