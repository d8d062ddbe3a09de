"""The messages that a lease of a Pub/Sub queue still holds."""

import contextlib
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from outlast.queue.errors import LeaseLost
from outlast.queue.items import Lease, LeaseTerms, Settlement
from outlast.queue.pubsub.client import ACK_SECONDS_MAX, MessagesNotHeld
from outlast.queue.pubsub.messages import QueuedItem
from outlast.queue.pubsub.topics import TopicSubscription


class HeldMessage(NamedTuple):
    ack_id: str
    queued: QueuedItem


class LeasedMessages:
    """The messages a lease still holds, by key. Shared by all copies of the lease."""

    def __init__(
        self, pair: TopicSubscription, by_key: dict[str, HeldMessage], expires: float
    ) -> None:
        self.pair = pair
        self.by_key = by_key
        self.expires = expires
        self.unfinished: Settlement | None = None
        # The heartbeat must not extend messages that are being acknowledged.
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def changing(self, lease: Lease) -> Iterator["LeasedMessages"]:
        """One caller at a time. If Pub/Sub reports some messages as lost, all of them are."""
        with self._lock:
            try:
                yield self
            except MessagesNotHeld:
                self.expires = -math.inf
                raise _lost(lease) from None

    def check(self, lease: Lease, keys: Sequence[str]) -> None:
        """Raise `LeaseLost` if the lease is lost or does not hold each of these keys once.

        An expired lease may still be ours: only Pub/Sub knows, and reports it.
        """
        if (
            self.expires == -math.inf
            or not self.by_key
            or len(set(keys)) < len(keys)
            or not self.by_key.keys() >= set(keys)
        ):
            raise _lost(lease)

    def rest_of(self, lease: Lease, settlement: Settlement) -> Settlement:
        """What is left to settle: everything, unless an earlier try was interrupted."""
        rest = settlement
        if self.unfinished == settlement:
            held = self.by_key
            rest = Settlement(
                tuple(key for key in settlement.done if key in held),
                tuple(failure for failure in settlement.failed if failure.key in held),
                tuple(key for key in settlement.released if key in held),
            )
        failed = (failure.key for failure in rest.failed)
        self.check(lease, (*rest.done, *failed, *rest.released))
        self.unfinished = settlement
        return rest

    def ack_ids(self, keys: Iterable[str]) -> list[str]:
        return [self.by_key[key].ack_id for key in keys]

    def drop(self, keys: Iterable[str]) -> None:
        for key in keys:
            del self.by_key[key]


def leased_messages(lease: Lease) -> LeasedMessages:
    leased: LeasedMessages = lease.handle
    return leased


def _lost(lease: Lease) -> LeaseLost:
    return LeaseLost.of(f"The lease on {len(lease.items)} messages")


def lease_seconds(terms: LeaseTerms) -> int:
    """The duration of a lease in whole seconds, as Pub/Sub requires."""
    seconds = max(1, math.ceil(terms.lease_seconds))
    if seconds > ACK_SECONDS_MAX:
        raise ValueError(
            f"Expected lease_seconds of at most {ACK_SECONDS_MAX} with Pub/Sub, got "
            f"{terms.lease_seconds!r}."
        )
    return seconds
