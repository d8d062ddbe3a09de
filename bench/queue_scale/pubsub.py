"""Pub/Sub through our queue and through its own client, on Google's emulator.

The client publishes through its background batches and pulls with the calls that we use, and also
with its streaming pull. Both sides acknowledge each chunk before they pull the next one.
"""

import contextlib
import statistics
import threading
import time
import uuid

from google.cloud import pubsub_v1  # type: ignore[import-untyped]  # it has no types

from bench.measure import Row
from bench.queue.ours import TERMS
from bench.queue.system import PAYLOAD, numbered
from outlast.queue import Settlement, open_queue
from outlast.queue.items import Item
from tests.parts import PARTS
from tests.servers.pubsub import client_of, running_pubsub

ITEMS = 10_000
_CHUNK = 100
_PROJECT = "outlast-bench"


class Pace:
    """Items per second, published and pulled."""

    def __init__(self, publish: float, pull: float) -> None:
        self.publish = ITEMS / publish
        self.pull = ITEMS / pull


def rows(rounds: int) -> list[Row]:
    if not PARTS["pubsub-emulator"].works():
        return [Row("Pub/Sub", "not measured", "Google's emulator is not installed")]
    systems = {
        "outlast": _ours,
        "its own client, unary pull": _unary,
        "its own client, streaming pull": _streaming,
    }
    with running_pubsub() as emulator, client_of(emulator):
        for measure in systems.values():
            measure()
        seen: dict[str, list[Pace]] = {name: [] for name in systems}
        for _ in range(rounds):
            for name, measure in systems.items():
                seen[name].append(measure())
    return [_row(name, seen, call) for call in ("publish", "pull") for name in systems]


def _row(name: str, seen: dict[str, list[Pace]], call: str) -> Row:
    rate = statistics.median(getattr(pace, call) for pace in seen[name])
    pairs = zip(seen[name], seen["its own client, unary pull"], strict=True)
    share = statistics.median(getattr(one, call) / getattr(other, call) for one, other in pairs)
    what = "publish" if call == "publish" else f"pull and acknowledge, chunk {_CHUNK}"
    against = f"{share:.2f} x its own client, unary pull"
    return Row(f"Pub/Sub, {what}: {name}", f"{rate:,.0f} items/s", against)


def _ours() -> Pace:
    name = uuid.uuid4().hex
    with contextlib.closing(
        open_queue(f"pubsub://{_PROJECT}/t-{name}?subscription=s-{name}")
    ) as queue:
        items = [Item(key, payload) for key, payload in numbered(ITEMS)]
        started = time.perf_counter()
        queue.publish(items)
        published = time.perf_counter()
        count = 0
        lease = queue.claim(_CHUNK, TERMS)
        while lease is not None:
            count += len(lease.items)
            done = Settlement(done=tuple(item.key for item in lease.items))
            wanted = min(_CHUNK, ITEMS - count)
            lease = queue.settle(lease, done, TERMS, claim=wanted)
            if lease is None and wanted:
                lease = queue.claim(wanted, TERMS)
        assert count == ITEMS
        return Pace(published - started, time.perf_counter() - published)


def _unary() -> Pace:
    with _client() as (publish, subscriber, subscription):
        published = publish()
        started = time.perf_counter()
        count = 0
        while count < ITEMS:
            answer = subscriber.pull(subscription=subscription, max_messages=_CHUNK)
            ids = [message.ack_id for message in answer.received_messages]
            if ids:
                subscriber.acknowledge(subscription=subscription, ack_ids=ids)
            count += len(ids)
        return Pace(published, time.perf_counter() - started)


def _streaming() -> Pace:
    with _client() as (publish, subscriber, subscription):
        published = publish()
        ended = threading.Event()
        lock = threading.Lock()
        count = 0

        def receive(message: pubsub_v1.subscriber.message.Message) -> None:
            nonlocal count
            message.ack()
            with lock:
                count += 1
                if count == ITEMS:
                    ended.set()

        started = time.perf_counter()
        pulling = subscriber.subscribe(subscription, callback=receive)
        assert ended.wait(120)
        seconds = time.perf_counter() - started
        pulling.cancel()
        pulling.result()
        return Pace(published, seconds)


@contextlib.contextmanager
def _client():  # type: ignore[no-untyped-def]  # the library has no types
    publisher = pubsub_v1.PublisherClient()
    name = uuid.uuid4().hex
    with pubsub_v1.SubscriberClient() as subscriber:
        topic = publisher.topic_path(_PROJECT, f"t-{name}")
        subscription = subscriber.subscription_path(_PROJECT, f"s-{name}")
        publisher.create_topic(name=topic)
        subscriber.create_subscription(name=subscription, topic=topic, ack_deadline_seconds=60)

        def publish() -> float:
            data = [PAYLOAD.encode()] * ITEMS
            started = time.perf_counter()
            futures = [publisher.publish(topic, one, key=str(n)) for n, one in enumerate(data)]
            for future in futures:
                future.result()
            return time.perf_counter() - started

        yield publish, subscriber, subscription
    publisher.stop()
