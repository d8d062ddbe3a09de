"""A queue in a SQLite file: the embedded default, for all processes on one machine.

Leases and delays use the machine's uptime, not the wall clock, and after a reboot every lease has
expired. Only the age shown by `stats` uses the wall clock.
"""

import itertools
import json
import sqlite3
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing

from outlast._base.batches import batched, text_bytes
from outlast._base.uptime import boot_id, uptime_seconds
from outlast.databases.sqlite import (
    DamagedRow,
    SQLiteFile,
    as_integer,
    as_seconds,
    as_text,
    path_of,
)
from outlast.queue.errors import ItemRefused, QueueUnavailable, QueueUrlError
from outlast.queue.items import (
    DeadLetter,
    Item,
    Lease,
    LeaseTerms,
    Publishable,
    Published,
    QueueStats,
    Settlement,
    as_items,
)
from outlast.queue.protocol import QueueGuarantees, StoreInTransaction
from outlast.queue.sqlite.schema import (
    FIND_DAMAGE,
    FORMAT,
    READY,
    SCHEMA,
    TABLE_MADE_LAST,
    UPGRADES,
)
from outlast.queue.sqlite.transaction import RequestTimes, Transaction, read_throughput
from outlast.queue.throughput import Throughput

_PUBLISH_CACHE_KIB = 65_536
_PAGE_ITEMS = 10_000
# Items that are published within this time may share a range and its time of publishing.
_JOINED_SECONDS = 1.0
# SQLite's limit for a row, minus what it adds to one.
_ITEM_BYTES_MAX = 999_990_000


