"""A queue and a sink around real ones, for tests to count, to fail and to kill in between."""

from collections.abc import Callable, Generator, Iterator, Sequence
from collections.abc import Set as AbstractSet

from outlast.queue.items import (
    DeadLetter,
    Lease,
    LeaseTerms,
    Publishable,
    Published,
    QueueStats,
    Settlement,
)
from outlast.queue.protocol import Queue, QueueGuarantees, StoreInTransaction
from outlast.results.protocol import Result, TransactionalSink


class AroundQueue:
    """Passes everything on."""

    def __init__(self, queue: Queue) -> None:
        self.inner = queue

    @property
    def url(self) -> str:
        return self.inner.url

    @property
    def guarantees(self) -> QueueGuarantees:
        return self.inner.guarantees

    @property
    def database(self) -> str | None:
        return self.inner.database

    def publish(self, items: Publishable) -> Published:
        return self.inner.publish(items)

    def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        return self.inner.claim(limit, terms)

    def extend(self, lease: Lease, terms: LeaseTerms) -> Lease:
        return self.inner.extend(lease, terms)

    def settle(
        self,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        *,
        storing: StoreInTransaction | None = None,
        claim: int = 0,
    ) -> Lease | None:
        return self.inner.settle(lease, settlement, terms, storing=storing, claim=claim)

    def stats(self) -> QueueStats:
        return self.inner.stats()

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        return self.inner.dead_letters(limit)

    def iter_dead_letters(self) -> Generator[DeadLetter, None, None]:
        return self.inner.iter_dead_letters()

    def retry_dead(
        self,
        keys: Sequence[str] | None = None,
        *,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> int:
        return self.inner.retry_dead(keys, on_progress=on_progress)

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
    def database(self) -> str:
        return self.inner.database

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        return self.inner.done(keys, version=version)

    def store(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> AbstractSet[str]:
        return self.inner.store(results, token=token, version=version, queue=queue)

    def storing(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> StoreInTransaction:
        return self.inner.storing(results, token=token, version=version, queue=queue)

    def count(self, *, version: str | None = None) -> int:
        return self.inner.count(version=version)

    def results(self) -> Iterator[Result]:
        return self.inner.results()

    def close(self) -> None:
        self.inner.close()


class ApartSink(AroundSink):
    """A sink that has no transaction in common with any queue."""

    @property
    def database(self) -> str:
        return "elsewhere"
