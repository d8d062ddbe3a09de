"""A queue in one SQLite file: the embedded default, for all processes of one machine.

Nothing depends on the wall clock: leases and delays count the machine's uptime, and after a reboot
every lease has expired. Only the age that `stats` shows is taken from it.
"""

import itertools
import json
import time
from collections.abc import Callable, Sequence

from outlast._base.uptime import boot_id, uptime_seconds
from outlast.queue.errors import QueueUnavailable, QueueUrlError
from outlast.queue.items import (
    DeadLetter,
    Item,
    Lease,
    Outcome,
    Publishable,
    Published,
    Stats,
    Terms,
    as_items,
)
from outlast.queue.pace import Pace
from outlast.queue.protocol import Promises, Storing
from outlast.queue.sqlite_file import SQLiteFile, path_of
from outlast.queue.sqlite_schema import FORMAT, READY, SCHEMA, TABLE_MADE_LAST
from outlast.queue.sqlite_transaction import Times, Transaction

_PUBLISH_CACHE_KIB = 65_536


class SQLiteQueue:
    """The queue in `sqlite:///file`. The file is made if it is not there; its folder is not.

    `clock` tells the seconds of uptime; `boot` names the boot that they are counted from.
    """

    promises = Promises(exact_counts=True, dedupes_keys=True)

    def __init__(
        self,
        url: str,
        *,
        clock: Callable[[], float] = uptime_seconds,
        boot: str | None = None,
    ) -> None:
        if "#" in url:
            raise QueueUrlError(
                f"{url!r} names a table, and a queue has its own.",
                hint="Leave out the part after '#'. It belongs in the URL of a sink.",
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
        self._check_format()

    @property
    def url(self) -> str:
        return self._url

    @property
    def place(self) -> str:
        return self._file.place

    def publish(self, items: Publishable) -> Published:
        """Add all items, or none. If killed: none, or all.

        The items are gathered aside first, on disk if they are many, so that a slow source holds up
        nobody. Others wait while the gathered ones are added: two seconds for a million, and ten if
        their keys are in no order.
        """
        with self._file.staging() as connection:
            connection.execute(f"PRAGMA cache_size = -{_PUBLISH_CACHE_KIB}")
            connection.execute("CREATE TEMP TABLE staged (key TEXT, payload TEXT)")
            connection.execute("BEGIN")
            connection.executemany(
                "INSERT INTO staged VALUES (?, ?)", (item[:2] for item in as_items(items))
            )
            connection.execute("COMMIT")
            [given] = connection.execute("SELECT count(*) FROM staged").fetchone()
            with self._file.writing(connection):
                [before] = connection.execute(_LAST_NUMBER).fetchone()
                connection.execute(
                    "INSERT INTO outlast_items (key, payload) "
                    "SELECT key, payload FROM staged WHERE true ORDER BY rowid "
                    "ON CONFLICT (key) DO NOTHING"
                )
                [last] = connection.execute(_LAST_NUMBER).fetchone()
                if last > before:
                    connection.execute(_INSERT_READY, (before + 1, last, time.time()))
        return Published(added=last - before, known=given - (last - before))

    def claim(self, limit: int, terms: Terms) -> Lease | None:
        """Lease up to `limit` ready items, oldest first. If killed: nothing, or the lease expires.

        Raises `QueueUnavailable`, as every method, if the file cannot be used.
        """
        asked, sent = self._clock(), time.monotonic()
        with self._file.writing() as connection:
            work = Transaction(connection, Times(asked, self._clock()), boot=self._boot)
            work.reap(terms)
            lease = work.claim(limit, terms, expires=sent + terms.lease_seconds)
            work.finish()
        return lease

    def extend(self, lease: Lease, terms: Terms) -> Lease:
        """Hold on to the lease, or raise `LeaseLost`. If killed: it holds as before, or longer."""
        asked, sent = self._clock(), time.monotonic()
        with self._file.writing() as connection:
            times = Times(asked, self._clock())
            work = Transaction(connection, times, boot=self._boot, lease=lease.token)
            work.extend(times.now + terms.lease_seconds)
            work.finish()
        return lease._replace(expires=sent + terms.lease_seconds)

    def settle(
        self,
        lease: Lease,
        outcome: Outcome,
        terms: Terms,
        *,
        storing: Storing | None = None,
        claim: int = 0,
    ) -> Lease | None:
        """Acknowledge, fail, release, store and claim in one transaction, with one sync.

        Raises `LeaseLost`, and nothing happened. If killed: nothing happened, or all of it.
        """
        asked, sent = self._clock(), time.monotonic()
        following = None
        with self._file.writing() as connection:
            times = Times(asked, self._clock())
            work = Transaction(connection, times, boot=self._boot, lease=lease.token)
            work.settle(lease, outcome, terms)
            if storing is not None:
                storing(connection)
            if claim > 0:
                work.reap(terms)
                following = work.claim(claim, terms, expires=sent + terms.lease_seconds)
            work.finish()
        return following

    def stats(self) -> Stats:
        now = self._clock()
        with self._file.reading() as connection:
            row = connection.execute(_STATS, {"now": now}).fetchone()
        items, dead, ready, delayed, leased, oldest, *pace = row
        return Stats(
            ready=ready,
            delayed=delayed,
            leased=leased,
            done=items - ready - delayed - leased - dead,
            dead=dead,
            oldest_seconds=None if oldest is None else max(0.0, time.time() - oldest),
            done_per_second=Pace._make(pace).per_second(now=now),
        )

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        with self._file.reading() as connection:
            rows = connection.execute(_DEAD_LETTERS, (limit,)).fetchall()
        return [
            DeadLetter(item=Item(*item), errors=tuple(row[3] for row in group if row[3]))
            for item, group in itertools.groupby(rows, key=lambda row: row[:3])
        ]

    def retry_dead(self, keys: Sequence[str] | None = None) -> int:
        """Make dead letters ready again. If killed: none of them, or all."""
        chosen = "SELECT item FROM outlast_dead"
        given: tuple[str, ...] = ()
        if keys is not None:
            chosen += (
                " WHERE item IN (SELECT number FROM outlast_items "
                "WHERE key IN (SELECT value FROM json_each(?)))"
            )
            given = (json.dumps(list(keys)),)
        with self._file.writing() as connection:
            numbers = connection.execute(chosen, given).fetchall()
            now = time.time()
            connection.executemany("DELETE FROM outlast_failures WHERE item = ?", numbers)
            connection.executemany("DELETE FROM outlast_dead WHERE item = ?", numbers)
            connection.executemany(_INSERT_READY, ((item, item, now) for (item,) in numbers))
        return len(numbers)

    def close(self) -> None:
        self._file.close()

    def _check_format(self) -> None:
        with self._file.reading() as connection:
            [found] = connection.execute("SELECT format FROM outlast_queue").fetchone()
        if found != FORMAT:
            self.close()
            raise QueueUnavailable(
                f"{self._url!r} has the format {found}, and this version knows {FORMAT}.",
                hint="It was made by a newer version: pip install --upgrade outlast",
            )


_LAST_NUMBER = "SELECT coalesce(max(number), 0) FROM outlast_items"

_INSERT_READY = (
    "INSERT INTO outlast_runs (first, last, published, lease, failures, suspects, until, worker) "
    f"VALUES (?, ?, ?, {READY}, 0, 0, 0, '')"
)

# One statement, so that it counts one state of the file.
_STATS = f"""
SELECT ({_LAST_NUMBER}), (SELECT count(*) FROM outlast_dead), ready + due, later, leased,
    CASE WHEN oldest IS NULL OR oldest_later < oldest THEN oldest_later ELSE oldest END,
    {", ".join(Pace._fields)}
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
SELECT items.key, items.payload, dead.failures, failures.error
FROM (SELECT * FROM outlast_dead ORDER BY item LIMIT ?) AS dead
JOIN outlast_items AS items ON items.number = dead.item
LEFT JOIN outlast_failures AS failures ON failures.item = dead.item
ORDER BY dead.item, failures.number
"""
