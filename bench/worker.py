"""What a worker adds to each item, in process: chunks of 100, payloads of 100 bytes.

Held against the same queue and sink driven by hand, with nothing but what cannot be left out: no
skipping of what is done, no heartbeat, no guard, no measuring, no care for what goes wrong. Counted
is the time of the processor: both wait for the disk equally often, and how long is the disk's.
"""

import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from bench.measure import Row, counted, disk_folder, table
from outlast.queue import LeaseTerms, Queue, Settlement, open_queue
from outlast.results import Result, open_sink
from outlast.results.protocol import TransactionalSink
from outlast.testing import MemoryQueue, MemorySink
from outlast.worker import Worker

ITEMS = 20_000
CHUNK = 100
ROUNDS = 11
PAYLOAD = "x" * 98

Pair = tuple[Queue, TransactionalSink]


def report(items: int = ITEMS, rounds: int = ROUNDS) -> str:
    places = {"in memory": _in_memory, "in SQLite, fsync on": _in_sqlite}
    rows = [per_item(where, opened, items, rounds) for where, opened in places.items()]
    return table("The worker", rows)


def per_item(
    where: str, opened: Callable[[], AbstractContextManager[Pair]], items: int, rounds: int
) -> Row:
    def measured(work: Callable[[Queue, TransactionalSink], None]) -> Callable[[], float]:
        def measure() -> float:
            with opened() as (queue, sink):
                queue.publish({f"{number:08}": PAYLOAD for number in range(items)})
                started = time.process_time()
                work(queue, sink)
                seconds = time.process_time() - started
                assert sink.count() == items
                return seconds

        return measure

    worker, by_hand = measured(_worker), measured(_by_hand)
    # Side by side, because a disk is faster in one minute than in the next.
    pairs = [(worker(), by_hand()) for _ in counted(rounds)]
    more = statistics.median(one - other for one, other in pairs)
    bare = statistics.median(other for _, other in pairs)
    return Row(
        f"a worker, per item, chunk {CHUNK}, {where}",
        f"{more / items * 1e6:.1f} µs of CPU more",
        f"the same by hand, {bare / items * 1e6:.1f} µs",
        "≤ 20 µs more",
    )


def _function(value: str) -> str:
    return value


def _worker(queue: Queue, sink: TransactionalSink) -> None:
    Worker(queue, sink).run(_function, chunk=CHUNK)


def _by_hand(queue: Queue, sink: TransactionalSink) -> None:
    terms = LeaseTerms(worker="bench")
    lease = queue.claim(CHUNK, terms)
    while lease is not None:
        results = [
            Result(item.key, json.dumps(_function(json.loads(item.payload))))
            for item in lease.items
        ]
        storing = sink.storing(results, token=lease.token, version="", queue=lease.queue)
        done = Settlement(tuple(result.key for result in results))
        lease = queue.settle(lease, done, terms, storing=storing, claim=CHUNK)


@contextmanager
def _in_memory() -> Iterator[Pair]:
    yield MemoryQueue("bench"), MemorySink("bench")


@contextmanager
def _in_sqlite() -> Iterator[Pair]:
    folder = disk_folder()
    try:
        url = f"sqlite:///{folder}/jobs.db"
        queue, sink = open_queue(url), open_sink(url)
        assert isinstance(sink, TransactionalSink)
        yield queue, sink
        sink.close()
        queue.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    print(report())
