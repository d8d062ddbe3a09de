"""What is measured of the queues, and the tables of it."""

import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence

from bench.measure import Row, counted, table
from bench.queue.bare import BareJobs, BareRanges
from bench.queue.drain import Drained, Place, drain, folder, in_turns
from bench.queue.ours import TERMS, OurSQLite
from bench.queue.peers import Huey, PersistQueue
from bench.queue.system import System, numbered
from outlast.queue import Queue, Settlement, open_queue
from outlast.queue.items import Item

SQLITE: tuple[System, ...] = (BareJobs(), BareRanges(), OurSQLite(), PersistQueue(), Huey())
CHUNKS = (100, 10, 1)
PROCESSES = (1, 4)
_STEPS = {100: 500, 10: 1000, 1: 2000}
_ITEMS = {100: 100_000, 10: 20_000, 1: 2_500}
_ITEMS_WITHOUT_CHUNKS = 2_000
_CLAIMS = 300


def report(
    title: str,
    systems: Sequence[System],
    *,
    rounds: int,
    chunks: Sequence[int] = CHUNKS,
    processes: Sequence[int] = PROCESSES,
    place: Place = folder,
) -> str:
    """Dequeue, store and acknowledge. The first system is the limit; all take turns."""
    installed = [system for system in systems if system.is_installed()]
    parts = []
    for chunk in chunks:
        for count in processes:
            print(f"{title}, chunk {chunk}, processes: {count}", file=sys.stderr, flush=True)
            rows = _alone if count == 1 else _competing
            found = rows(installed, rounds, chunk, count, place)
            parts.append(table(f"{title}, chunk {chunk}, processes: {count}", found))
    missing = [system.name for system in systems if not system.is_installed()]
    if missing:
        parts.append(f"Not installed, so not measured: {', '.join(missing)}.\n")
    return "\n".join(parts)


def claims(rounds: int) -> str:
    """A claim at a million waiting items against one at a thousand, taking turns."""
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as where:
        queues = {count: _filled(f"{where}/{count}.db", count) for count in (1_000, 1_000_000)}
        seen: dict[int, list[float]] = {count: [] for count in queues}
        for _ in range(rounds * _CLAIMS):
            for count, queue in queues.items():
                seen[count].append(_claim_seconds(queue))
        for queue in queues.values():
            queue.close()
    few, many = (statistics.median(seen[count]) * 1e6 for count in (1_000, 1_000_000))
    row = Row(
        "a claim of 10 at 1,000,000 waiting",
        f"{many:.0f} µs",
        f"{many / few:.2f} x that at 1,000, {few:.0f} µs",
        "≤ 1.5 x",
    )
    return table("A long queue", [row])


def _alone(
    systems: Sequence[System], rounds: int, chunk: int, _processes: int, place: Place
) -> list[Row]:
    seen = [
        in_turns(systems, chunk=chunk, steps=_STEPS[chunk], place=place) for _ in counted(rounds)
    ]
    return [_row(system.name, seen, systems[0].name) for system in systems]


def _competing(
    systems: Sequence[System], rounds: int, chunk: int, processes: int, place: Place
) -> list[Row]:
    seen: dict[str, list[Drained]] = {system.name: [] for system in systems}
    for _ in counted(rounds):
        for system in systems:
            items = _ITEMS[chunk] if system.knows_chunks else _ITEMS_WITHOUT_CHUNKS
            done = drain(system, chunk=chunk, processes=processes, count=items, place=place)
            seen[system.name].append(done)
    rates = [
        {name: found[number].items_per_second for name, found in seen.items()}
        for number in range(rounds)
    ]
    return [
        _row(name, rates, systems[0].name)._replace(
            bar=f"least/most served {statistics.median(one.fairness for one in found):.2f}, "
            f"worst wait {max(one.worst_seconds for one in found) * 1e3:.0f} ms"
        )
        for name, found in seen.items()
    ]


def _row(name: str, rounds: Sequence[Mapping[str, float]], limit: str) -> Row:
    """Medians: of the rate, and of its share of the limit in the same round."""
    rate = statistics.median(rates[name] for rates in rounds)
    share = statistics.median(rates[name] / rates[limit] for rates in rounds)
    return Row(name, f"{rate:,.0f} items/s", f"{share:.2f} x {limit}")


def _filled(path: str, count: int) -> Queue:
    queue = open_queue(f"sqlite:///{path}")
    queue.publish(Item(key=key, payload=payload) for key, payload in numbered(count))
    return queue


def _claim_seconds(queue: Queue) -> float:
    """What a claim takes. Its items are given back, so that as many wait as before."""
    started = time.perf_counter()
    lease = queue.claim(10, TERMS)
    seconds = time.perf_counter() - started
    assert lease is not None
    queue.settle(lease, Settlement(released=tuple(item.key for item in lease.items)), TERMS)
    return seconds
