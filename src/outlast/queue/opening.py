"""Open a queue by its URL."""

from importlib import import_module

from outlast.queue.errors import QueueUrlError
from outlast.queue.protocol import Queue

_BACKENDS = {
    "sqlite": "outlast.queue.sqlite:SQLiteQueue",
    "postgresql": "outlast.queue.postgres:PostgresQueue",
    "postgres": "outlast.queue.postgres:PostgresQueue",
    "pubsub": "outlast.queue.pubsub:PubSubQueue",
}


def open_queue(url: str) -> Queue:
    """Open the queue at `sqlite:///file`, `postgresql://...` or `pubsub://project/topic?...`.

    A queue that is not there yet is made, where the backend can.
    """
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in _BACKENDS:
        raise QueueUrlError(
            f"No queue can be opened at {url.partition('://')[0]!r:.100}.",
            hint="Use sqlite:///file, postgresql://host/database or "
            "pubsub://project/topic?subscription=name.",
        )
    module, _, name = _BACKENDS[scheme].partition(":")
    queue: Queue = getattr(import_module(module), name)(url)
    return queue
