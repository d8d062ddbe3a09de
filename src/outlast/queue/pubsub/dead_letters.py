"""The dead letters of a Pub/Sub queue: in the ledger if there is one, else in their own topic.

Pub/Sub itself moves a message to that topic after a hundred deliveries.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from outlast._base.batches import batched, text_bytes
from outlast.queue.items import DeadLetter
from outlast.queue.pubsub.client import PulledMessage
from outlast.queue.pubsub.ledger import Ledger
from outlast.queue.pubsub.messages import QueuedItem
from outlast.queue.pubsub.topics import Topics, decode_pulled

_AT_ONCE = 100


class DeadLetters:
    """If killed: nothing is lost, but an item may be both a dead letter and retried."""

    def __init__(self, topics: Topics, ledger: Ledger | None) -> None:
        self._topics = topics
        self._ledger = ledger

    def add_dead(self, queued_items: Sequence[QueuedItem]) -> None:
        if self._ledger is not None:
            self._ledger.add_dead(DeadLetter(queued.item, queued.errors) for queued in queued_items)
        else:
            self._topics.send(self._topics.dead, [queued.fitting() for queued in queued_items])

    def count(self) -> int | None:
        """Their number; None without a ledger, because Pub/Sub does not count."""
        if self._ledger is None:
            return None
        self._collect(self._ledger)
        return self._ledger.dead_count()

    def among(self, keys: Sequence[str]) -> set[str]:
        """The keys among these that are dead letters; none without a ledger."""
        if self._ledger is None:
            return set()
        self._collect(self._ledger)
        return self._ledger.dead_among(keys)

    def letters(self) -> Iterator[DeadLetter]:
        """All of them, a few at a time. Messages from the topic are released at the end."""
        if self._ledger is not None:
            self._collect(self._ledger)
            yield from self._ledger.dead_letters()
            return
        with self._holding() as held:
            for messages in self._pulled(held):
                yield from map(_letter, messages)

    def retry(self, keys: Sequence[str] | None, on_progress: Callable[[int], object]) -> int:
        """Publish those with these keys, or all of them, as new items, each at most once."""
        wanted = None if keys is None else set(keys)
        source = self._retry_from_topic if self._ledger is None else self._retry_from_ledger
        count = 0
        for retried in source(lambda key: wanted is None or key in wanted):
            count += retried
            on_progress(retried)
        return count

    def _retry_from_ledger(self, is_wanted: Callable[[str], bool]) -> Iterator[int]:
        assert self._ledger is not None
        self._collect(self._ledger)
        wanted = (one for one in self._ledger.dead_letters() if is_wanted(one.item.key))
        for letters in batched(wanted, _bytes, count_max=_AT_ONCE):
            self._publish(letters)
            self._ledger.remove_dead(letters)
            yield len(letters)

    def _retry_from_topic(self, is_wanted: Callable[[str], bool]) -> Iterator[int]:
        retried: set[str] = set()
        with self._holding() as held:
            for messages in self._pulled(held):
                # One that was already retried has failed again since, and stays dead.
                found = {
                    message.message_id: letter
                    for message in messages
                    if is_wanted((letter := _letter(message)).item.key)
                    and letter.item.key not in retried
                }
                by_key = {letter.item.key: letter for letter in found.values()}
                if by_key:
                    self._publish(by_key.values())
                    done = [one for one in messages if one.message_id in found]
                    self._topics.acknowledge_moved(self._topics.dead, done)
                    for message in done:
                        del held[message.message_id]
                    retried.update(by_key)
                    yield len(by_key)

    @contextlib.contextmanager
    def _holding(self) -> Iterator[dict[str, PulledMessage]]:
        """Pulled messages by ID, which are released at the end of the block."""
        held: dict[str, PulledMessage] = {}
        try:
            yield held
        finally:
            self._topics.release(self._topics.dead, list(held.values()))

    def _pulled(self, held: dict[str, PulledMessage]) -> Iterator[list[PulledMessage]]:
        """All messages of the topic, a few at a time and each once."""
        while received := self._topics.pull(self._topics.dead, _AT_ONCE):
            new = [message for message in received if message.message_id not in held]
            # Only what is needed to release them is kept.
            held.update((one.message_id, one._replace(data=b"")) for one in received)
            if not new:
                return
            yield new

    def _collect(self, ledger: Ledger) -> None:
        """Record the messages that Pub/Sub itself moved to the dead topic."""
        while pulled := self._topics.pull(self._topics.dead, _AT_ONCE):
            ledger.add_dead(map(_letter, pulled))
            self._topics.acknowledge_moved(self._topics.dead, pulled)

    def _publish(self, letters: Iterable[DeadLetter]) -> None:
        queued_items = (QueuedItem(letter.item.key, letter.item.payload) for letter in letters)
        self._topics.send(self._topics.main, queued_items)


def _letter(message: PulledMessage) -> DeadLetter:
    queued = decode_pulled(message)
    errors = queued.errors
    if deliveries := message.attributes.get("CloudPubSubDeadLetterSourceDeliveryCount"):
        errors = (
            *errors,
            f"Pub/Sub delivered it {deliveries:.10} times without an acknowledgment.",
        )
    return DeadLetter(queued.item, errors)


def _bytes(letter: DeadLetter) -> int:
    return text_bytes(letter.item.key, letter.item.payload)
