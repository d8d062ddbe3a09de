"""The seam between workers and queue backends.

Every backend passes `tests/contract/test_queue.py`. All methods may be called from any thread.
A method that cannot reach its server retries within bounds and then raises `QueueUnavailable`.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from outlast.queue.items import (
    DeadLetter,
    Lease,
    Outcome,
    Publishable,
    Published,
    Stats,
    Terms,
)

Storing: TypeAlias = Callable[[Any], None]
"""Stores results within the transaction it is given: a connection of the backend's driver."""


class Promises(NamedTuple):
    """What a backend can promise; workers cope with the rest.

    `exact_counts`: `stats` counts every item, so nothing ready and nothing leased means drained.
    `dedupes_keys`: an item published twice is there once.
    """

    exact_counts: bool
    dedupes_keys: bool


class Queue(Protocol):
    @property
    def url(self) -> str:
        """Where it is, without the password."""

    @property
    def promises(self) -> Promises: ...

    @property
    def place(self) -> str | None:
        """The database it lives in. A sink of the same place stores in the same transaction."""

    def publish(self, items: Publishable) -> Published:
        """Add all items, or none. If killed: none, or all; repeating it adds what is missing.

        Backends without transactions may be left with a part after a kill; repeating adds the rest.
        """

    def claim(self, limit: int, terms: Terms) -> Lease | None:
        """Lease up to `limit` ready items, oldest first. None if none is ready now.

        Leases that expired are ended here, and their items come back. If killed: the lease expires.
        """

    def extend(self, lease: Lease, terms: Terms) -> Lease:
        """Hold on to the lease for another `terms.lease_seconds` from now, or raise `LeaseLost`."""

    def settle(
        self,
        lease: Lease,
        outcome: Outcome,
        terms: Terms,
        *,
        storing: Storing | None = None,
        claim: int = 0,
    ) -> Lease | None:
        """Acknowledge, fail and release items of a lease, and claim up to `claim` in the same go.

        All of it happens or nothing, `storing` included; if the lease is lost, nothing does, and
        `LeaseLost` is raised. If killed: nothing happened, or all of it.
        """

    def stats(self) -> Stats: ...

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]: ...

    def retry_dead(self, keys: Sequence[str] | None = None) -> int:
        """Make dead letters ready again with no failures counted; all of them, or those named."""

    def close(self) -> None: ...


@runtime_checkable
class LedgerQueue(Queue, Protocol):
    """A queue that cannot count what it holds, but may know what was ever published into it."""

    def published(self) -> int | None:
        """How many keys were ever published; None if nobody wrote them down."""
