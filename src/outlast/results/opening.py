"""Open a sink by its URL."""

from importlib import import_module

from outlast.results.errors import SinkUrlError
from outlast.results.protocol import Sink

_BACKENDS = {
    "sqlite": "outlast.results.sqlite:SQLiteSink",
    "postgresql": "outlast.results.postgres:PostgresSink",
    "postgres": "outlast.results.postgres:PostgresSink",
}


def open_sink(url: str) -> Sink:
    """Open the sink at `sqlite:///file#table`, `postgresql://...#table`, a folder or a bucket.

    A sink that is not there yet is made, where the backend can.
    """
    scheme = url.partition("://")[0] if "://" in url else ""
    if scheme == "pubsub":
        raise SinkUrlError(
            "A Pub/Sub topic cannot be a sink: it cannot say which keys are done.",
            hint="Use sqlite:///file, postgresql://host/database, gs://bucket/prefix or a folder.",
        )
    home = _BACKENDS.get(scheme, "outlast.results.objects:ObjectSink")
    module, _, name = home.partition(":")
    sink: Sink = getattr(import_module(module), name)(url)
    return sink
