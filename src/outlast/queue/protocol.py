"""The interface of queue backends.

Every backend passes `tests/contract/test_queue.py`. All methods can be called from any thread. A
method that cannot reach its server retries within bounds and then raises `QueueUnavailable`.
"""

from collections.abc import Callable, Generator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from outlast.queue.items import (
    DeadLetter,
    Item,
    Lease,
    LeaseTerms,
    Publishable,
    Published,
    QueueStats,
    Settlement,
)

StoreInTransaction: TypeAlias = Callable[[Any], None]
"""Stores results in the transaction of the given connection of the backend's driver.

Raises `StaleResults`, at once or when the transaction ends, if the sink holds newer results.
"""


class QueueGuarantees(NamedTuple):
    """What a backend guarantees. Workers handle the rest.

    `exact_counts`: `stats` counts every item, so a queue with none ready, delayed or leased is
    drained. `dedupes_keys`: an item that is published twice is in the queue once. `keeps_expired`:
    an expired lease can be extended and settled until a claim takes its items.
    """

    exact_counts: bool
    dedupes_keys: bool
    keeps_expired: bool = True


class Queue(Protocol):
    """A queue of items, opened by `open_queue`."""

    @property
    def url(self) -> str:
        """The URL, without the password."""

    @property
    def guarantees(self) -> QueueGuarantees: ...

    @property
    def database(self) -> str | None:
        """Identifies its database. A sink in the same one stores in the same transaction."""

    def publish(self, items: Publishable) -> Published:
        """Add all items or none. If killed: all or none of them were added.

        Backends without transactions may have added some of them; publishing again adds the rest.
        """

    def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        """Lease up to `limit` ready items, oldest first. None if no item is ready.

        Also ends expired leases and makes their items ready again. If killed: the lease expires.
        """

    def extend(self, lease: Lease, terms: LeaseTerms) -> Lease:
        """Extend the lease to `terms.lease_seconds` from now, or raise `LeaseLost`.

        An expired lease is lost only once a claim has taken its items.
        """

    def settle(
        self,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        *,
        storing: StoreInTransaction | None = None,
        claim: int = 0,
    ) -> Lease | None:
        """Acknowledge, fail and release items of a lease, and claim up to `claim` new ones.

        Everything happens or nothing, including `storing`. Raises `LeaseLost` if the lease is lost
        and `StaleResults` if the sink refuses a result. If killed: everything happened or nothing.
        """

    def stats(self) -> QueueStats: ...

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        """The first `limit` dead letters."""

    def iter_dead_letters(self) -> Generator[DeadLetter, None, None]:
        """All dead letters, without keeping them in memory. Close it if you stop early."""

    def retry_dead(
        self,
        keys: Sequence[str] | None = None,
        *,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> int:
        """Make dead letters ready again, with their failures reset: all, or those with these keys.

        Works in batches and reports the size of each. An item that becomes a dead letter again in
        the meantime is not retried twice. If killed: some are ready and the others still dead;
        repeating it retries the rest.
        """

    def close(self) -> None: ...


@runtime_checkable
class CheckingQueue(Queue, Protocol):
    """A queue with limits of its own, which can be checked before publishing."""

    def check(self, item: Item) -> None:
        """Raise `ItemRefused` if the queue cannot accept this item."""


@runtime_checkable
class LedgerQueue(Queue, Protocol):
    """A queue that cannot count its items, but may know which keys were published."""

    def published(self) -> int | None:
        """How many keys were ever published; None if they were not recorded."""

    def pages(self) -> Sequence[str]:
        """The names of the pages of published keys. A page never changes."""

    def keys_on(self, page: str) -> Sequence[str]: ...

    def dead_among(self, keys: Sequence[str]) -> AbstractSet[str]:
        """The keys among these that are dead letters."""
