"""Pull from queues: in turns within one process, or each by real processes that compete."""

import contextlib
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

from bench.queue.system import System

Place = Callable[[], AbstractContextManager[str]]


class Drained(NamedTuple):
    items_per_second: float
    fairness: float
    """The items of the least served process as a share of those of the most served."""
    worst_seconds: float


def folder() -> AbstractContextManager[str]:
    return tempfile.TemporaryDirectory(prefix="outlast-bench-")


def in_turns(
    systems: Sequence[System], *, chunk: int, steps: int, place: Place = folder
) -> dict[str, float]:
    """Items per second of each, alone in its process, step by step in turns.

    A disk that others use is slow for a second and quick for the next; this hits all alike.
    """
    seconds = {system.name: 0.0 for system in systems}
    items = {system.name: 0 for system in systems}
    with contextlib.ExitStack() as stack:
        pullers = []
        for system in systems:
            where = stack.enter_context(place())
            size = chunk if system.knows_chunks else 1
            system.fill(where, size * (steps + 2))
            puller = stack.enter_context(contextlib.closing(system.open(where)))
            # The first claim stores nothing.
            puller.step(size)
            pullers.append((system.name, puller, size))
        for _ in range(steps):
            for name, puller, size in pullers:
                started = time.perf_counter()
                items[name] += puller.step(size)
                seconds[name] += time.perf_counter() - started
    return {name: items[name] / seconds[name] for name in seconds}


def drain(
    system: System, *, chunk: int, processes: int, count: int, place: Place = folder
) -> Drained:
    spawn: Any = multiprocessing.get_context("spawn")
    with place() as where:
        system.fill(where, count)
        barrier, answers = spawn.Barrier(processes), spawn.Queue()
        arguments = (system, where, chunk, barrier, answers)
        workers = [spawn.Process(target=_work, args=arguments) for _ in range(processes)]
        for worker in workers:
            worker.start()
        shares = [answers.get(timeout=300) for _ in workers]
        for worker in workers:
            worker.join()
    items = [share[0] for share in shares]
    seconds = max(share[2] for share in shares) - min(share[1] for share in shares)
    return Drained(
        items_per_second=sum(items) / seconds,
        fairness=min(items) / max(items),
        worst_seconds=max(share[3] for share in shares),
    )


def _work(system: System, where: str, chunk: int, barrier: Any, answers: Any) -> None:
    puller = system.open(where)
    barrier.wait()
    started = time.monotonic()
    items, worst = 0, 0.0
    while True:
        before = time.monotonic()
        got = puller.step(chunk)
        ended = time.monotonic()
        worst = max(worst, ended - before)
        if not got:
            break
        items += got
    puller.close()
    answers.put((items, started, ended, worst))
