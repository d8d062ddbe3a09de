"""A queue in PostgreSQL: acknowledging a chunk, storing its results and claiming the next one is
one transaction in one round trip.

Workers never wait for each other to claim (`SKIP LOCKED`). Leases run by the clock of the database,
so the clocks of the workers do not matter. If the server goes away in the middle of a call, the
call is made again, and finds out whether it had happened.
"""

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Sequence

from outlast.queue import postgres_sql as sql
from outlast.queue.errors import ItemRefused, QueueUnavailable, QueueUrlError
from outlast.queue.items import (
    KEY_CHARACTERS_MAX,
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
from outlast.queue.postgres_link import Connection, PostgresLink, text_array
from outlast.queue.postgres_request import Request, Session, Settling, lost, storable
from outlast.queue.postgres_url import Address, parse_address
from outlast.queue.protocol import Promises, Storing

_BATCH_ITEMS = 5000
_BRING_BACK_SECONDS = 0.02


class PostgresQueue:
    """The queue in the tables `outlast_...` of the schema that the URL leads to.

    They are made if they are not there. `retry_seconds` bounds how long a call tries to reach a
    server that is gone before it raises `QueueUnavailable`.
    """

    promises = Promises(exact_counts=True, dedupes_keys=True)

    def __init__(self, url: str, *, retry_seconds: float = 10.0) -> None:
        self._address = _address(url)
        self._retry_seconds = retry_seconds
        self._link = self._new_link()
        self._session = Session()
        self._brought_back = -math.inf
        self._link.call(_make_tables)
        self._place = self._link.place

    @property
    def url(self) -> str:
        return self._address.shown

    @property
    def place(self) -> str:
        return self._place

    def publish(self, items: Publishable) -> Published:
        batches = _batches(items)
        first = next(batches, [])
        second = next(batches, None)
        if second is not None:
            return self._publish_many(items, itertools.chain([first, second], batches))
        tries = itertools.count()
        return self._link.call(
            lambda connection: _publish(connection, [first], is_alone=next(tries) > 0)
        )

    def claim(self, limit: int, terms: Terms) -> Lease | None:
        return self._request(("claim", limit), limit, terms)

    def extend(self, lease: Lease, terms: Terms) -> Lease:
        def extend(connection: Connection) -> float | None:
            started = time.monotonic()
            values = (float(terms.lease_seconds), lease.token)
            found = connection.execute(sql.EXTEND, values).rowcount
            return started if found else None

        started = self._link.call(extend)
        if started is None:
            raise lost(lease.token)
        return lease._replace(expires=started + terms.lease_seconds)

    def settle(
        self,
        lease: Lease,
        outcome: Outcome,
        terms: Terms,
        *,
        storing: Storing | None = None,
        claim: int = 0,
    ) -> Lease | None:
        settling = Settling.of(lease, outcome, terms, storing)
        return self._request(("settle", lease.token, outcome, claim), claim, terms, settling)

    def stats(self) -> Stats:
        row = self._link.call(lambda connection: connection.execute(sql.STATS).fetchone())
        assert row is not None
        ready, delayed, leased, dead, published, oldest, rate = row
        return Stats(
            ready=int(ready),
            delayed=delayed,
            leased=int(leased),
            done=int(published - ready - delayed - leased - dead),
            dead=dead,
            oldest_seconds=oldest,
            done_per_second=rate,
        )

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        rows = self._link.call(
            lambda connection: connection.execute(sql.DEAD_LETTERS, (limit,)).fetchall()
        )
        return [
            DeadLetter(item=Item(key, payload, failures), errors=tuple(errors))
            for key, payload, failures, errors in rows
        ]

    def retry_dead(self, keys: Sequence[str] | None = None) -> int:
        named = None if keys is None else text_array(keys)
        return self._link.call(
            lambda connection: connection.execute(sql.RETRY_DEAD, {"keys": named}).rowcount
        )

    def close(self) -> None:
        self._link.close()

    def _new_link(self) -> PostgresLink:
        return PostgresLink(
            self._address,
            unavailable=QueueUnavailable,
            bad_url=QueueUrlError,
            retry_seconds=self._retry_seconds,
        )

    def _publish_many(self, items: Publishable, batches: Iterator[list[Item]]) -> Published:
        """Publish what may take long, with a connection of its own: others go on meanwhile."""
        link = self._new_link()
        source: Iterable[list[Item]] | None = batches

        def publish(connection: Connection) -> Published:
            nonlocal source
            again, source = source is None, None
            if again and iter(items) is items:
                raise QueueUnavailable(
                    f"The server of {self.url} went away, and what was read cannot be read again.",
                    hint="Publish again: nothing of it was published, or all of it.",
                )
            return _publish(connection, _batches(items) if again else batches, is_alone=again)

        try:
            return link.call(publish)
        finally:
            link.close()

    def _request(
        self, wish: object, limit: int, terms: Terms, settling: Settling | None = None
    ) -> Lease | None:
        """Settle and claim, once, however often it has to be sent."""
        number: int | None = None

        def send(connection: Connection) -> Lease | None:
            nonlocal number
            was_sent = number is not None
            if number is None:
                number, was_sent = self._session.number(wish)
            request = Request(
                self._session.name, number, limit, terms, settling, self._brings_back()
            )
            if was_sent and request.was_done(connection):
                lease = request.lease_made(connection)
            else:
                lease = request.send(connection)
            self._session.answered()
            return lease

        return self._link.call(send)

    def _brings_back(self) -> bool:
        """Whether it is time to look for what is due: not with every claim of a rapid worker."""
        now = time.monotonic()
        if now < self._brought_back + _BRING_BACK_SECONDS:
            return False
        self._brought_back = now
        return True


def _address(url: str) -> Address:
    try:
        address = parse_address(url)
    except ValueError as error:
        raise QueueUrlError(
            str(error), hint="Write postgresql://user:password@host/database; '#' as %23."
        ) from None
    if address.table:
        raise QueueUrlError(
            "The URL of a queue names no table after '#'.",
            hint="Leave it out; in a password, write '#' as %23.",
        )
    return address


def _make_tables(connection: Connection) -> None:
    """Make the tables, unless they are there. If killed: all are there, or none."""
    row = connection.execute(sql.FIND_TABLES).fetchone()
    if not (row and row[0]):
        with connection.transaction():
            # Workers that start at once would trip over each other, even with IF NOT EXISTS.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (sql.SCHEMA_LOCK,))
            connection.execute(sql.MAKE_TABLES)
    row = connection.execute(sql.READ_VERSION).fetchone()
    if row is None or row[0] != sql.SCHEMA_VERSION:
        raise QueueUnavailable(
            f"The tables of the queue are of version {row and row[0]!r}, not {sql.SCHEMA_VERSION}.",
            hint="Use the version of Outlast that made them, or another schema.",
        )
    connection.execute(sql.FORGET_SESSIONS)


def _batches(items: Publishable) -> Iterator[list[Item]]:
    source = as_items(items)
    while batch := list(itertools.islice(source, _BATCH_ITEMS)):
        yield batch


def _publish(connection: Connection, batches: Iterable[list[Item]], *, is_alone: bool) -> Published:
    added = given = 0
    with connection.transaction():
        # Who publishes the same keys in another order may be in each other's way for good. The
        # database ends one of them, which then tries again when nobody else publishes.
        connection.execute(sql.PUBLISH_ALONE if is_alone else sql.PUBLISH_BESIDE_OTHERS)
        for batch in batches:
            _check(batch)
            keys = text_array(item.key for item in batch)
            payloads = text_array(item.payload for item in batch)
            row = connection.execute(sql.PUBLISH, (keys, payloads)).fetchone()
            assert row is not None
            added += row[0]
            given += len(batch)
        # Last, because all who publish meet in this row.
        connection.execute(sql.COUNT_PUBLISHED, (added,))
    return Published(added=added, known=given - added)


def _check(batch: Iterable[Item]) -> None:
    """Refuse items that were made without `Item.of` and that the database would not take."""
    for item in batch:
        is_key = 0 < len(item.key) <= KEY_CHARACTERS_MAX
        if not is_key or any(storable(text) != text for text in item[:2]):
            raise ItemRefused(
                f"The item {item.key!r:.200} cannot be stored.",
                hint=f"A key has 1 to {KEY_CHARACTERS_MAX} characters, and neither it nor the "
                "payload holds NUL or half a surrogate pair.",
            )
