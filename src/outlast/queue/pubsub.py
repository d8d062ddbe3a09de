"""A queue in Google Cloud Pub/Sub.

Pub/Sub delivers again what is not acknowledged, but it counts nothing, knows no keys and changes no
message. So the rest is done here:

- An item that failed is published anew with its failures counted, then the old message goes. If
  killed in between: both are there, and the sink tells the second that it is done.
- A message that came back several times may kill its workers, or was released often. It moves to
  the topic `NAME-alone`, whose messages are given out one at a time. If it comes back from there
  without having been released, that is its failure.
- Items that were given up are kept in the topic `NAME-dead`, or in the ledger.

With `ledger=URL` (a folder or a bucket), the published keys are written down: known keys are not
published again, and it can be told when all are done.
"""

import contextlib
import itertools
import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from outlast.queue.blame import ERRORS_KEPT, EXPIRED_ALONE, next_token, remembered
from outlast.queue.errors import LeaseLost, QueueUnavailable
from outlast.queue.items import (
    DeadLetter,
    Failure,
    Item,
    Lease,
    Outcome,
    Publishable,
    Published,
    Stats,
    Terms,
    as_items,
)
from outlast.queue.ledger import Ledger
from outlast.queue.protocol import Promises, Storing
from outlast.queue.pubsub_client import ACK_SECONDS_MAX, NotHeld, Received
from outlast.queue.pubsub_dead import DeadLetters
from outlast.queue.pubsub_messages import Parcel, encode, parse_place
from outlast.queue.pubsub_topics import Pair, Topics, parcel_of

_SUSPICIOUS_DELIVERIES = 5
_ALONE_SECONDS = 20.0
_BATCH_ITEMS = 10_000
_PULLS_MAX = 5

_token_lock = threading.Lock()
_last_token = 0


