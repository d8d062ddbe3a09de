"""Open a queue by its URL."""

from importlib import import_module

from outlast._redact import redact, remember
from outlast.queue.errors import QueueUrlError
from outlast.queue.protocol import Queue

_BACKENDS = {
    "sqlite": "outlast.queue.sqlite.queue:SQLiteQueue",
    "postgresql": "outlast.queue.postgres.queue:PostgresQueue",
    "postgres": "outlast.queue.postgres.queue:PostgresQueue",
    "pubsub": "outlast.queue.pubsub.queue:PubSubQueue",
}


def open_queue(url: str) -> Queue:
    """Open the queue at `sqlite:///file`, `postgresql://...` or `pubsub://project/topic?...`.

    The queue is created if it does not exist. Raises `QueueUrlError` if the URL is invalid and
    `MissingExtra` if a package is not installed.
    """
    # A driver may quote just the password in an error.
    remember(url)
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme not in _BACKENDS:
        raise QueueUrlError(
            f"Unsupported queue URL: {redact(url.partition('://')[0])!r:.100}.",
            hint="Use sqlite:///file, postgresql://host/database or "
            "pubsub://project/topic?subscription=name.",
        )
    module, _, name = _BACKENDS[scheme].partition(":")
    queue: Queue = getattr(import_module(module), name)(url)
    return queue
