"""Notice that something is being written below a folder, while it is being written.

On Linux the kernel tells at once (inotify); elsewhere the folder is looked through again and again.
A watch misses what happens beyond its limits; it never fails the drill.
"""

import contextlib
import ctypes
import os
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

FOLDERS_MAX = 8192
_FILES_MAX = 20_000

_CREATE, _MODIFY, _MOVED_TO, _IS_FOLDER = 0x100, 0x2, 0x80, 0x40000000
_NON_BLOCKING = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_HEADER = struct.Struct("iIII")
_READ_BYTES = 64 * 1024
_READS_MAX = 32


class Watch(Protocol):
    """`fd` becomes readable at a change; None means that one has to ask."""

    @property
    def fd(self) -> int | None: ...

    def changes(self) -> list[str]:
        """The files that were made or written to since the last call, relative to the folder."""
        ...

    def close(self) -> None: ...


def watch(folder: Path) -> Watch:
    """A watch over everything below the folder, from now on."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            return _Inotify(folder)
    return _Scan(folder)


class _Inotify:
    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._folder = folder
        self._folders: dict[int, str] = {}
        fd: int = self._library.inotify_init1(_NON_BLOCKING)
        if fd < 0:
            raise OSError(ctypes.get_errno(), "inotify_init1")
        self._fd = fd
        if not self._add(""):
            os.close(fd)
            raise OSError(ctypes.get_errno(), "inotify_add_watch")
        for _ in self._add_below(""):
            pass

    @property
    def fd(self) -> int:
        return self._fd

    def changes(self) -> list[str]:
        found: dict[str, None] = {}
        # Bounded, because a program can write faster than we read.
        for _ in range(_READS_MAX):
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                break
            for watched, mask, name in _events(data):
                path = os.path.join(self._folders.get(watched, ""), name)  # noqa: PTH118 - text
                if not mask & _IS_FOLDER:
                    found[path] = None
                elif mask & (_CREATE | _MOVED_TO) and self._add(path):
                    # Files may have come before the watch did.
                    found.update(dict.fromkeys(self._add_below(path)))
        return list(found)

    def close(self) -> None:
        os.close(self._fd)

    def _add(self, path: str) -> bool:
        if len(self._folders) >= FOLDERS_MAX:
            return False
        whole = os.fsencode(self._folder / path)
        number: int = self._library.inotify_add_watch(
            self._fd, whole, _CREATE | _MODIFY | _MOVED_TO
        )
        if number >= 0:
            self._folders[number] = path
        return number >= 0

    def _add_below(self, path: str) -> Iterator[str]:
        """Watch the folders below, and yield the files there are already."""
        with contextlib.suppress(OSError), os.scandir(self._folder / path) as entries:
            for entry in entries:
                below = os.path.join(path, entry.name)  # noqa: PTH118 - text
                if not entry.is_dir(follow_symlinks=False):
                    yield below
                elif self._add(below):
                    yield from self._add_below(below)


def _events(data: bytes) -> Iterator[tuple[int, int, str]]:
    offset = 0
    while offset + _HEADER.size <= len(data):
        watched, mask, _, length = _HEADER.unpack_from(data, offset)
        offset += _HEADER.size
        name = data[offset : offset + length].rstrip(b"\0")
        offset += length
        if name:
            yield watched, mask, os.fsdecode(name)


class _Scan:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._seen = dict(self._files())

    @property
    def fd(self) -> None:
        return None

    def changes(self) -> list[str]:
        now = dict(self._files())
        before, self._seen = self._seen, now
        return [path for path, stamp in now.items() if before.get(path) != stamp]

    def close(self) -> None:
        self._seen.clear()

    def _files(self) -> Iterator[tuple[str, tuple[int, int]]]:
        count = 0
        for root, _, names in os.walk(self._folder):
            for name in names:
                count += 1
                if count > _FILES_MAX:
                    return
                path = Path(root, name)
                with contextlib.suppress(OSError):
                    stat = path.lstat()
                    yield str(path.relative_to(self._folder)), (stat.st_mtime_ns, stat.st_size)