class PubSubQueue:
    """The topic and the subscription of `pubsub://project/topic?subscription=name&ledger=URL`.

    They are made if they are not there. `wait_seconds` is how long a claim waits for a message;
    `retry_seconds` bounds how long a call tries to reach a service that does not answer.
    """

    def __init__(self, url: str, *, retry_seconds: float = 10.0, wait_seconds: float = 5.0) -> None:
        self._url = url
        place = parse_place(url)
        self._wait_seconds = wait_seconds
        self._ledger = Ledger(place.ledger) if place.ledger else None
        self._topics = Topics(place, retry_seconds=retry_seconds)
        self._dead = DeadLetters(self._topics, self._ledger)
        self._alone_due = -math.inf

    @property
    def url(self) -> str:
        return self._url

    @property
    def promises(self) -> Promises:
        return Promises(exact_counts=False, dedupes_keys=self._ledger is not None)

    @property
    def place(self) -> None:
        return None

    def publish(self, items: Publishable) -> Published:
        """Publish all items, unless one of them is refused.

        If killed: a part is published. With a ledger, repeating it publishes the rest, and perhaps
        a few items again; without one, all of them again.
        """
        # Looked at as a whole first, so that a bad item keeps the others out.
        source = list(as_items(items)) if iter(items) is items else items
        for item in as_items(source):
            encode(Parcel(item.key, item.payload))
        added = known = 0
        for batch in _batches(as_items(source)):
            new = self._publish(batch)
            added += new
            known += len(batch) - new
        return Published(added, known)

    def claim(self, limit: int, terms: Terms) -> Lease | None:
        """Lease up to `limit` items. None says nothing: messages may be there and not have come."""
        if time.monotonic() >= self._alone_due:
            # Looked for again at once while there are any, and when there is nothing else to do.
            if (lease := self._claim_alone(terms)) is not None:
                return lease
            self._alone_due = time.monotonic() + _ALONE_SECONDS
        lease = self._claim_some(limit, terms)
        if lease is None:
            self._alone_due = -math.inf
        return lease

    def extend(self, lease: Lease, terms: Terms) -> Lease:
        seconds = _seconds(terms)
        with _holding(lease).changing(lease) as holding:
            holding.check(lease, ())
            started = time.monotonic()
            self._topics.hold(holding.pair, holding.ack_ids(holding.by_key), seconds)
            holding.expires = started + seconds
            return lease._replace(expires=holding.expires)

    def settle(
        self,
        lease: Lease,
        outcome: Outcome,
        terms: Terms,
        *,
        storing: Storing | None = None,
        claim: int = 0,
    ) -> Lease | None:
        """Acknowledge, fail and release items of a lease, one after the other, then claim.

        Pub/Sub has no transactions. If killed: what was not settled comes back when its lease
        expires, and a failed item may be there twice. After `QueueUnavailable`, settling the same
        outcome again goes on where it stopped.
        """
        if storing is not None:
            raise ValueError("Pub/Sub has no transactions in which results could be stored.")
        with _holding(lease).changing(lease) as holding:
            rest = holding.rest_of(lease, outcome)
            self._acknowledge(holding, rest.done)
            self._fail(holding, rest.failed, terms)
            self._release(holding, rest.released)
            holding.unfinished = None
        try:
            return self.claim(claim, terms) if claim else None
        except QueueUnavailable:
            # The lease is settled, and saying so matters more than the next one.
            return None

    def stats(self) -> Stats:
        """Of all that could be counted, the ledger knows the dead letters."""
        return Stats(None, None, None, None, self._dead.count(), None, None)

    def published(self) -> int | None:
        return None if self._ledger is None else self._ledger.count()

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        return self._dead.letters(limit)

    def retry_dead(self, keys: Sequence[str] | None = None) -> int:
        """Make dead letters ready again. If killed: some may be both, and none is lost."""
        return self._dead.retry(keys)

    def close(self) -> None:
        self._topics.close()

    def _publish(self, batch: Sequence[Item]) -> int:
        """Publish those of a batch that are new, and write them down; gives how many they were."""
        if self._ledger is None:
            self._publish_items(batch)
            return len(batch)
        unknown = self._ledger.unknown(item.key for item in batch)
        new = {item.key: item for item in reversed(batch) if item.key in unknown}
        # Written down afterwards: a key that is there was published, whatever happens here.
        self._publish_items(reversed(new.values()))
        return self._ledger.record(list(reversed(new)))

    def _publish_items(self, items: Iterable[Item]) -> None:
        parcels = (Parcel(item.key, item.payload) for item in items)
        self._topics.send(self._topics.main, parcels)

    def _claim_some(self, limit: int, terms: Terms) -> Lease | None:
        main = self._topics.main
        for _ in range(_PULLS_MAX):
            started = time.monotonic()
            received = self._topics.pull(main, limit, wait_seconds=self._wait_seconds)
            if not received:
                return None
            if by_key := self._sorted(received):
                return self._lease(_Holding(main, by_key, started), terms)
        return None

    def _claim_alone(self, terms: Terms) -> Lease | None:
        """One that must be by itself. That it came back without a release is its failure."""
        alone = self._topics.alone
        for _ in range(_PULLS_MAX):
            started = time.monotonic()
            received = self._topics.pull(alone, 1)
            if not received:
                return None
            [message] = received
            parcel = _blamed(parcel_of(message), message.attempt - 1)
            if parcel.failures < terms.failures_max:
                by_key = {parcel.key: _Held(message.ack_id, parcel)}
                return self._lease(_Holding(alone, by_key, started), terms)
            self._dead.bury([parcel])
            self._topics.let_go(alone, received)
        return None

    def _sorted(self, received: Sequence[Received]) -> "dict[str, _Held]":
        """Those that can be worked on now, by key; the others are put where they belong."""
        now = time.time()
        by_key: dict[str, _Held] = {}
        suspects: list[Received] = []
        copies: list[Received] = []
        for message in received:
            parcel = parcel_of(message)
            if parcel.not_before > now:
                seconds = min(math.ceil(parcel.not_before - now), ACK_SECONDS_MAX)
                self._topics.give_back(self._topics.main, [message], in_seconds=seconds)
            elif message.attempt > _SUSPICIOUS_DELIVERIES:
                suspects.append(message)
            elif parcel.key in by_key:
                copies.append(message)
            else:
                by_key[parcel.key] = _Held(message.ack_id, parcel)
        self._topics.send(self._topics.alone, map(parcel_of, suspects))
        self._topics.let_go(self._topics.main, [*suspects, *copies])
        return by_key

    def _lease(self, holding: "_Holding", terms: Terms) -> Lease | None:
        """A lease on what was just pulled, for as long as it is wanted."""
        seconds = _seconds(terms)
        if seconds != self._topics.ack_seconds:
            holding.expires = time.monotonic()
            try:
                self._topics.hold(holding.pair, holding.ack_ids(holding.by_key), seconds)
            except NotHeld:
                return None
        holding.expires += seconds
        items = tuple(held.parcel.item for held in holding.by_key.values())
        return Lease(_next_token(), items, holding.expires, holding)

    def _acknowledge(self, holding: "_Holding", keys: Iterable[str]) -> None:
        self._topics.acknowledge(holding.pair, holding.ack_ids(keys))
        holding.drop(keys)

    def _fail(self, holding: "_Holding", failures: Sequence[Failure], terms: Terms) -> None:
        keys = [failure.key for failure in failures]
        # Nothing is said of items that others may work on by now.
        self._topics.hold(holding.pair, holding.ack_ids(keys), _seconds(terms))
        dead: list[Parcel] = []
        again: list[Parcel] = []
        for failure in failures:
            line = remembered(failure.error, worker=terms.worker, at=datetime.now(UTC))
            parcel = _failed(holding.by_key[failure.key].parcel, line)
            if failure.is_final or parcel.failures >= terms.failures_max:
                dead.append(parcel._replace(not_before=0.0))
            else:
                due = time.time() + failure.delay_seconds if failure.delay_seconds > 0 else 0.0
                again.append(parcel._replace(not_before=due))
        self._dead.bury(dead)
        self._topics.send(self._topics.main, again)
        self._acknowledge(holding, keys)

    def _release(self, holding: "_Holding", keys: Sequence[str]) -> None:
        if holding.pair == self._topics.alone:
            # A message that is given back counts as delivered once more, a new one does not.
            self._topics.send(holding.pair, [holding.by_key[key].parcel for key in keys])
            self._acknowledge(holding, keys)
        else:
            self._topics.hold(holding.pair, holding.ack_ids(keys), 0)
            holding.drop(keys)


