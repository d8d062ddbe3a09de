"""Items that were given up: in a topic of their own, or, where there is one, in the ledger.

Pub/Sub gives up a message by itself after a hundred deliveries, and puts it into that topic too.
"""

from collections.abc import Iterable, Sequence

from outlast.queue.items import DeadLetter
from outlast.queue.ledger import Ledger
from outlast.queue.pubsub_client import Received
from outlast.queue.pubsub_messages import Parcel
from outlast.queue.pubsub_topics import Topics, parcel_of

_AT_ONCE = 100


class DeadLetters:
    """Nothing is lost if this is killed: an item may then be both given up and tried again."""

    def __init__(self, topics: Topics, ledger: Ledger | None) -> None:
        self._topics = topics
        self._ledger = ledger

    def bury(self, parcels: Sequence[Parcel]) -> None:
        if self._ledger is not None:
            self._ledger.bury(DeadLetter(parcel.item, parcel.errors) for parcel in parcels)
        else:
            self._topics.send(self._topics.dead, parcels)

    def count(self) -> int | None:
        """How many there are; None without a ledger, because Pub/Sub does not count."""
        if self._ledger is None:
            return None
        self._collect(self._ledger)
        return self._ledger.dead_count()

    def letters(self, limit: int) -> list[DeadLetter]:
        if self._ledger is not None:
            self._collect(self._ledger)
            return self._ledger.dead_letters(limit)
        pulled = self._pull(limit)
        self._topics.give_back(self._topics.dead, pulled)
        return [_letter(message) for message in pulled]

    def retry(self, keys: Sequence[str] | None) -> int:
        """Publish those with these keys, or all, as new items."""
        if self._ledger is not None:
            self._collect(self._ledger)
            letters = _named(self._ledger.dead_letters(), keys)
            self._publish(letters)
            self._ledger.forgive(letters)
            return len(letters)
        pulled = self._pull(None)
        letters = _named(map(_letter, pulled), keys)
        self._publish(letters)
        retried = {letter.item.key for letter in letters}
        done = [message for message in pulled if parcel_of(message).key in retried]
        rest = [message for message in pulled if parcel_of(message).key not in retried]
        self._topics.let_go(self._topics.dead, done)
        self._topics.give_back(self._topics.dead, rest)
        return len(letters)

    def _collect(self, ledger: Ledger) -> None:
        """Write down what Pub/Sub itself gave up."""
        while pulled := self._pull(_AT_ONCE):
            ledger.bury(map(_letter, pulled))
            self._topics.let_go(self._topics.dead, pulled)

    def _pull(self, limit: int | None) -> list[Received]:
        pulled: list[Received] = []
        while limit is None or len(pulled) < limit:
            wanted = _AT_ONCE if limit is None else limit - len(pulled)
            received = self._topics.pull(self._topics.dead, wanted)
            if not received:
                break
            pulled += received
        return pulled

    def _publish(self, letters: Iterable[DeadLetter]) -> None:
        parcels = (Parcel(letter.item.key, letter.item.payload) for letter in letters)
        self._topics.send(self._topics.main, parcels)


def _letter(message: Received) -> DeadLetter:
    parcel = parcel_of(message)
    errors = parcel.errors
    if deliveries := message.attributes.get("CloudPubSubDeadLetterSourceDeliveryCount"):
        errors = (*errors, f"Pub/Sub delivered it {deliveries:.10} times, and nobody settled it.")
    return DeadLetter(parcel.item, errors)


def _named(letters: Iterable[DeadLetter], keys: Sequence[str] | None) -> list[DeadLetter]:
    """Of the letters, those with these keys, one for each."""
    wanted = None if keys is None else set(keys)
    by_key = {letter.item.key: letter for letter in letters}
    return [letter for key, letter in by_key.items() if wanted is None or key in wanted]
