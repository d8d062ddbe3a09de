"""A worker in a process of its own that can die at each boundary of its work."""

import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outlast.queue import Lease, LeaseTerms, Queue, Settlement, open_queue
from outlast.queue.protocol import StoreInTransaction
from outlast.results import Result, open_sink
from outlast.results.protocol import TransactionalSink
from outlast.worker import Worker
from tests.faults.worker_around import AroundQueue, AroundSink

BOUNDARIES = ("claim", "compute", "store", "acknowledge")


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """How to work. Is signalled when it comes past `dies_after` for the `dies_at`-th time."""

    queue: str
    sink: str
    computed: Path
    """Gets a line for each item that is begun: its key and the wall time."""
    function: str = "square"
    seconds: float = 0.001
    chunk: int = 10
    batch: bool = False
    until: str = "drained"
    lease_seconds: float = 1.0
    failures_max: int = 10
    timeout_seconds: float | None = None
    grace_seconds: float | None = None
    dies_after: str | None = None
    dies_at: int = 0
    dies_of: signal.Signals = signal.SIGKILL
    environ: Mapping[str, str] = field(default_factory=dict)


def work(plan: Plan) -> None:
    logging.basicConfig(stream=sys.stdout, format="%(message)s", level=logging.INFO)
    os.environ.update(plan.environ)
    fault = Fault(plan.dies_after, plan.dies_at, plan.dies_of)
    queue = DyingQueue(open_queue(plan.queue), fault)
    sink = open_sink(plan.sink)
    assert isinstance(sink, TransactionalSink)
    worker = Worker(
        queue,
        DyingSink(sink, fault),
        lease_seconds=plan.lease_seconds,
        failures_max=plan.failures_max,
        retry_seconds=0.05,
        timeout_seconds=plan.timeout_seconds,
        grace_seconds=plan.grace_seconds,
    )
    print("started", os.getpid())
    function = UserFunction(plan)
    worker.run(
        function.on_batch if plan.batch else function.on_one,
        plan.chunk,
        batch=plan.batch,
        until=plan.until,
    )


class UserFunction:
    """What is computed of an item `{"key": ..., "number": ...}`, by name."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._log = os.open(plan.computed, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._act: Callable[[int], None] = getattr(self, f"_{plan.function}")

    def on_one(self, item: dict[str, Any]) -> dict[str, int]:
        os.write(self._log, f"{item['key']} {time.time()}\n".encode())
        self._act(item["number"])
        time.sleep(self._plan.seconds)
        return {"square": item["number"] ** 2, "by": os.getpid()}

    def on_batch(self, items: list[dict[str, Any]]) -> list[dict[str, int]]:
        return [self.on_one(item) for item in items]

    def _square(self, _number: int) -> None: ...

    def _die_of_7(self, number: int) -> None:
        if number == 7:
            os.kill(os.getpid(), signal.SIGKILL)

    def _stop(self, _number: int) -> None:
        os.kill(os.getpid(), signal.SIGSTOP)

    def _hold_2(self, number: int) -> None:
        while number == 2 and not self._plan.computed.with_name("go-on").exists():
            time.sleep(0.01)

    def _hang_on_7(self, number: int) -> None:
        if number == 7:
            time.sleep(3600)


class Fault:
    """Kills or pauses this process when it passes a boundary for the n-th time."""

    def __init__(self, boundary: str | None, count: int, number: signal.Signals) -> None:
        self._boundary = boundary
        self._left = count
        self._number = number

    def passes(self, boundary: str) -> None:
        if boundary != self._boundary:
            return
        self._left -= 1
        if self._left == 0:
            os.write(1, f"died after {boundary}\n".encode())
            os.kill(os.getpid(), self._number)


class DyingQueue(AroundQueue):
    def __init__(self, queue: Queue, fault: Fault) -> None:
        super().__init__(queue)
        self._fault = fault

    def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        lease = super().claim(limit, terms)
        if lease is not None:
            self._fault.passes("claim")
        return lease

    def settle(
        self,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        *,
        storing: StoreInTransaction | None = None,
        claim: int = 0,
    ) -> Lease | None:
        if storing is not None:
            self._fault.passes("compute")
            storing = self._dying(storing)
        following = super().settle(lease, settlement, terms, storing=storing, claim=claim)
        self._fault.passes("acknowledge")
        if following is not None:
            self._fault.passes("claim")
        return following

    def published(self) -> int | None:
        return self.inner.published()  # type: ignore[attr-defined, no-any-return]  # Pub/Sub's

    def pages(self) -> Sequence[str]:
        return self.inner.pages()  # type: ignore[attr-defined, no-any-return]  # Pub/Sub's

    def keys_on(self, page: str) -> Sequence[str]:
        return self.inner.keys_on(page)  # type: ignore[attr-defined, no-any-return]  # Pub/Sub's

    def dead_among(self, keys: Sequence[str]) -> AbstractSet[str]:
        return self.inner.dead_among(keys)  # type: ignore[attr-defined, no-any-return]  # Pub/Sub's

    def _dying(self, storing: StoreInTransaction) -> StoreInTransaction:
        def store(connection: Any) -> None:
            storing(connection)
            self._fault.passes("store")

        return store


class DyingSink(AroundSink):
    def __init__(self, sink: TransactionalSink, fault: Fault) -> None:
        super().__init__(sink)
        self._fault = fault

    def store(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> AbstractSet[str]:
        self._fault.passes("compute")
        refused = super().store(results, token=token, version=version, queue=queue)
        self._fault.passes("store")
        return refused
