"""200 workers on one PostgreSQL server: connections, throughput and the longest wait.

The workers are threads of a few processes, because 200 interpreters would measure two cores and
nothing else. Each has its queue and sink as `outlast work` opens them.
"""

import multiprocessing
import threading
import time
from contextlib import closing
from typing import Any

import psycopg

from bench.measure import Row
from bench.queue.ours import TERMS
from bench.queue.system import PAYLOAD
from outlast.queue import Settlement, open_queue
from outlast.results import Result
from outlast.results.opening import open_sink_beside
from outlast.results.protocol import TransactionalSink

WORKERS = (4, 200)
_PROCESSES = 2
_CHUNK = 10
_SECONDS = 6.0


def rows(url: str) -> list[Row]:
    found = []
    for workers in WORKERS:
        rate, worst, connections = _measured(url, workers)
        found.append(
            Row(
                f"{workers} workers, chunk {_CHUNK}, results in the same transaction",
                f"{rate:,.0f} items/s, longest call {worst * 1e3:,.0f} ms",
                f"{connections / workers:.2f} connections per worker",
                "1 connection",
            )
        )
    return found


def _measured(url: str, workers: int) -> tuple[float, float, int]:
    spawn: Any = multiprocessing.get_context("spawn")
    answers, start = spawn.Queue(), spawn.Barrier(_PROCESSES + 1)
    share = workers // _PROCESSES
    processes = [
        spawn.Process(target=_work, args=(url, share, start, answers)) for _ in range(_PROCESSES)
    ]
    for process in processes:
        process.start()
    start.wait(120)
    time.sleep(_SECONDS / 2)
    connections = _connections(url)
    given = [answers.get(timeout=120) for _ in processes]
    for process in processes:
        process.join()
    count = sum(one for one, _ in given)
    return count / _SECONDS, max(worst for _, worst in given), connections


def _connections(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def _work(url: str, workers: int, start: Any, answers: Any) -> None:
    together = threading.Barrier(workers + 1)
    counts, worst = [0] * workers, [0.0] * workers

    def work(number: int) -> None:
        with closing(open_queue(url)) as queue, closing(open_sink_beside(url, queue)) as sink:
            assert isinstance(sink, TransactionalSink)
            lease = queue.claim(_CHUNK, TERMS)
            _stored(sink, lease)
            together.wait()
            together.wait()
            until = time.monotonic() + _SECONDS
            while lease is not None and time.monotonic() < until:
                began = time.monotonic()
                # As a worker does: ask what is done already, then store, settle and claim.
                sink.done([item.key for item in lease.items], version="v1")
                done = Settlement(done=tuple(item.key for item in lease.items))
                storing = _stored(sink, lease)
                lease = queue.settle(lease, done, TERMS, storing=storing, claim=_CHUNK)
                worst[number] = max(worst[number], time.monotonic() - began)
                counts[number] += _CHUNK

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    together.wait()
    start.wait(120)
    together.wait()
    for thread in threads:
        thread.join()
    answers.put((sum(counts), max(worst)))


def _stored(sink: TransactionalSink, lease: Any) -> Any:
    results = [Result(item.key, PAYLOAD) for item in lease.items]
    return sink.storing(results, token=lease.token, version="v1", queue=lease.queue)
