"""Open a sink by its URL."""

from importlib import import_module

from outlast._redact import remember
from outlast.queue.protocol import Queue
from outlast.results.errors import SinkUrlError
from outlast.results.protocol import Sink

_BACKENDS = {
    "sqlite": "outlast.results.sqlite:SQLiteSink",
    "postgresql": "outlast.results.postgres:PostgresSink",
    "postgres": "outlast.results.postgres:PostgresSink",
}


def open_sink(url: str) -> Sink:
    """Open the sink at `sqlite:///file#table`, `postgresql://...#table`, a folder or a bucket URL.

    The sink is created if it does not exist. Raises `SinkUrlError` if the URL is invalid and
    `MissingExtra` if a package is not installed.
    """
    return _open(url)


def open_sink_beside(url: str, queue: Queue) -> Sink:
    """Open the sink of a worker.

    It shares the connection of the queue if both are at the same PostgreSQL address.
    """
    backend, _, _ = _BACKENDS.get(_scheme(url), "").partition(":")
    if backend == "outlast.results.postgres" and hasattr(queue, "shared_client"):
        return _open(url, beside=queue)
    return _open(url)


def _scheme(url: str) -> str:
    return url.partition("://")[0] if "://" in url else ""


def _open(url: str, **options: Queue) -> Sink:
    # A driver may quote just the password in an error.
    remember(url)
    scheme = _scheme(url)
    if scheme == "pubsub":
        raise SinkUrlError(
            "Pub/Sub cannot be used as a sink, because it cannot tell which keys are done.",
            hint="Use sqlite:///file, postgresql://host/database, gs://bucket/prefix or a folder.",
        )
    home = _BACKENDS.get(scheme, "outlast.results.objects:ObjectSink")
    module, _, name = home.partition(":")
    sink: Sink = getattr(import_module(module), name)(url, **options)
    return sink
