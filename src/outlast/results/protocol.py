"""The interface of sinks, which store results.

A result is stored under its key, so storing it twice leaves one. Every sink passes
`tests/contract/test_sink.py`. All methods can be called from any thread.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol, runtime_checkable

from outlast.queue.protocol import StoreInTransaction


class Result(NamedTuple):
    """A result as JSON text, with the key of its item."""

    key: str
    payload: str


class Sink(Protocol):
    """A store for results, opened by `open_sink`.

    `version` identifies what results depend on besides the item: a result of another version does
    not count as done and is replaced.

    `queue` and `token` come from the lease and fence the results. Within a queue, the result with
    the larger token stays. Between queues, the result of the newer run stays: a run is one version
    of one queue, and the sink numbers runs (its epochs) in the order in which they first store
    here. A worker that returns to an earlier version of its queue starts a new run. No clock is
    used.
    """

    @property
    def url(self) -> str:
        """The URL, without the password."""

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        """The keys among these that have a result of this version, in one round trip."""

    def store(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> AbstractSet[str]:
        """Store all results. Returns the keys that were refused because newer results exist.

        If killed: each result is stored completely or not at all; storing again adds the rest.
        """

    def count(self, *, version: str | None = None) -> int:
        """The number of keys that have a result, of this version or of any."""

    def results(self) -> Iterator[Result]:
        """All results, sorted by key, without keeping them all in memory."""

    def close(self) -> None: ...


@runtime_checkable
class TransactionalSink(Sink, Protocol):
    """A sink that can store in the transaction of a queue in the same database."""

    @property
    def database(self) -> str: ...

    def storing(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> StoreInTransaction:
        """Stores all results, or raises `StaleResults` and rolls back the transaction."""
