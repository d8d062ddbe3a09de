"""Items on their way into a queue, kept in a file without a name until all are known to be good.

It takes any number of items in little memory, keeps their order, and knows a key that comes again.
If killed: nothing is left behind, because the file has no name.
"""

import sqlite3
from collections.abc import Iterator

from outlast.cli.sources import Bad, Sourced
from outlast.queue.items import Item

_CACHE_KIB = 16 * 1024


class Spool:
    def __init__(self) -> None:
        # The empty name means a file that SQLite makes in the folder for such, already deleted.
        self._database = sqlite3.connect("", isolation_level=None)
        self._database.executescript(
            f"""
            PRAGMA journal_mode = OFF;
            PRAGMA synchronous = OFF;
            PRAGMA cache_size = -{_CACHE_KIB};
            CREATE TABLE items (
                number INTEGER PRIMARY KEY, key TEXT UNIQUE, payload TEXT, place TEXT
            );
            BEGIN;
            """
        )
        self.repeated = 0

    def __len__(self) -> int:
        [(count,)] = self._database.execute("SELECT count(*) FROM items")
        return int(count)

    def add(self, sourced: Sourced) -> Bad | None:
        """Keep an item. One that was there is counted, or bad if it was another under its key."""
        where, item = sourced
        added = self._database.execute(
            "INSERT OR IGNORE INTO items (key, payload, place) VALUES (?, ?, ?)",
            (item.key, item.payload, where),
        )
        if added.rowcount == 1:
            return None
        [(payload, place)] = self._database.execute(
            "SELECT payload, place FROM items WHERE key = ?", (item.key,)
        )
        if payload != item.payload:
            return Bad(
                where, f"The key {item.key!r:.100} was at {place} already, with other content."
            )
        self.repeated += 1
        return None

    def batches(self, *, items_max: int, characters_max: int) -> Iterator[list[Item]]:
        """All items, in the order they came, not too many and not too long at a time."""
        batch: list[Item] = []
        characters = 0
        for row in self._database.execute("SELECT key, payload FROM items ORDER BY number"):
            item = Item(*row)
            if batch and (
                len(batch) == items_max or characters + len(item.payload) > characters_max
            ):
                yield batch
                batch, characters = [], 0
            batch.append(item)
            characters += len(item.payload)
        if batch:
            yield batch

    def close(self) -> None:
        self._database.close()
