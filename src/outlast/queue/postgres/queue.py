"""A queue in PostgreSQL.

Acknowledging a chunk, storing its results and claiming the next one is a single transaction in one
round trip. Claims never wait for each other (`SKIP LOCKED`). Leases use the database's clock, so
the workers' clocks do not matter. If the connection breaks during a call, the call is repeated and
checks whether it had already taken effect.
"""

import contextlib
import itertools
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any

from outlast._base.batches import BYTES_MAX, batched, text_bytes
from outlast.databases.postgres import Connection, PostgresClient, text_array
from outlast.databases.postgres_url import PostgresAddress, parse_address
from outlast.queue.errors import ItemRefused, QueueUnavailable, QueueUrlError
from outlast.queue.items import (
    KEY_CHARACTERS_MAX,
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
from outlast.queue.postgres import sql
from outlast.queue.postgres.outlook import Outlook
from outlast.queue.postgres.request import (
    PreparedSettlement,
    QueueRequest,
    RequestSession,
    lost,
    storable,
)
from outlast.queue.protocol import QueueGuarantees, StoreInTransaction

_BATCH_ITEMS = 5000
_PAGE_ITEMS = 2000
# The server limits a value to 1 GiB, and a batch is sent as one value.
_ITEM_BYTES_MAX = 1_000_000_000
_LARGE_HINT = "Store large payloads in a bucket or in files, and publish their names."


class PostgresQueue:
    """The queue in the `outlast_...` tables of the URL's default schema.

    The tables are created if they do not exist. `retry_seconds` limits how long a call tries to
    reach the server before it raises `QueueUnavailable`.
    """

    guarantees = QueueGuarantees(exact_counts=True, dedupes_keys=True)

    def __init__(self, url: str, *, retry_seconds: float = 10.0) -> None:
        self._address = _address(url)
        self._retry_seconds = retry_seconds
        self._client = self._new_client()
        self._session = RequestSession()
        self._outlook = Outlook()
        self._id = self._client.call(_make_tables)
        self._place = self._client.database

    @property
    def url(self) -> str:
        return self._address.shown

    @property
    def database(self) -> str:
        return self._place

    def shared_client(self, address: PostgresAddress) -> PostgresClient | None:
        """The client, if its connection is to this address. For a sink; see `open_sink_beside`."""
        return self._client if address.given == self._address.given else None

    def publish(self, items: Publishable) -> Published:
        batches = _batches(items)
        first = next(batches, [])
        second = next(batches, None)
        with _blaming_large_item() as sending:
            if second is not None:
                return self._publish_many(items, itertools.chain([first, second], batches), sending)
            tries = itertools.count()
            return self._client.call(
                lambda connection: _publish(connection, [first], sending, is_alone=next(tries) > 0)
            )

    def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        return self._request(("claim", limit), limit, terms)

    def extend(self, lease: Lease, terms: LeaseTerms) -> Lease:
        def extend(connection: Connection) -> float | None:
            started = time.monotonic()
            values = (float(terms.lease_seconds), lease.token)
            found = connection.execute(sql.EXTEND, values).rowcount
            return started if found else None

        started = self._client.call(extend)
        if started is None:
            raise lost(lease.token)
        return lease._replace(expires=started + terms.lease_seconds)

    def settle(
        self,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        *,
        storing: StoreInTransaction | None = None,
        claim: int = 0,
    ) -> Lease | None:
        settling = PreparedSettlement.of(lease, settlement, terms, storing)
        return self._request(("settle", lease.token, settlement, claim), claim, terms, settling)

    def stats(self) -> QueueStats:
        row = self._client.call(lambda connection: connection.execute(sql.STATS).fetchone())
        assert row is not None
        published, done, delayed, leased, dead, oldest, rate = row
        return QueueStats(
            ready=int(published - done - delayed - leased - dead),
            delayed=delayed,
            leased=int(leased),
            done=int(done),
            dead=dead,
            oldest_seconds=oldest,
            done_per_second=rate,
        )

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        return list(itertools.islice(self._dead_letters(min(limit, _PAGE_ITEMS)), limit))

    def iter_dead_letters(self) -> Generator[DeadLetter, None, None]:
        """All dead letters in publishing order, read in pages."""
        return self._dead_letters(_PAGE_ITEMS)

    def retry_dead(
        self,
        keys: Sequence[str] | None = None,
        *,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> int:
        """Make dead letters ready again, in batches that are each quick.

        If killed: some are ready and the others still dead. Repeating it retries the rest.
        """
        batches = self._retry_all() if keys is None else self._retry_named(keys)
        count = 0
        for retried in batches:
            count += retried
            on_progress(retried)
        return count

    def check(self, item: Item) -> None:
        """Refuse items the database cannot store, including invalid ones made without `Item.of`."""
        _check(item)

    def close(self) -> None:
        self._client.close()

    def _new_client(self) -> PostgresClient:
        return PostgresClient(
            self._address,
            unavailable=QueueUnavailable,
            bad_url=QueueUrlError,
            retry_seconds=self._retry_seconds,
        )

    def _dead_letters(self, page_items: int) -> Generator[DeadLetter, None, None]:
        last = 0
        while rows := self._dead_page(last, page_items):
            for _, key, payload, failures, errors in rows:
                yield DeadLetter(item=Item(key, payload, failures), errors=tuple(errors))
            last = rows[-1][0]

    def _dead_page(self, last: int, page_items: int) -> list[Any]:
        values = (last, page_items, BYTES_MAX)
        return self._client.call(
            lambda connection: connection.execute(sql.DEAD_LETTERS, values).fetchall()
        )

    def _retry_named(self, keys: Sequence[str]) -> Iterator[int]:
        for start in range(0, len(keys), _PAGE_ITEMS):
            some = keys[start : start + _PAGE_ITEMS]
            yield self._retry(sql.RETRY_DEAD_NAMED, text_array(some))[0]

    def _retry_all(self) -> Iterator[int]:
        # By ID, so that an item that fails again in the meantime is not retried twice.
        last: int | None = 0
        while last is not None:
            retried, last = self._retry(sql.RETRY_DEAD_AFTER, last, _PAGE_ITEMS)
            if retried:
                yield retried

    def _retry(self, statement: str, *values: object) -> tuple[int, int | None]:
        """How many were retried in one transaction, and the last of their IDs."""
        row = self._client.call(lambda connection: connection.execute(statement, values).fetchone())
        assert row is not None
        return row[0], row[1]

    def _publish_many(
        self, items: Publishable, batches: Iterator[list[Item]], sending: list[Item]
    ) -> Published:
        """Publish many items over a separate connection, so that other calls can proceed."""
        client = self._new_client()
        source: Iterable[list[Item]] | None = batches

        def publish(connection: Connection) -> Published:
            nonlocal source
            again, source = source is None, None
            if again and iter(items) is items:
                raise QueueUnavailable(
                    f"Lost the connection to {self.url}, and the items cannot be read again.",
                    hint="Publish again. Either all items were published or none.",
                )
            given = _batches(items) if again else batches
            return _publish(connection, given, sending, is_alone=again)

        try:
            return client.call(publish)
        finally:
            client.close()

    def _request(
        self,
        asked: object,
        limit: int,
        terms: LeaseTerms,
        settling: PreparedSettlement | None = None,
    ) -> Lease | None:
        """Settle and claim exactly once, even if the request has to be sent again."""
        number: int | None = None

        def send(connection: Connection) -> Lease | None:
            nonlocal number
            was_sent = number is not None
            if number is None:
                number, was_sent = self._session.number(asked)
            view = self._outlook.next(time.monotonic())
            request = QueueRequest(self._session.name, number, limit, terms, settling, view)
            if was_sent and request.was_done(connection):
                lease = request.lease_made(connection)
            else:
                lease, brought_all_back = request.send(connection)
                self._outlook.claimed(lease, view, brought_all_back, now=time.monotonic())
            self._session.answered()
            return lease and lease._replace(queue=self._id)

        return self._client.call(send)


def _address(url: str) -> PostgresAddress:
    try:
        address = parse_address(url)
    except ValueError as error:
        raise QueueUrlError(
            str(error), hint="Use postgresql://USER:PASSWORD@HOST/DATABASE, with '#' as %23."
        ) from None
    if address.table:
        raise QueueUrlError(
            "The URL of a queue cannot name a table after '#'.",
            hint="Remove it. In a password, write '#' as %23.",
        )
    return address


def _make_tables(connection: Connection) -> str:
    """Create or upgrade the tables. Returns the ID of the queue.

    If killed: everything happened or nothing.
    """
    if _needs_tables(connection):
        with connection.transaction():
            # Workers that start at the same time would conflict, even with IF NOT EXISTS.
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (sql.SCHEMA_LOCK,))
            if _needs_tables(connection):
                connection.execute(sql.MAKE_TABLES)
                connection.execute(sql.NAME_QUEUE, (uuid.uuid4().hex,))
    version = _version(connection)
    if version != sql.SCHEMA_VERSION:
        raise QueueUnavailable(
            f"The tables of the queue have version {version!r}, but this version of Outlast "
            f"supports only {sql.SCHEMA_VERSION}.",
            hint="Use the version of Outlast that created them, or another schema.",
            permanent=True,
        )
    connection.execute(sql.FORGET_SESSIONS)
    [identity] = connection.execute(sql.READ_ID).fetchone() or [""]
    return str(identity)


def _needs_tables(connection: Connection) -> bool:
    """Whether tables are missing. Those of newer versions are left alone."""
    [is_there, is_complete] = connection.execute(sql.FIND_TABLES).fetchone() or [False, False]
    return not is_there or (not is_complete and _version(connection) in (1, sql.SCHEMA_VERSION))


def _version(connection: Connection) -> int | None:
    """The version of the tables; None if there are none."""
    [is_there, _] = connection.execute(sql.FIND_TABLES).fetchone() or [False, False]
    row = connection.execute(sql.READ_VERSION).fetchone() if is_there else None
    return None if row is None else int(row[0])


def _batches(items: Publishable) -> Iterator[list[Item]]:
    return batched(as_items(items), _item_bytes, count_max=_BATCH_ITEMS)


def _item_bytes(item: Item) -> int:
    return text_bytes(item.key, item.payload)


@contextlib.contextmanager
def _blaming_large_item() -> Iterator[list[Item]]:
    """Name the item if the server fails on one that was sent alone because of its size."""
    sending: list[Item] = []
    try:
        yield sending
    except QueueUnavailable as error:
        if len(sending) != 1 or _item_bytes(sending[0]) <= BYTES_MAX:
            raise
        [item] = sending
        raise QueueUnavailable(
            f"Could not publish item {item.key!r:.200} with {_item_bytes(item):,} bytes. {error}",
            hint=_LARGE_HINT,
        ) from error


def _publish(
    connection: Connection, batches: Iterable[list[Item]], sending: list[Item], *, is_alone: bool
) -> Published:
    """Publish all batches in one transaction. `sending` is the batch being sent."""
    added = given = 0
    with connection.transaction():
        # Two processes that publish the same keys in different orders can deadlock. The database
        # aborts one of them, which then retries with the lock that excludes all others.
        connection.execute(sql.PUBLISH_ALONE if is_alone else sql.PUBLISH_BESIDE_OTHERS)
        for batch in batches:
            for item in batch:
                _check(item)
            sending[:] = batch
            keys = text_array(item.key for item in batch)
            payloads = text_array(item.payload for item in batch)
            row = connection.execute(sql.PUBLISH, (keys, payloads)).fetchone()
            assert row is not None
            added += row[0]
            given += len(batch)
            sending.clear()
        # Last, because everyone who publishes updates this row.
        connection.execute(sql.COUNT_PUBLISHED, (added,))
    return Published(added=added, known=given - added)


def _check(item: Item) -> None:
    # As sent in an array, where each of these characters is preceded by a backslash.
    size_bytes = _item_bytes(item)
    sent_bytes = size_bytes + item.payload.count('"') + item.payload.count("\\")
    if sent_bytes > _ITEM_BYTES_MAX:
        raise ItemRefused(
            f"Item {item.key!r:.200} has {size_bytes:,} bytes; PostgreSQL allows at most "
            f"{_ITEM_BYTES_MAX:,}.",
            hint=_LARGE_HINT,
        )
    is_key = 0 < len(item.key) <= KEY_CHARACTERS_MAX
    if not is_key or any(storable(text) != text for text in item[:2]):
        raise ItemRefused(
            f"Item {item.key!r:.200} cannot be stored.",
            hint=f"Use a key of 1 to {KEY_CHARACTERS_MAX} characters, and neither NUL nor lone "
            "surrogates in the key or payload.",
        )
