"""A queue and a sink in the memory of this process.

They keep the promises of the real ones (`tests/contract/`), but one: nothing outlives the process.
"""

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, datetime

from outlast.queue.blame import ERRORS_KEPT, EXPIRED_ALONE, next_token, remembered, suspects
from outlast.queue.errors import LeaseLost
from outlast.queue.items import (
    DeadLetter,
    Failure,
    Item,
    Lease,
    Outcome,
    Publishable,
    Published,
    Stats,
    Terms,
    as_items,
)
from outlast.queue.pace import Pace
from outlast.queue.protocol import Promises, Storing
from outlast.results.protocol import Result

_NUMBERS = itertools.count(1)


@dataclass(kw_only=True, slots=True)
class _Job:
    """An item that is not done: waiting, leased or dead. `group` names its fellow suspects."""

    number: int
    key: str
    payload: str
    published: float
    failures: int = 0
    group: int = 0
    errors: list[str] = field(default_factory=list)


@dataclass(kw_only=True, slots=True)
class _Held:
    """What a lease holds, by key."""

    jobs: dict[str, _Job]
    expires: float
    worker: str


class MemoryQueue:
    """A queue that ends with the process. `clock` tells its seconds, for tests that do not wait.

    A sink of the same name stores in the same transaction.
    """

    promises = Promises(exact_counts=True, dedupes_keys=True)

    def __init__(
        self, name: str | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._name = name or f"unnamed-{next(_NUMBERS)}"
        self._clock = clock
        self._lock = threading.RLock()
        self._keys: set[str] = set()
        self._ready: list[tuple[int, _Job]] = []
        self._delayed: list[tuple[float, int, _Job]] = []
        self._leases: dict[int, _Held] = {}
        self._dead: dict[str, _Job] = {}
        self._groups = itertools.count(1)
        self._token = 0
        self._pace = Pace()

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    @property
    def place(self) -> str:
        return self.url

    def publish(self, items: Publishable) -> Published:
        given = list(as_items(items))
        with self._lock:
            now = self._clock()
            before = len(self._keys)
            for item in given:
                if item.key not in self._keys:
                    self._keys.add(item.key)
                    job = _Job(
                        number=len(self._keys), key=item.key, payload=item.payload, published=now
                    )
                    self._wait(job)
            added = len(self._keys) - before
        return Published(added=added, known=len(given) - added)

    def claim(self, limit: int, terms: Terms) -> Lease | None:
        with self._lock:
            self._reap(terms)
            return self._claim(limit, terms)

    def extend(self, lease: Lease, terms: Terms) -> Lease:
        with self._lock:
            held = self._held(lease, ())
            held.expires = self._clock() + terms.lease_seconds
            return lease._replace(expires=time.monotonic() + terms.lease_seconds)

    def settle(
        self,
        lease: Lease,
        outcome: Outcome,
        terms: Terms,
        *,
        storing: Storing | None = None,
        claim: int = 0,
    ) -> Lease | None:
        with self._lock:
            failed = tuple(failure.key for failure in outcome.failed)
            held = self._held(lease, (*outcome.done, *failed, *outcome.released))
            if storing is not None:
                storing(self)
            for key in outcome.done:
                del held.jobs[key]
            for failure in outcome.failed:
                self._fail(held.jobs.pop(failure.key), failure, terms)
            for key in outcome.released:
                self._wait(held.jobs.pop(key))
            if not held.jobs:
                del self._leases[lease.token]
            self._pace = self._pace.counting(len(outcome.done), now=self._clock())
            if not claim:
                return None
            self._reap(terms)
            return self._claim(claim, terms)

    def stats(self) -> Stats:
        with self._lock:
            now = self._clock()
            self._wake(now)
            waiting = [job for _, job in self._ready] + [job for *_, job in self._delayed]
            leased = sum(len(held.jobs) for held in self._leases.values())
            oldest = min((job.published for job in waiting), default=None)
            return Stats(
                ready=len(self._ready),
                delayed=len(self._delayed),
                leased=leased,
                done=len(self._keys) - len(waiting) - leased - len(self._dead),
                dead=len(self._dead),
                oldest_seconds=None if oldest is None else now - oldest,
                done_per_second=self._pace.per_second(now=now),
            )

    def dead_letters(self, limit: int = 1000) -> list[DeadLetter]:
        with self._lock:
            return [
                DeadLetter(item=_item(job), errors=tuple(job.errors))
                for job in itertools.islice(self._dead.values(), limit)
            ]

    def retry_dead(self, keys: Sequence[str] | None = None) -> int:
        with self._lock:
            named = list(self._dead) if keys is None else [key for key in keys if key in self._dead]
            for key in named:
                job = self._dead.pop(key)
                job.failures, job.group, job.errors = 0, 0, []
                self._wait(job)
            return len(named)

    def close(self) -> None:
        """Nothing to do: the items stay as long as this object."""

    def _held(self, lease: Lease, keys: Iterable[str]) -> _Held:
        """What a lease holds; refused if it has ended or does not hold these keys once each."""
        held = self._leases.get(lease.token)
        named = list(keys)
        if (
            held is None
            or held.expires <= self._clock()
            or len(set(named)) < len(named)
            or not held.jobs.keys() >= set(named)
        ):
            raise LeaseLost(
                f"The lease {lease.token} no longer holds these items.",
                hint="Others may work on them. Raise lease_seconds if items take longer than that.",
            )
        return held

    def _claim(self, limit: int, terms: Terms) -> Lease | None:
        taken = self._take(limit)
        if not taken:
            return None
        self._token = next_token(self._token, wall_seconds=time.time())
        jobs = {job.key: job for job in taken}
        expires = self._clock() + terms.lease_seconds
        self._leases[self._token] = _Held(jobs=jobs, expires=expires, worker=terms.worker)
        self._pace = self._pace.counting(0, now=self._clock())
        return Lease(
            token=self._token,
            items=tuple(map(_item, taken)),
            expires=time.monotonic() + terms.lease_seconds,
        )

    def _take(self, limit: int) -> list[_Job]:
        """The oldest jobs that may be claimed together."""
        taken: list[_Job] = []
        passed: list[_Job] = []
        while self._ready and len(taken) < limit:
            _, job = heapq.heappop(self._ready)
            (passed if taken and job.group != taken[0].group else taken).append(job)
        for job in passed:
            self._wait(job)
        return taken

    def _reap(self, terms: Terms) -> None:
        now = self._clock()
        self._wake(now)
        for token, held in list(self._leases.items()):
            if held.expires > now:
                continue
            del self._leases[token]
            jobs = list(held.jobs.values())
            if len(jobs) == 1:
                self._fail(jobs[0], Failure(jobs[0].key, EXPIRED_ALONE), terms, held.worker)
                jobs[0].group = next(self._groups)
                continue
            for group in suspects(jobs):
                name = next(self._groups)
                for job in group:
                    job.group = name
                    self._wait(job)

    def _wake(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            self._wait(heapq.heappop(self._delayed)[2])

    def _fail(self, job: _Job, failure: Failure, terms: Terms, worker: str | None = None) -> None:
        job.failures += 1
        job.group = 0
        line = remembered(failure.error, worker=worker or terms.worker, at=datetime.now(UTC))
        job.errors = [*job.errors, line][-ERRORS_KEPT:]
        if failure.is_final or job.failures >= terms.failures_max:
            self._dead[job.key] = job
        elif failure.delay_seconds > 0:
            due = self._clock() + failure.delay_seconds
            heapq.heappush(self._delayed, (due, job.number, job))
        else:
            self._wait(job)

    def _wait(self, job: _Job) -> None:
        heapq.heappush(self._ready, (job.number, job))


class MemorySink:
    """Results by key, in memory. It shares the transactions of a `MemoryQueue` of its name."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or f"unnamed-{next(_NUMBERS)}"
        self._lock = threading.Lock()
        self._rows: dict[str, tuple[str, int, str]] = {}

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    @property
    def place(self) -> str:
        return self.url

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        with self._lock:
            return {key for key in keys if key in self._rows and self._rows[key][2] == version}

    def store(self, results: Sequence[Result], *, token: int, version: str) -> AbstractSet[str]:
        with self._lock:
            refused = {
                result.key
                for result in results
                if result.key in self._rows and self._rows[result.key][1] > token
            }
            for result in results:
                if result.key not in refused:
                    self._rows[result.key] = (result.payload, token, version)
        return refused

    def storing(self, results: Sequence[Result], *, token: int, version: str) -> Storing:
        def store(_queue: object) -> None:
            self.store(results, token=token, version=version)

        return store

    def count(self, *, version: str | None = None) -> int:
        with self._lock:
            return sum(version in (None, row[2]) for row in self._rows.values())

    def results(self) -> Iterator[Result]:
        with self._lock:
            rows = sorted(self._rows.items())
        for key, (payload, _, _) in rows:
            yield Result(key=key, payload=payload)

    def close(self) -> None:
        """Nothing to do: the results stay as long as this object."""


def _item(job: _Job) -> Item:
    return Item(key=job.key, payload=job.payload, failures=job.failures)
