"""A queue in Google Cloud Pub/Sub.

Pub/Sub redelivers messages that are not acknowledged, but it does not count items, has no keys and
cannot change a message. So the rest is done here:

- An item that failed is published again with its failure count, then the old message is
  acknowledged. If killed in between: both exist, and the second is skipped because the sink has a
  result.
- A message that was redelivered several times may kill its workers, or was released often. It moves
  to the topic `NAME-alone`, whose messages are delivered one at a time. If it comes back from there
  without having been released, that counts as a failure.
- Dead letters are kept in the topic `NAME-dead`, or in the ledger.

With `ledger=URL` (a folder or a bucket), published keys are recorded: known keys are not published
again, and workers can tell when all items are done.

Pub/Sub provides no shared counter, so leases have no order: they all have the token 1. Of two
results of the same version, a sink then keeps the first, so a worker that lost its lease overwrites
nothing.
"""

import contextlib
import itertools
import json
import math
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from datetime import UTC, datetime
from typing import IO

from outlast._base.batches import batched, text_bytes
from outlast._redact import redact
from outlast.queue.errors import QueueUnavailable
from outlast.queue.items import (
    ERRORS_KEPT,
    EXPIRED_ALONE,
    DeadLetter,
    Failure,
    Item,
    Lease,
    LeaseTerms,
    Publishable,
    Published,
    QueueStats,
    Settlement,
    as_items,
    failure_line,
)
from outlast.queue.protocol import QueueGuarantees, StoreInTransaction
from outlast.queue.pubsub.client import ACK_SECONDS_MAX, MessagesNotHeld, PulledMessage
from outlast.queue.pubsub.dead_letters import DeadLetters
from outlast.queue.pubsub.leases import (
    HeldMessage,
    LeasedMessages,
    lease_seconds,
    leased_messages,
)
from outlast.queue.pubsub.ledger import Ledger
from outlast.queue.pubsub.messages import QueuedItem, encode, parse_address
from outlast.queue.pubsub.topics import Topics, TopicSubscription, decode_pulled

_SUSPICIOUS_DELIVERIES = 5
_ALONE_SECONDS = 20.0
_BATCH_ITEMS = 10_000
_SPOOLED_IN_MEMORY_BYTES = 8 * 1024**2
_PULLS_MAX = 5
_TOKEN = 1
# The longest message retention of Pub/Sub.
_RETENTION_SECONDS_MAX = 31 * 86400.0


