"""The three topics of a queue and their subscriptions, created when they are missing."""

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from outlast._base.logs import get_logger
from outlast.queue.errors import QueueUnavailable
from outlast.queue.pubsub.client import (
    MessagesNotHeld,
    PubSubClient,
    PulledMessage,
    SubscriptionInfo,
    TopicMissing,
)
from outlast.queue.pubsub.messages import PubSubAddress, QueuedItem, decode, encode

log = get_logger(__name__)

T = TypeVar("T")


class TopicSubscription(NamedTuple):
    """A topic and the subscription its messages are pulled from."""

    topic: str
    subscription: str


class Topics:
    """`main` holds the items, `alone` items that are delivered one at a time, and `dead` the dead
    letters. Pulled messages are ours until they are acknowledged, released or expire.
    """

    def __init__(self, place: PubSubAddress, *, retry_seconds: float) -> None:
        self.main = TopicSubscription(place.topic, place.subscription)
        self.alone = TopicSubscription(f"{place.topic}-alone", f"{place.subscription}-alone")
        self.dead = TopicSubscription(f"{place.topic}-dead", f"{place.subscription}-dead")
        self._project = place.project
        self._client = PubSubClient(place.project, retry_seconds=retry_seconds)
        self._subscribed = SubscriptionInfo()
        self._ensure()

    @property
    def ack_seconds(self) -> int:
        """The default acknowledgment deadline; 0 if unknown."""
        return self._subscribed.ack_seconds

    def send(self, pair: TopicSubscription, queued_items: Iterable[QueuedItem]) -> None:
        messages = [encode(queued) for queued in queued_items]
        self._asking(lambda: self._client.publish(pair.topic, messages))

    def pull(
        self, pair: TopicSubscription, limit: int, *, wait_seconds: float | None = None
    ) -> list[PulledMessage]:
        return self._asking(
            lambda: self._client.pull(pair.subscription, limit, wait_seconds=wait_seconds)
        )

    def acknowledge(self, pair: TopicSubscription, ack_ids: Sequence[str]) -> None:
        """Acknowledge messages, or raise `MessagesNotHeld`."""
        self._asking(lambda: self._client.acknowledge(pair.subscription, ack_ids))

    def hold(self, pair: TopicSubscription, ack_ids: Sequence[str], seconds: int) -> None:
        """Hold messages for this many seconds from now, or raise `MessagesNotHeld`."""
        self._asking(lambda: self._client.hold(pair.subscription, ack_ids, seconds))

    def acknowledge_moved(self, pair: TopicSubscription, messages: Sequence[PulledMessage]) -> None:
        """Acknowledge messages that were moved. Failures are ignored: a copy does no harm."""
        with contextlib.suppress(MessagesNotHeld):
            self.acknowledge(pair, [message.ack_id for message in messages])

    def release(
        self, pair: TopicSubscription, messages: Sequence[PulledMessage], *, in_seconds: int = 0
    ) -> None:
        with contextlib.suppress(MessagesNotHeld):
            self.hold(pair, [message.ack_id for message in messages], in_seconds)

    def close(self) -> None:
        self._client.close()

    def _asking(self, act: Callable[[], T]) -> T:
        """Call, and call once more if a topic or subscription had to be created."""
        try:
            return act()
        except TopicMissing:
            self._ensure()
        try:
            return act()
        except TopicMissing as error:
            raise QueueUnavailable(
                f"A topic or subscription of {self.main.topic!r} in project {self._project!r} does "
                "not exist.",
                hint="Check whether something deletes it while it is in use.",
            ) from error

    def _ensure(self) -> None:
        self._client.ensure(*self.dead)
        self._client.ensure(*self.alone, dead_topic=self.dead.topic)
        self._subscribed = self._client.ensure(*self.main, dead_topic=self.dead.topic)
        if not self._subscribed.ack_seconds:
            return
        if not self._subscribed.delivers_exactly_once:
            log.warning(
                "Subscription %r does not use exactly-once delivery, so a worker may not notice "
                "that it lost its lease.",
                self.main.subscription,
            )
        if not self._subscribed.counts_deliveries:
            log.warning(
                "Subscription %r has no dead-letter topic, so deliveries are not counted and an "
                "item that kills its workers is not detected.",
                self.main.subscription,
            )


def decode_pulled(message: PulledMessage) -> QueuedItem:
    return decode(message.data, message.attributes, message.message_id)
