"""A queue and a sink around real ones, for tests to count, to fail and to kill in between."""

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from outlast.queue.items import (
    DeadLetter,
    Lease,
    Outcome,
    Publishable,
    Published,
    Stats,
    Terms,
)
from outlast.queue.protocol import Promises, Queue, Storing
from outlast.results.protocol import Result, TransactionalSink


class AroundQueue:
    """Passes everything on."""

    def __init__(self, queue: Queue) -> None:
        self.inner = queue

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def promises(self) -> Promises:
        return self.inner.promises

    @property
    def place(self) -> str | None:
        return self.inner.place

    def publish(self, items: Publishable) -> Published:
        return self.inner.publish(items)

    def claim(self, limit: int, terms: Terms) -> Lease | None:
        return self.inner.claim(limit, terms)

    def extend(self, lease: Lease, terms: Terms) -> Lease:
        return self.inner.extend(lease, terms)

    def settle(
        self,
        lease: Lease,
        outcome: Outcome,
        terms: Terms,
        *,
        storing: Storing | None = None,
        claim: int = 0,
    ) -> Lease | None:
        return self.inner.settle(lease, outcome, terms, storing=storing, claim=claim)

    def stats(self) -> Stats:
        return self.inner.stats()

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        return self.inner.dead_letters(limit)

    def retry_dead(self, keys: Sequence[str] | None = None) -> int:
        return self.inner.retry_dead(keys)

    def close(self) -> None:
        self.inner.close()


class AroundSink:
    """Passes everything on."""

    def __init__(self, sink: TransactionalSink) -> None:
        self.inner = sink

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def place(self) -> str:
        return self.inner.place

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        return self.inner.done(keys, version=version)

    def store(self, results: Sequence[Result], *, token: int, version: str) -> AbstractSet[str]:
        return self.inner.store(results, token=token, version=version)

    def storing(self, results: Sequence[Result], *, token: int, version: str) -> Storing:
        return self.inner.storing(results, token=token, version=version)

    def count(self, *, version: str | None = None) -> int:
        return self.inner.count(version=version)

    def results(self) -> Iterator[Result]:
        return self.inner.results()

    def close(self) -> None:
        self.inner.close()


class ApartSink(AroundSink):
    """A sink that has no transaction in common with any queue."""

    @property
    def place(self) -> str:
        return "elsewhere"
