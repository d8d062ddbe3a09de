"""Where results are kept: each under its key, once, however often it is stored."""

from outlast.results.errors import ResultDamaged, SinkUnavailable, SinkUrlError
from outlast.results.opening import open_sink
from outlast.results.protocol import Result, Sink

__all__ = ["Result", "ResultDamaged", "Sink", "SinkUnavailable", "SinkUrlError", "open_sink"]
