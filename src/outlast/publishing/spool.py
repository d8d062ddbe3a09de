"""Keep items in an unnamed temporary file until all of them are checked.

It holds any number of items in little memory, keeps their order, and detects repeated keys. If
killed: nothing is left, because the file has no name.
"""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from outlast._base.terminal import escaped
from outlast.errors import OutlastError
from outlast.publishing.sources import RejectedItem, SourcedItem
from outlast.queue.items import Item

_CACHE_KIB = 16 * 1024
_SCHEMA = f"""
PRAGMA journal_mode = OFF;
PRAGMA synchronous = OFF;
PRAGMA cache_size = -{_CACHE_KIB};
CREATE TABLE items (number INTEGER PRIMARY KEY, key TEXT UNIQUE, payload TEXT, place TEXT);
BEGIN;
"""


class SpoolFailed(OutlastError):
    """The items could not be kept in a temporary file."""

    exit_code = 3


class ItemSpool:
    def __init__(self) -> None:
        # The empty name stands for a temporary file that SQLite creates and unlinks at once.
        self._database = sqlite3.connect("", isolation_level=None)
        try:
            self._database.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            raise _failed(error) from error
        self.repeated = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sourced: SourcedItem) -> RejectedItem | None:
        """Keep an item. A repeated one is counted, or rejected if its content differs."""
        try:
            return self._add(sourced.where, sourced.item)
        except sqlite3.DatabaseError as error:
            raise _failed(error) from error

    def _add(self, where: str, item: Item) -> RejectedItem | None:
        added = self._database.execute(
            "INSERT OR IGNORE INTO items (key, payload, place) VALUES (?, ?, ?)",
            # A file name need not be valid text.
            (item.key, item.payload, escaped(where, keep="")),
        )
        if added.rowcount == 1:
            self._count += 1
            return None
        [(payload, place)] = self._database.execute(
            "SELECT payload, place FROM items WHERE key = ?", (item.key,)
        )
        if payload != item.payload:
            return RejectedItem(
                where,
                f"The key {item.key!r:.100} is already used at {place} for different content. "
                "Give each item a unique key.",
            )
        self.repeated += 1
        return None

    def items(self) -> Iterator[Item]:
        """All items, in the order in which they were added."""
        try:
            for row in self._database.execute("SELECT key, payload FROM items ORDER BY number"):
                yield Item(*row)
        except sqlite3.DatabaseError as error:
            raise _failed(error, so="") from error

    def close(self) -> None:
        self._database.close()


def _failed(error: sqlite3.DatabaseError, so: str = " Nothing was published.") -> SpoolFailed:
    return SpoolFailed(
        f"Could not write items to a temporary file in {_temporary_folder()!r}: {error}.{so}",
        hint="Free some space there, or set SQLITE_TMPDIR to a folder with more space.",
    )


def _temporary_folder() -> str:
    """The folder where SQLite creates its temporary files, by its own rules."""
    named = [os.environ.get("SQLITE_TMPDIR"), os.environ.get("TMPDIR")]
    for folder in (*named, "/var/tmp", "/usr/tmp", "/tmp"):
        if folder and Path(folder).is_dir() and os.access(folder, os.W_OK | os.X_OK):
            return folder
    return "."
