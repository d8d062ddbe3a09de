"""A queue in memory.

It passes the same contract tests as the real ones (`tests/contract/`). Its contents end with the
process.
"""

import heapq
import itertools
import threading
import time
import uuid
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from outlast.queue.errors import LeaseLost
from outlast.queue.items import (
    ERRORS_KEPT,
    EXPIRED_ALONE,
    DeadLetter,
    Failure,
    Item,
    Lease,
    LeaseTerms,
    Publishable,
    Published,
    QueueStats,
    Settlement,
    as_items,
    failure_line,
)
from outlast.queue.protocol import QueueGuarantees, StoreInTransaction
from outlast.queue.throughput import Throughput

_NUMBERS = itertools.count(1)


@dataclass(kw_only=True, slots=True)
class _QueuedItem:
    """An item that is waiting, leased or dead. `group` is its group of suspects, or 0."""

    number: int
    key: str
    payload: str
    published: float
    failures: int = 0
    group: int = 0
    errors: list[str] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class _MemoryLease:
    """The items of a lease, by key."""

    queued_items: dict[str, _QueuedItem]
    expires: float
    worker: str


class MemoryQueue:
    """A queue in memory. Pass a `clock` to control the time in tests.

    A `MemorySink` with the same name stores in the same transaction.
    """

    guarantees = QueueGuarantees(exact_counts=True, dedupes_keys=True)

    def __init__(
        self, name: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name or f"unnamed-{next(_NUMBERS)}"
        self._clock = clock
        self._lock = threading.RLock()
        self._keys: set[str] = set()
        self._ready: list[tuple[int, _QueuedItem]] = []
        self._delayed: list[tuple[float, int, _QueuedItem]] = []
        self._leases: dict[int, _MemoryLease] = {}
        self._dead: dict[str, _QueuedItem] = {}
        self._groups = itertools.count(1)
        self._token = 0
        self._id = uuid.uuid4().hex
        self._throughput = Throughput()

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    @property
    def database(self) -> str:
        return self.url

    def publish(self, items: Publishable) -> Published:
        given = list(as_items(items))
        with self._lock:
            now = self._clock()
            before = len(self._keys)
            for item in given:
                if item.key not in self._keys:
                    self._keys.add(item.key)
                    queued = _QueuedItem(
                        number=len(self._keys), key=item.key, payload=item.payload, published=now
                    )
                    self._wait(queued)
            added = len(self._keys) - before
        return Published(added=added, known=len(given) - added)

    def claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        with self._lock:
            self._reap(terms)
            return self._claim(limit, terms)

    def extend(self, lease: Lease, terms: LeaseTerms) -> Lease:
        with self._lock:
            held = self._held(lease, ())
            held.expires = self._clock() + terms.lease_seconds
            return lease._replace(expires=time.monotonic() + terms.lease_seconds)

    def settle(
        self,
        lease: Lease,
        settlement: Settlement,
        terms: LeaseTerms,
        *,
        storing: StoreInTransaction | None = None,
        claim: int = 0,
    ) -> Lease | None:
        with self._lock:
            failed = tuple(failure.key for failure in settlement.failed)
            held = self._held(lease, (*settlement.done, *failed, *settlement.released))
            if storing is not None:
                storing(self)
            for key in settlement.done:
                del held.queued_items[key]
            for failure in settlement.failed:
                self._fail(held.queued_items.pop(failure.key), failure, terms)
            for key in settlement.released:
                self._wait(held.queued_items.pop(key))
            if not held.queued_items:
                del self._leases[lease.token]
            self._throughput = self._throughput.counting(len(settlement.done), now=self._clock())
            if not claim:
                return None
            self._reap(terms)
            return self._claim(claim, terms)

    def stats(self) -> QueueStats:
        with self._lock:
            now = self._clock()
            self._wake(now)
            waiting = [queued for _, queued in self._ready] + [
                queued for *_, queued in self._delayed
            ]
            leased = sum(len(held.queued_items) for held in self._leases.values())
            oldest = min((queued.published for queued in waiting), default=None)
            return QueueStats(
                ready=len(self._ready),
                delayed=len(self._delayed),
                leased=leased,
                done=len(self._keys) - len(waiting) - leased - len(self._dead),
                dead=len(self._dead),
                oldest_seconds=None if oldest is None else now - oldest,
                done_per_second=self._throughput.per_second(now=now),
            )

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        with self._lock:
            return [
                DeadLetter(item=_item(queued), errors=tuple(queued.errors))
                for queued in itertools.islice(self._dead.values(), limit)
            ]

    def iter_dead_letters(self) -> Generator[DeadLetter, None, None]:
        yield from self.dead_letters(len(self._keys))

    def retry_dead(
        self,
        keys: Sequence[str] | None = None,
        *,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> int:
        with self._lock:
            named = list(self._dead) if keys is None else [key for key in keys if key in self._dead]
            for key in named:
                queued = self._dead.pop(key)
                queued.failures, queued.group, queued.errors = 0, 0, []
                self._wait(queued)
        on_progress(len(named))
        return len(named)

    def close(self) -> None:
        """Does nothing: the items exist as long as this object."""

    def _held(self, lease: Lease, keys: Iterable[str]) -> _MemoryLease:
        """The items of a lease. Raises `LeaseLost` if it does not hold each of these keys once."""
        held = self._leases.get(lease.token)
        named = list(keys)
        if (
            held is None
            or len(set(named)) < len(named)
            or not held.queued_items.keys() >= set(named)
        ):
            raise LeaseLost.of(f"Lease {lease.token}")
        return held

    def _claim(self, limit: int, terms: LeaseTerms) -> Lease | None:
        taken = self._take(limit)
        if not taken:
            return None
        self._token += 1
        queued_items = {queued.key: queued for queued in taken}
        expires = self._clock() + terms.lease_seconds
        self._leases[self._token] = _MemoryLease(
            queued_items=queued_items, expires=expires, worker=terms.worker
        )
        self._throughput = self._throughput.counting(0, now=self._clock())
        return Lease(
            token=self._token,
            items=tuple(map(_item, taken)),
            expires=time.monotonic() + terms.lease_seconds,
            queue=self._id,
        )

    def _take(self, limit: int) -> list[_QueuedItem]:
        """The oldest items that may be claimed together."""
        taken: list[_QueuedItem] = []
        passed: list[_QueuedItem] = []
        while self._ready and len(taken) < limit:
            _, queued = heapq.heappop(self._ready)
            (passed if taken and queued.group != taken[0].group else taken).append(queued)
        for queued in passed:
            self._wait(queued)
        return taken

    def _reap(self, terms: LeaseTerms) -> None:
        now = self._clock()
        self._wake(now)
        for token, held in list(self._leases.items()):
            if held.expires > now:
                continue
            del self._leases[token]
            queued_items = list(held.queued_items.values())
            if len(queued_items) == 1:
                self._fail(
                    queued_items[0], Failure(queued_items[0].key, EXPIRED_ALONE), terms, held.worker
                )
                queued_items[0].group = next(self._groups)
                continue
            middle = (len(queued_items) + 1) // 2
            for group in (queued_items[:middle], queued_items[middle:]):
                name = next(self._groups)
                for queued in group:
                    queued.group = name
                    self._wait(queued)

    def _wake(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            self._wait(heapq.heappop(self._delayed)[2])

    def _fail(
        self, queued: _QueuedItem, failure: Failure, terms: LeaseTerms, worker: str | None = None
    ) -> None:
        queued.failures += 1
        queued.group = 0
        line = failure_line(failure.error, worker=worker or terms.worker, at=datetime.now(UTC))
        queued.errors = [*queued.errors, line][-ERRORS_KEPT:]
        if failure.is_final or queued.failures >= terms.failures_max:
            self._dead[queued.key] = queued
        elif failure.delay_seconds > 0:
            due = self._clock() + failure.delay_seconds
            heapq.heappush(self._delayed, (due, queued.number, queued))
        else:
            self._wait(queued)

    def _wait(self, queued: _QueuedItem) -> None:
        heapq.heappush(self._ready, (queued.number, queued))


def _item(queued: _QueuedItem) -> Item:
    return Item(key=queued.key, payload=queued.payload, failures=queued.failures)
