"""Ours: acknowledge, store and claim in one call, results in the same transaction."""

from bench.queue.system import PAYLOAD, Puller, numbered
from outlast.queue import Lease, LeaseTerms, Queue, Settlement, open_queue
from outlast.queue.items import Item
from outlast.results import Result, open_sink
from outlast.results.protocol import TransactionalSink

TERMS = LeaseTerms(worker="bench", lease_seconds=60.0)


class OurSQLite:
    name = "outlast, SQLite"
    knows_chunks = True

    def is_installed(self) -> bool:
        return True

    def fill(self, place: str, count: int) -> None:
        queue = open_queue(self._url(place))
        queue.publish(Item(key=key, payload=payload) for key, payload in numbered(count))
        queue.close()

    def open(self, place: str) -> Puller:
        return OurPuller(self._url(place))

    def _url(self, place: str) -> str:
        return f"sqlite:///{place}/ours.db"


class OurPuller:
    def __init__(self, url: str) -> None:
        self._queue: Queue = open_queue(url)
        sink = open_sink(url)
        assert isinstance(sink, TransactionalSink)
        self._sink = sink
        self._lease: Lease | None = None

    def step(self, chunk: int) -> int:
        held = self._lease
        if held is None:
            self._lease = self._queue.claim(chunk, TERMS)
        else:
            results = [Result(item.key, PAYLOAD) for item in held.items]
            storing = self._sink.storing(results, token=held.token, version="v1", queue=held.queue)
            settlement = Settlement(done=tuple(item.key for item in held.items))
            self._lease = self._queue.settle(held, settlement, TERMS, storing=storing, claim=chunk)
        return 0 if self._lease is None else len(self._lease.items)

    def close(self) -> None:
        self._queue.close()
        self._sink.close()
