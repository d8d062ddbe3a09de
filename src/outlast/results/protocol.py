"""The seam between workers and where results are kept.

A result is stored under its key: storing it twice leaves it there once. Every sink passes
`tests/contract/test_sink.py`. All methods may be called from any thread.
"""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol, runtime_checkable

from outlast.queue.protocol import Storing


class Result(NamedTuple):
    """A result as JSON text."""

    key: str
    payload: str


class Sink(Protocol):
    """`version` is the fingerprint of what results depend on besides the item: a result of another
    version does not count as done and is replaced. `token` is the lease's: a result is never
    replaced by one with a smaller token.
    """

    @property
    def url(self) -> str:
        """Where it is, without the password."""

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        """Those of the keys that have a result of this version, in one round trip."""

    def store(self, results: Sequence[Result], *, token: int, version: str) -> AbstractSet[str]:
        """Store all results and give the keys that were refused because a newer lease stored them.

        If killed: each result is there whole or not at all; storing again completes it.
        """

    def count(self, *, version: str | None = None) -> int:
        """How many keys have a result, of one version or of any."""

    def results(self) -> Iterator[Result]:
        """Every result, by key, without holding them all in memory."""

    def close(self) -> None: ...


@runtime_checkable
class TransactionalSink(Sink, Protocol):
    """A sink that can store within the transaction of a queue in the same database."""

    @property
    def place(self) -> str: ...

    def storing(self, results: Sequence[Result], *, token: int, version: str) -> Storing: ...
