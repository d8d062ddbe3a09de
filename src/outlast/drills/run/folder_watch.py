"""Detect saves from outside, by watching for writes in the folder of a run.

On Linux the kernel reports them at once (inotify); elsewhere the folder is scanned repeatedly. A
watch misses changes beyond its limits; it never fails the drill.
"""

import contextlib
import ctypes
import math
import os
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from outlast.drills.run.records import Save

QUIET_SECONDS = 0.25
"""A save is over when nothing has been written for this long."""

_RECENT_SECONDS = 1.0
_RECENT_MAX = 5
_SAVES_MAX = 20_000
_PATHS_MAX = 10_000
FOLDERS_MAX = 8192
_FILES_MAX = 20_000

ACCESS, MODIFY, CLOSE_WRITE, CLOSE_NOWRITE, OPEN = 0x1, 0x2, 0x8, 0x10, 0x20
MOVED_TO, CREATE, DELETE = 0x80, 0x100, 0x200
_OVERFLOW, _IS_FOLDER = 0x4000, 0x40000000
_NON_BLOCKING = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_HEADER = struct.Struct("iIII")
_READ_BYTES = 64 * 1024
_READS_MAX = 32


class SaveDetector:
    """Remembers the last change of each file. `on_save` is called when a save starts."""

    def __init__(self, folder: Path, on_save: Callable[[str], None], *, began: float) -> None:
        self._watch = watch_folder(folder)
        self._on_save = on_save
        self._began = began
        self._last: dict[str, float] = {}
        self._saved_at = -math.inf
        self.saves: list[Save] = []
        self.found_any = False
        """Whether the last look found any change, including one of a journal."""

    @property
    def fd(self) -> int | None:
        return self._watch.fd

    def look(self, *, now: float) -> bool:
        """Read the changes. Returns whether any of them belongs to a save."""
        paths = self._watch.changes()
        saved = [path for path in paths if not is_bookkeeping(path)]
        for path in saved:
            if path in self._last or len(self._last) < _PATHS_MAX:
                self._last[path] = now
        if saved:
            self._note(saved[0], now)
        self.found_any = bool(paths)
        return bool(saved)

    def recent(self, *, now: float) -> tuple[str, ...]:
        """The files written last, newest first."""
        fresh = {path: at for path, at in self._last.items() if now - at < _RECENT_SECONDS}
        return tuple(sorted(fresh, key=lambda path: -fresh[path])[:_RECENT_MAX])

    def close(self) -> None:
        self._watch.close()

    def _note(self, path: str, now: float) -> None:
        at_seconds = now - self._began
        if now - self._saved_at <= QUIET_SECONDS:
            last = self.saves[-1]
            self.saves[-1] = replace(last, lasted_seconds=at_seconds - last.at_seconds)
        elif len(self.saves) < _SAVES_MAX:
            self.saves.append(Save(at_seconds=at_seconds, path=path))
            self._on_save(path)
        else:
            return
        self._saved_at = now


class FolderWatch(Protocol):
    """`fd` becomes readable at a change; None means that the caller has to poll."""

    @property
    def fd(self) -> int | None: ...

    def changes(self) -> list[str]:
        """The files created or written since the last call, relative to the folder."""
        ...

    def close(self) -> None: ...


def watch_folder(folder: Path) -> FolderWatch:
    """Watch everything below the folder from now on."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            return _Inotify(folder)
    return _Scan(folder)


class FolderEvents:
    """The events of the kernel for everything below a folder, from now on. Linux only.

    `overflowed` means that events were lost. Raises `OSError` if the folder cannot be watched.
    """

    def __init__(self, folder: Path, mask: int) -> None:
        self._library = ctypes.CDLL(None, use_errno=True)
        self._folder = folder
        self._mask = mask
        self._folders: dict[int, str] = {}
        self.overflowed = False
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

    def read(self) -> Iterator[tuple[str, int]]:
        """The files since the last call, with what happened to them, in order."""
        # Bounded, because a program can write faster than this reads.
        for _ in range(_READS_MAX):
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                return
            for watched, mask, name in _events(data):
                self.overflowed = self.overflowed or bool(mask & _OVERFLOW)
                path = os.path.join(self._folders.get(watched, ""), name)  # noqa: PTH118 - text
                if not name:
                    continue
                if not mask & _IS_FOLDER:
                    yield path, mask
                elif mask & (CREATE | MOVED_TO) and self._add(path):
                    # Files may have been created before the watch.
                    yield from ((below, CREATE | CLOSE_WRITE) for below in self._add_below(path))

    def close(self) -> None:
        os.close(self._fd)

    def _add(self, path: str) -> bool:
        if len(self._folders) >= FOLDERS_MAX:
            self.overflowed = True
            return False
        full = os.fsencode(self._folder / path)
        number: int = self._library.inotify_add_watch(self._fd, full, self._mask)
        if number >= 0:
            self._folders[number] = path
        return number >= 0

    def _add_below(self, path: str) -> Iterator[str]:
        """Watch the folders below, and yield the files that exist already."""
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
        yield watched, mask, os.fsdecode(name)


class _Inotify:
    def __init__(self, folder: Path) -> None:
        self._events = FolderEvents(folder, CREATE | MODIFY | MOVED_TO)

    @property
    def fd(self) -> int:
        return self._events.fd

    def changes(self) -> list[str]:
        return list(dict.fromkeys(path for path, _ in self._events.read()))

    def close(self) -> None:
        self._events.close()


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


def is_bookkeeping(path: str) -> bool:
    """Whether it is not part of a save: this library's journal, SQLite's shared memory."""
    return "journal" in Path(path).parts[:-1] or path.endswith("-shm")
