"""The three topics of a queue, each with its subscription, which are made when they are missed."""

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from outlast.queue.errors import QueueUnavailable
from outlast.queue.pubsub_client import Missing, NotHeld, PubSubClient, Received, Subscribed
from outlast.queue.pubsub_messages import Parcel, Place, decode, encode

log = logging.getLogger(__name__)

T = TypeVar("T")


class Pair(NamedTuple):
    """A topic, and the subscription from which its messages are pulled."""

    topic: str
    subscription: str


class Topics:
    """`main` holds the items, `alone` those that are given out one at a time, `dead` those that
    were given up. What is pulled stays with us until it is acknowledged, given back or expires.
    """

    def __init__(self, place: Place, *, retry_seconds: float) -> None:
        self.main = Pair(place.topic, place.subscription)
        self.alone = Pair(f"{place.topic}-alone", f"{place.subscription}-alone")
        self.dead = Pair(f"{place.topic}-dead", f"{place.subscription}-dead")
        self._project = place.project
        self._client = PubSubClient(place.project, retry_seconds=retry_seconds)
        self._subscribed = Subscribed()
        self._ensure()

    @property
    def ack_seconds(self) -> int:
        """For how long a message is held unless something else is asked for; 0 if not known."""
        return self._subscribed.ack_seconds

    def send(self, pair: Pair, parcels: Iterable[Parcel]) -> None:
        messages = [encode(parcel) for parcel in parcels]
        self._asking(lambda: self._client.publish(pair.topic, messages))

    def pull(self, pair: Pair, limit: int, *, wait_seconds: float | None = None) -> list[Received]:
        return self._asking(
            lambda: self._client.pull(pair.subscription, limit, wait_seconds=wait_seconds)
        )

    def acknowledge(self, pair: Pair, ack_ids: Sequence[str]) -> None:
        """Let go of messages for good, or raise `NotHeld`."""
        self._asking(lambda: self._client.acknowledge(pair.subscription, ack_ids))

    def hold(self, pair: Pair, ack_ids: Sequence[str], seconds: int) -> None:
        """Keep messages from others for so long from now, or raise `NotHeld`."""
        self._asking(lambda: self._client.hold(pair.subscription, ack_ids, seconds))

    def let_go(self, pair: Pair, messages: Sequence[Received]) -> None:
        """Acknowledge what is elsewhere by now; what cannot be is a copy that does no harm."""
        with contextlib.suppress(NotHeld):
            self.acknowledge(pair, [message.ack_id for message in messages])

    def give_back(self, pair: Pair, messages: Sequence[Received], *, in_seconds: int = 0) -> None:
        with contextlib.suppress(NotHeld):
            self.hold(pair, [message.ack_id for message in messages], in_seconds)

    def close(self) -> None:
        self._client.close()

    def _asking(self, act: Callable[[], T]) -> T:
        """Do this, and once more if something had to be made for it."""
        try:
            return act()
        except Missing:
            self._ensure()
        try:
            return act()
        except Missing as error:
            raise QueueUnavailable(
                f"A topic or a subscription of {self.main.topic!r} in project {self._project!r} is "
                "not there.",
                hint="Look whether somebody deletes it while it is in use.",
            ) from error

    def _ensure(self) -> None:
        self._client.ensure(*self.dead)
        self._client.ensure(*self.alone, dead_topic=self.dead.topic)
        self._subscribed = self._client.ensure(*self.main, dead_topic=self.dead.topic)
        if not self._subscribed.ack_seconds:
            return
        if not self._subscribed.delivers_exactly_once:
            log.warning(
                "The subscription %r does not deliver exactly once: a worker that loses its lease "
                "may not be told.",
                self.main.subscription,
            )
        if not self._subscribed.counts_deliveries:
            log.warning(
                "The subscription %r has no dead-letter topic, so it counts no deliveries: an item "
                "that kills its workers is not found.",
                self.main.subscription,
            )


def parcel_of(message: Received) -> Parcel:
    return decode(message.data, message.attributes, message.message_id)