class SQLiteQueue:
    """The queue in `sqlite:///file`. The file is created if it does not exist; its folder is not.

    `clock` returns the seconds since boot, and `boot` identifies that boot.
    """

    guarantees = QueueGuarantees(exact_counts=True, dedupes_keys=True)

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] = uptime_seconds,
        boot: str | None = None,
    ) -> None:
        if "#" in url:
            raise QueueUrlError(
                f"The queue URL {url!r} names a table, but queues use their own tables.",
                hint="Remove the part after '#'. Only the URL of a sink can name a table.",
            )
        self._url = url
        self._clock = clock
        self._boot = boot_id() if boot is None else boot
        self._file = SQLiteFile(
            path_of(url, refused=QueueUrlError),
            schema=SCHEMA,
            table=TABLE_MADE_LAST,
            unavailable=QueueUnavailable,
        )
        try:
            self._upgrade()
            self._check_format()
            self._check_rows()
        except BaseException:
            self.close()
            raise

    @property
    def url(self) -> str:
        return self._url

    @property
    def database(self) -> str:
        return self._file.database

    def publish(self, items: Publishable) -> Published:
        """Add all items or none. If killed: all or none of them were added.

        Items are first collected in a temporary table, on disk if there are many, so a slow source
        blocks no other process. Other processes wait only while the collected items are added: two
        seconds for a million items, or ten if their keys are not sorted.
        """
        with self._file.staging() as connection:
            connection.execute(f"PRAGMA cache_size = -{_PUBLISH_CACHE_KIB}")
            connection.execute("CREATE TEMP TABLE staged (key TEXT, payload TEXT)")
            connection.execute("BEGIN")
            connection.executemany(
                "INSERT INTO staged VALUES (?, ?)", map(self._row_of, as_items(items))
            )
            connection.execute("COMMIT")
            [given] = connection.execute("SELECT count(*) FROM staged").fetchone()
            with self._file.writing(connection):
                [found] = connection.execute(_LAST_NUMBER).fetchone()
                before = as_integer(found, "number")
                connection.execute(
                    "INSERT INTO outlast_items (key, payload) "
                    "SELECT key, payload FROM staged WHERE true ORDER BY rowid "
                    "ON CONFLICT (key) DO NOTHING"
                )
                [last] = connection.execute(_LAST_NUMBER).fetchone()
                if last > before:
                    self._make_ready(connection, before, last)
        return Published(added=last - before, known=given - (last - before))

    def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        """Lease up to `limit` ready items, oldest first. If killed: the lease expires.

        Like every method, it raises `QueueUnavailable` if the file cannot be used.
        """
        asked, sent = self._clock(), time.monotonic()
        with self._file.writing() as connection:
            work = Transaction(connection, RequestTimes(asked, self._clock()), boot=self._boot)
            work.reap(terms)
            lease = work.claim(limit, terms, expires=sent + terms.lease_seconds)
            work.finish()
        return lease

    def extend(self, lease: Lease, terms: LeaseTerms) -> Lease:
        """Extend the lease, or raise `LeaseLost`. If killed: it is unchanged or extended."""
        asked, sent = self._clock(), time.monotonic()
        with self._file.writing() as connection:
            times = RequestTimes(asked, self._clock())
            work = Transaction(connection, times, boot=self._boot, lease=lease.token)
            work.extend(times.now + terms.lease_seconds)
            work.finish()
        return lease._replace(expires=sent + terms.lease_seconds)

    def settle(
        self,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        *,
        storing: StoreInTransaction | None = None,
        claim: int = 0,
    ) -> Lease | None:
        """Acknowledge, fail, release, store and claim in one transaction, with one sync.

        If it raises `LeaseLost`, nothing happened. If killed: everything happened or nothing.
        """
        asked, sent = self._clock(), time.monotonic()
        following = None
        with self._file.writing() as connection:
            times = RequestTimes(asked, self._clock())
            work = Transaction(connection, times, boot=self._boot, lease=lease.token)
            work.settle(lease, settlement, terms)
            if storing is not None:
                storing(connection)
            if claim > 0:
                work.reap(terms)
                following = work.claim(claim, terms, expires=sent + terms.lease_seconds)
            work.finish()
        return following

    def stats(self) -> QueueStats:
        now = self._clock()
        with self._file.reading() as connection:
            row = connection.execute(_STATS, {"now": now}).fetchone()
            items, dead, ready, delayed, leased = (as_integer(n, "A count") for n in row[:5])
            oldest = None if row[5] is None else as_seconds(row[5], "published")
            throughput = read_throughput(row[6:])
        return QueueStats(
            ready=ready,
            delayed=delayed,
            leased=leased,
            done=items - ready - delayed - leased - dead,
            dead=dead,
            oldest_seconds=None if oldest is None else max(0.0, time.time() - oldest),
            done_per_second=throughput.per_second(now=now),
        )

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        return list(itertools.islice(self.iter_dead_letters(), limit))

    def iter_dead_letters(self) -> Generator[DeadLetter, None, None]:
        """All dead letters in publishing order, read in pages so that no other process waits."""
        last = 0
        while True:
            with (
                self._file.reading() as connection,
                closing(_dead_after(connection, last)) as found,
            ):
                page = next(batched(found, _dead_bytes, count_max=_PAGE_ITEMS), [])
            if not page:
                return
            yield from (letter for _, letter in page)
            last = page[-1][0]

    def retry_dead(
        self,
        keys: Sequence[str] | None = None,
        *,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> int:
        """Make dead letters ready again, in batches so that other processes wait only briefly.

        If killed: some are ready and the others still dead. Repeating it retries the rest.
        """
        batches = self._retry_all() if keys is None else self._retry_named(keys)
        count = 0
        for numbers in batches:
            count += len(numbers)
            on_progress(len(numbers))
        return count

    def check(self, item: Item) -> None:
        """Refuse items that are too large for SQLite."""
        size_bytes = text_bytes(item.key, item.payload)
        if size_bytes > _ITEM_BYTES_MAX:
            raise ItemRefused(
                f"Item {item.key!r:.200} has {size_bytes:,} bytes; SQLite allows at most "
                f"{_ITEM_BYTES_MAX:,}.",
                hint="Store large payloads in a bucket or in files, and publish their names.",
            )

    def close(self) -> None:
        self._file.close()

    def _make_ready(self, connection: sqlite3.Connection, before: int, last: int) -> None:
        """Make the items after `before` ready, in the range of those published just before them.

        Otherwise, millions of items that are published one by one would be as many ranges.
        """
        now = time.time()
        joined = connection.execute(_JOIN_READY, (last, before, now - _JOINED_SECONDS, now))
        if not joined.rowcount:
            connection.execute(_INSERT_READY, (before + 1, last, now))

    def _row_of(self, item: Item) -> tuple[str, str]:
        self.check(item)
        return item.key, item.payload

    def _retry_named(self, keys: Sequence[str]) -> Iterator[list[int]]:
        for start in range(0, len(keys), _PAGE_ITEMS):
            some = list(keys[start : start + _PAGE_ITEMS])
            yield self._retry(_DEAD_NAMED, json.dumps(some))

    def _retry_all(self) -> Iterator[list[int]]:
        # By number, so that an item that fails again in the meantime is not retried twice.
        last = 0
        while numbers := self._retry(_DEAD_AFTER, last):
            yield numbers
            last = numbers[-1]

    def _retry(self, chosen: str, given: str | int) -> list[int]:
        """Make the chosen dead letters ready. If killed: all or none of them."""
        with self._file.writing() as connection:
            rows = connection.execute(chosen, (given,)).fetchall()
            now = time.time()
            connection.executemany("DELETE FROM outlast_failures WHERE item = ?", rows)
            connection.executemany("DELETE FROM outlast_dead WHERE item = ?", rows)
            connection.executemany(_INSERT_READY, ((item, item, now) for (item,) in rows))
        return [item for (item,) in rows]

    def _upgrade(self) -> None:
        """Upgrade the tables of an older version. If killed: nothing changed."""
        if self._format() not in UPGRADES:
            return
        with self._file.writing() as connection:
            for _ in UPGRADES:
                # Read again, because another process may have upgraded it while this one waited.
                for statement in UPGRADES.get(self._format(), ()):
                    connection.execute(statement)

    def _format(self) -> int:
        with self._file.reading() as connection:
            [found] = connection.execute("SELECT format FROM outlast_queue").fetchone() or [None]
            return as_integer(found, "format")

    def _check_format(self) -> None:
        found = self._format()
        if found != FORMAT:
            raise QueueUnavailable(
                f"{self._url!r} has format {found}, but this version supports only {FORMAT}.",
                hint="It was created by a newer version. Run: pip install --upgrade outlast",
                permanent=True,
            )

    def _check_rows(self) -> None:
        with self._file.reading() as connection:
            found = connection.execute(FIND_DAMAGE).fetchone()
            if found is not None:
                raise DamagedRow(f"{found[0]} is out of range")


_LAST_NUMBER = "SELECT coalesce(max(number), 0) FROM outlast_items"

_JOIN_READY = (
    f"UPDATE outlast_runs SET last = ? WHERE lease = {READY} AND last = ? "
    "AND failures = 0 AND suspects = 0 AND published BETWEEN ? AND ?"
)
_INSERT_READY = (
    "INSERT INTO outlast_runs (first, last, published, lease, failures, suspects, until, worker) "
    f"VALUES (?, ?, ?, {READY}, 0, 0, 0, '')"
)

# One statement, so that all counts are from the same state of the file.
_STATS = f"""
SELECT ({_LAST_NUMBER}), (SELECT count(*) FROM outlast_dead), ready + due, later, leased,
    CASE WHEN oldest IS NULL OR oldest_later < oldest THEN oldest_later ELSE oldest END,
    {", ".join(Throughput._fields)}
FROM outlast_queue, (
    SELECT
        coalesce(sum((last - first + 1) * (lease = {READY})), 0) AS ready,
        coalesce(sum((last - first + 1) * (lease > {READY})), 0) AS leased,
        min(CASE WHEN lease = {READY} THEN published END) AS oldest
    FROM outlast_runs
), (
    SELECT
        coalesce(sum(due <= :now), 0) AS due,
        coalesce(sum(due > :now), 0) AS later,
        min(published) AS oldest_later
    FROM outlast_delayed
)
"""

_DEAD_LETTERS = """
SELECT dead.item, items.key, items.payload, dead.failures
FROM outlast_dead AS dead JOIN outlast_items AS items ON items.number = dead.item
WHERE dead.item > ? ORDER BY dead.item
"""
_ERRORS = "SELECT error FROM outlast_failures WHERE item = ? ORDER BY number"
_DEAD_AFTER = f"SELECT item FROM outlast_dead WHERE item > ? ORDER BY item LIMIT {_PAGE_ITEMS}"
_DEAD_NAMED = """
SELECT item FROM outlast_dead WHERE item IN (
    SELECT number FROM outlast_items WHERE key IN (SELECT value FROM json_each(?))
) ORDER BY item
"""


def _dead_after(
    connection: sqlite3.Connection, number: int
) -> Generator[tuple[int, DeadLetter], None, None]:
    with closing(connection.execute(_DEAD_LETTERS, (number,))) as rows:
        for number, key, payload, failures in rows:
            item = Item(
                as_text(key, "key"), as_text(payload, "payload"), as_integer(failures, "failures")
            )
            found = connection.execute(_ERRORS, (number,))
            errors = tuple(as_text(error, "error") for (error,) in found if error)
            yield number, DeadLetter(item=item, errors=errors)


def _dead_bytes(numbered: tuple[int, DeadLetter]) -> int:
    item, errors = numbered[1]
    return text_bytes(item.key, item.payload, *errors)
