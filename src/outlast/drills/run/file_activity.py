"""What an attempt did with the files in the folder of the run: which it wrote, which it read.

The kernel counts (inotify), so a busy machine loses nothing. Where there is no inotify, or it
overflowed, or two attempts ran at the same time, the activity is unknown.
"""

import contextlib
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from outlast.drills.run.folder_watch import (
    ACCESS,
    CLOSE_NOWRITE,
    CLOSE_WRITE,
    CREATE,
    DELETE,
    MODIFY,
    MOVED_TO,
    OPEN,
    FolderEvents,
    is_bookkeeping,
)

_MASK = ACCESS | CLOSE_NOWRITE | CLOSE_WRITE | CREATE | DELETE | MODIFY | MOVED_TO | OPEN
_PATHS_MAX = 5000
_CACHES = frozenset({"__pycache__", ".git"})


@dataclass(frozen=True, kw_only=True, slots=True)
class FileActivity:
    """Paths are relative to the folder of the run.

    `found` are the files of earlier attempts that existed when it started. `written` is how often
    each file was written or renamed to its name, `touched` what it changed in any way, `left` what
    of that existed at its end, and `read` what it read or may have read.
    """

    found: frozenset[str] = frozenset()
    left: frozenset[str] = frozenset()
    written: Mapping[str, int]
    touched: frozenset[str] = frozenset()
    read: frozenset[str] = frozenset()


class FileActivityRecorder:
    """Records the activity of one attempt at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._events: FolderEvents | None = None
        if sys.platform == "linux":
            with contextlib.suppress(OSError, AttributeError):
                self._events = FolderEvents(folder, _MASK)
        self._earlier: set[str] = set()
        self._is_known = True
        self._found: frozenset[str] = frozenset()
        self._clear()

    def begin(self, *, alone: bool) -> None:
        """An attempt starts; `alone` means that no other one is running."""
        self.collect()
        if alone:
            self._clear()
            self._found = frozenset(self._existing(self._earlier))
            self._is_known = True
        else:
            self._is_known = False

    def collect(self) -> None:
        """Take over what the kernel has counted so far."""
        if self._events is None:
            return
        for path, mask in self._events.read():
            if len(self._seen) >= _PATHS_MAX and path not in self._seen:
                self._is_known = False
            elif not is_bookkeeping(path) and not _CACHES & set(Path(path).parts):
                self._seen[path] = self._seen.get(path, 0) | mask
                self._written[path] += bool(mask & (CLOSE_WRITE | MOVED_TO))
        if self._events.overflowed:
            self._is_known = False

    def end(self) -> FileActivity | None:
        """The activity of the attempt that just ended; None if unknown."""
        self.collect()
        changed = CLOSE_WRITE | CREATE | DELETE | MODIFY | MOVED_TO
        touched = frozenset(path for path, mask in self._seen.items() if mask & changed)
        self._earlier |= touched
        if self._events is None or not self._is_known:
            return None
        return FileActivity(
            found=self._found,
            left=frozenset(self._existing(touched)),
            written={path: count for path, count in self._written.items() if count},
            touched=touched,
            read=frozenset(path for path, mask in self._seen.items() if _may_have_read(mask)),
        )

    def close(self) -> None:
        if self._events is not None:
            self._events.close()

    def _clear(self) -> None:
        self._seen: dict[str, int] = {}
        self._written: Counter[str] = Counter()

    def _existing(self, paths: Iterable[str]) -> list[str]:
        return [path for path in paths if (self._folder / path).exists()]


def _may_have_read(mask: int) -> bool:
    """A file that is mapped into memory is opened without being read, so that counts too."""
    opened_only = mask & OPEN and not mask & (MODIFY | CREATE)
    return bool(mask & (ACCESS | CLOSE_NOWRITE) or opened_only)


def group_of(path: str) -> str:
    """The name of a file without its numbers: `checkpoint-500.pt` is one of `checkpoint-#.pt`.

    SQLite keeps the database open and writes a second file for every transaction.
    """
    return re.sub(r"\d+", "#", re.sub(r"-(journal|wal)$", "", path))