class PubSubQueue:
    """The topic and the subscription of `pubsub://project/topic?subscription=name&ledger=URL`.

    They are created if they do not exist. `wait_seconds` is how long a claim waits for a message;
    `retry_seconds` limits how long a call is retried while the service is unavailable.
    """

    def __init__(self, url: str, *, retry_seconds: float = 10.0, wait_seconds: float = 5.0) -> None:
        self._url = url
        place = parse_address(url)
        self._id = f"pubsub://{place.project}/{place.topic}?subscription={place.subscription}"
        self._wait_seconds = wait_seconds
        self._ledger = Ledger(place.ledger) if place.ledger else None
        self._topics = Topics(place, retry_seconds=retry_seconds)
        self._dead = DeadLetters(self._topics, self._ledger)
        self._alone_due = -math.inf

    @property
    def url(self) -> str:
        return redact(self._url)

    @property
    def guarantees(self) -> QueueGuarantees:
        return QueueGuarantees(
            exact_counts=False, dedupes_keys=self._ledger is not None, keeps_expired=False
        )

    @property
    def database(self) -> None:
        return None

    def publish(self, items: Publishable) -> Published:
        """Publish all items, unless one of them is refused.

        If killed: some are published. With a ledger, publishing again adds the rest, and perhaps a
        few items twice; without one, it publishes all of them again.
        """
        added = known = 0
        with _rereadable(items) as source:
            # All are checked first, so that nothing is published if one is invalid.
            for item in as_items(source):
                self.check(item)
            for batch in batched(as_items(source), _item_bytes, count_max=_BATCH_ITEMS):
                new = self._publish(batch)
                added += new
                known += len(batch) - new
        return Published(added, known)

    def check(self, item: Item) -> None:
        """Refuse items that do not fit in a message."""
        encode(QueuedItem(item.key, item.payload))

    def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        """Lease up to `limit` items. None does not mean that the queue is empty."""
        if time.monotonic() >= self._alone_due:
            # Checked again at once while there are any, and when there is nothing else to do.
            if (lease := self._claim_alone(terms)) is not None:
                return lease
            self._alone_due = time.monotonic() + _ALONE_SECONDS
        lease = self._claim_some(limit, terms)
        if lease is None:
            self._alone_due = -math.inf
        return lease

    def extend(self, lease: Lease, terms: LeaseTerms) -> Lease:
        seconds = lease_seconds(terms)
        with leased_messages(lease).changing(lease) as leased:
            leased.check(lease, ())
            started = time.monotonic()
            self._topics.hold(leased.pair, leased.ack_ids(leased.by_key), seconds)
            leased.expires = started + seconds
            return lease._replace(expires=leased.expires)

    def settle(
        self,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        *,
        storing: StoreInTransaction | None = None,
        claim: int = 0,
    ) -> Lease | None:
        """Acknowledge, fail and release items of a lease, one after the other, then claim.

        Pub/Sub has no transactions. If killed: unsettled items come back when their lease expires,
        and a failed item may exist twice. After `QueueUnavailable`, calling it again with the same
        settlement continues where it stopped.
        """
        if storing is not None:
            raise ValueError("Pub/Sub has no transactions, so it cannot store results in one.")
        with leased_messages(lease).changing(lease) as leased:
            rest = leased.rest_of(lease, settlement)
            self._acknowledge(leased, rest.done)
            self._fail(leased, rest.failed, terms)
            self._release(leased, rest.released)
            leased.unfinished = None
        try:
            return self.claim(claim, terms) if claim else None
        except QueueUnavailable:
            # The lease is settled, and reporting that matters more than the next claim.
            return None

    def stats(self) -> QueueStats:
        """Only dead letters can be counted, and only with a ledger."""
        return QueueStats(None, None, None, None, self._dead.count(), None, None)

    def published(self) -> int | None:
        return None if self._ledger is None else self._ledger.count()

    def pages(self) -> Sequence[str]:
        return [] if self._ledger is None else self._ledger.pages()

    def keys_on(self, page: str) -> Sequence[str]:
        return [] if self._ledger is None else self._ledger.keys_on(page)

    def dead_among(self, keys: Sequence[str]) -> AbstractSet[str]:
        return self._dead.among(keys)

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        with contextlib.closing(self.iter_dead_letters()) as letters:
            return list(itertools.islice(letters, limit))

    def iter_dead_letters(self) -> Generator[DeadLetter, None, None]:
        """All dead letters. Without a ledger, they are held until the iterator is closed."""
        yield from self._dead.letters()

    def retry_dead(
        self,
        keys: Sequence[str] | None = None,
        *,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> int:
        """Make dead letters ready again. If killed: some may be both; none is lost."""
        return self._dead.retry(keys, on_progress)

    def close(self) -> None:
        self._topics.close()

    def _publish(self, batch: Sequence[Item]) -> int:
        """Publish and record the new items of a batch. Returns their number."""
        if self._ledger is None:
            self._publish_items(batch)
            return len(batch)
        unknown = self._ledger.unknown(item.key for item in batch)
        new = {item.key: item for item in reversed(batch) if item.key in unknown}
        # Recorded afterwards, so that a recorded key was always published.
        self._publish_items(reversed(new.values()))
        return self._ledger.record(list(reversed(new)))

    def _publish_items(self, items: Iterable[Item]) -> None:
        queued_items = (QueuedItem(item.key, item.payload) for item in items)
        self._topics.send(self._topics.main, queued_items)

    def _claim_some(self, limit: int, terms: LeaseTerms) -> Lease | None:
        main = self._topics.main
        for _ in range(_PULLS_MAX):
            started = time.monotonic()
            received = self._topics.pull(main, limit, wait_seconds=self._wait_seconds)
            if not received:
                return None
            if by_key := self._sorted(received):
                return self._lease(LeasedMessages(main, by_key, started), terms)
        return None

    def _claim_alone(self, terms: LeaseTerms) -> Lease | None:
        """Lease one item alone. If it came back without a release, that is a failure."""
        alone = self._topics.alone
        for _ in range(_PULLS_MAX):
            started = time.monotonic()
            received = self._topics.pull(alone, 1)
            if not received:
                return None
            [message] = received
            queued = _blamed(decode_pulled(message), message.attempt - 1)
            if not queued.flaw and queued.failures < terms.failures_max:
                by_key = {queued.key: HeldMessage(message.ack_id, queued)}
                return self._lease(LeasedMessages(alone, by_key, started), terms)
            self._dead.add_dead([queued])
            self._topics.acknowledge_moved(alone, received)
        return None

    def _sorted(self, received: Sequence[PulledMessage]) -> dict[str, HeldMessage]:
        """The messages that can be processed now, by key. All others are moved or released."""
        now = time.time()
        by_key: dict[str, HeldMessage] = {}
        suspects: list[PulledMessage] = []
        copies: list[PulledMessage] = []
        for message in received:
            queued = _with_possible_delay(decode_pulled(message), now)
            if queued.flaw:
                self._dead.add_dead([queued])
                self._topics.acknowledge_moved(self._topics.main, [message])
            elif queued.not_before > now:
                seconds = min(math.ceil(queued.not_before - now), ACK_SECONDS_MAX)
                self._topics.release(self._topics.main, [message], in_seconds=seconds)
            elif message.attempt > _SUSPICIOUS_DELIVERIES:
                suspects.append(message)
            elif queued.key in by_key:
                copies.append(message)
            else:
                by_key[queued.key] = HeldMessage(message.ack_id, queued)
        self._send_again(self._topics.alone, map(decode_pulled, suspects))
        self._topics.acknowledge_moved(self._topics.main, [*suspects, *copies])
        return by_key

    def _lease(self, leased: LeasedMessages, terms: LeaseTerms) -> Lease | None:
        """A lease on the pulled messages, for the duration in `terms`."""
        seconds = lease_seconds(terms)
        if seconds != self._topics.ack_seconds:
            leased.expires = time.monotonic()
            try:
                self._topics.hold(leased.pair, leased.ack_ids(leased.by_key), seconds)
            except MessagesNotHeld:
                return None
        leased.expires += seconds
        items = tuple(held.queued.item for held in leased.by_key.values())
        return Lease(_TOKEN, items, leased.expires, leased, self._id)

    def _acknowledge(self, leased: LeasedMessages, keys: Iterable[str]) -> None:
        self._topics.acknowledge(leased.pair, leased.ack_ids(keys))
        leased.drop(keys)

    def _fail(self, leased: LeasedMessages, failures: Sequence[Failure], terms: LeaseTerms) -> None:
        keys = [failure.key for failure in failures]
        # Makes sure that they are still ours before anything is published.
        self._topics.hold(leased.pair, leased.ack_ids(keys), lease_seconds(terms))
        dead: list[QueuedItem] = []
        again: list[QueuedItem] = []
        for failure in failures:
            line = failure_line(failure.error, worker=terms.worker, at=datetime.now(UTC))
            queued = _failed(leased.by_key[failure.key].queued, line)
            if failure.is_final or queued.failures >= terms.failures_max:
                dead.append(queued._replace(not_before=0.0))
            else:
                due = time.time() + failure.delay_seconds if failure.delay_seconds > 0 else 0.0
                again.append(queued._replace(not_before=due))
        self._dead.add_dead(dead)
        self._send_again(self._topics.main, again)
        self._acknowledge(leased, keys)

    def _send_again(self, pair: TopicSubscription, queued_items: Iterable[QueuedItem]) -> None:
        """Publish items again. One that became too large for a message is a dead letter."""
        fitting = [queued.fitting() for queued in queued_items]
        self._dead.add_dead([queued for queued in fitting if queued.flaw])
        self._topics.send(pair, [queued for queued in fitting if not queued.flaw])

    def _release(self, leased: LeasedMessages, keys: Sequence[str]) -> None:
        if leased.pair == self._topics.alone:
            # Releasing a message would increase its delivery count; a new message starts at zero.
            self._topics.send(leased.pair, [leased.by_key[key].queued for key in keys])
            self._acknowledge(leased, keys)
        else:
            self._topics.hold(leased.pair, leased.ack_ids(keys), 0)
            leased.drop(keys)


def _with_possible_delay(queued: QueuedItem, now: float) -> QueuedItem:
    if queued.not_before > now + _RETENTION_SECONDS_MAX:
        return queued.with_flaw("its delay is longer than Pub/Sub keeps a message")
    return queued


def _failed(queued: QueuedItem, line: str) -> QueuedItem:
    errors = (*queued.errors, line)[-ERRORS_KEPT:]
    return queued._replace(failures=queued.failures + 1, errors=errors)


def _blamed(queued: QueuedItem, times: int) -> QueuedItem:
    line = failure_line(EXPIRED_ALONE, worker="unknown worker", at=datetime.now(UTC))
    for _ in range(times):
        queued = _failed(queued, line)
    return queued


def _item_bytes(item: Item) -> int:
    return text_bytes(item.key, item.payload)


@contextlib.contextmanager
def _rereadable(items: Publishable) -> Iterator[Publishable]:
    """Items that can be read twice. An iterator is copied to a temporary file."""
    if iter(items) is not items:
        yield items
        return
    with tempfile.SpooledTemporaryFile(_SPOOLED_IN_MEMORY_BYTES) as file:
        for item in as_items(items):
            file.write(json.dumps(item[:2]).encode() + b"\n")
        yield _Spooled(file)


class _Spooled:
    """The items in a file. Each iteration starts at the beginning."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def __iter__(self) -> Iterator[Item]:
        self._file.seek(0)
        for line in self._file:
            yield Item(*json.loads(line))