class _Held(NamedTuple):
    ack_id: str
    parcel: Parcel


class _Holding:
    """What a lease still holds, by key. Shared by all copies of the lease."""

    def __init__(self, pair: Pair, by_key: dict[str, _Held], expires: float) -> None:
        self.pair = pair
        self.by_key = by_key
        self.expires = expires
        self.unfinished: Outcome | None = None
        # A heartbeat must not extend what is being acknowledged.
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def changing(self, lease: Lease) -> Iterator["_Holding"]:
        """One at a time. Once Pub/Sub says that some of it is lost, all of it is."""
        with self._lock:
            try:
                yield self
            except NotHeld:
                self.expires = -math.inf
                raise _lost(lease) from None

    def check(self, lease: Lease, keys: Sequence[str]) -> None:
        """Refuse what has ended, or does not hold these keys once each."""
        if (
            time.monotonic() >= self.expires
            or not self.by_key
            or len(set(keys)) < len(keys)
            or not self.by_key.keys() >= set(keys)
        ):
            raise _lost(lease)

    def rest_of(self, lease: Lease, outcome: Outcome) -> Outcome:
        """What is left to do of an outcome: all of it, unless a try of it was cut short."""
        rest = outcome
        if self.unfinished == outcome:
            held = self.by_key
            rest = Outcome(
                tuple(key for key in outcome.done if key in held),
                tuple(failure for failure in outcome.failed if failure.key in held),
                tuple(key for key in outcome.released if key in held),
            )
        failed = (failure.key for failure in rest.failed)
        self.check(lease, (*rest.done, *failed, *rest.released))
        self.unfinished = outcome
        return rest

    def ack_ids(self, keys: Iterable[str]) -> list[str]:
        return [self.by_key[key].ack_id for key in keys]

    def drop(self, keys: Iterable[str]) -> None:
        for key in keys:
            del self.by_key[key]


def _holding(lease: Lease) -> _Holding:
    holding: _Holding = lease.handle
    return holding


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost(
        f"The lease {lease.token} no longer holds these items.",
        hint="Others may work on them. Raise lease_seconds if items take longer than that.",
    )


def _seconds(terms: Terms) -> int:
    """The length of a lease as Pub/Sub takes it."""
    seconds = max(1, math.ceil(terms.lease_seconds))
    if seconds > ACK_SECONDS_MAX:
        raise ValueError(
            f"lease_seconds is {terms.lease_seconds!r}; Pub/Sub holds messages for at most "
            f"{ACK_SECONDS_MAX} seconds at once."
        )
    return seconds


def _next_token() -> int:
    """By the wall clock: no number is shared by all who claim."""
    global _last_token
    with _token_lock:
        _last_token = next_token(_last_token, wall_seconds=time.time())
        return _last_token


def _failed(parcel: Parcel, line: str) -> Parcel:
    errors = (*parcel.errors, line)[-ERRORS_KEPT:]
    return parcel._replace(failures=parcel.failures + 1, errors=errors)


def _blamed(parcel: Parcel, times: int) -> Parcel:
    line = remembered(EXPIRED_ALONE, worker="some worker", at=datetime.now(UTC))
    for _ in range(times):
        parcel = _failed(parcel, line)
    return parcel


def _batches(items: Iterator[Item]) -> Iterator[list[Item]]:
    while batch := list(itertools.islice(items, _BATCH_ITEMS)):
        yield batch
