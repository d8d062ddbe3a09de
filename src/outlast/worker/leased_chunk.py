"""The chunk a worker has leased: items that wait, the call in progress, and results so far.

Four threads use it. The loop computes. The guard releases items after a notice, while the loop may
be inside a call. The heartbeat extends the lease and may find it lost. The watchdog fails a call
that hangs. Settling needs the lock. Nothing is computed or logged while the lock is held, because
either may hang.
"""

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from outlast._base.logs import get_logger
from outlast.databases.errors import StaleResults
from outlast.queue.errors import LeaseLost, QueueUnavailable
from outlast.queue.items import Failure, Item, Lease, LeaseTerms, Settlement
from outlast.queue.protocol import Queue
from outlast.results.protocol import Result, Sink, TransactionalSink
from outlast.worker.function import CallOutcome, RetryPolicy
from outlast.worker.measurements import TypicalDuration, WorkerSummary

log = get_logger(__name__)

_REFUSED = (
    "The result was not stored: the sink holds a newer one for this key, from another queue or a "
    "later version. To replace it, publish the item to a new queue."
)


class FunctionCall:
    """One call of the function. `wanted` becomes false once other workers may have its items."""

    __slots__ = ("items", "started", "wanted")

    def __init__(self, items: Sequence[Item], started: float) -> None:
        self.items = items
        self.started = started
        self.wanted = True


class _Chunk:
    """A lease and its unsettled keys. `in_doubt` means that a settlement got no answer."""

    __slots__ = ("in_doubt", "items", "lease", "unsettled")

    def __init__(self, lease: Lease) -> None:
        self.lease = lease
        # One per key: a queue without deduplication may deliver a key twice.
        self.items = list({item.key: item for item in lease.items}.values())
        self.unsettled = {item.key for item in self.items}
        self.in_doubt = False


class LeasedChunk:
    """At most one chunk at a time. If killed: its lease expires, and its items come back."""

    def __init__(self, queue: Queue, sink: Sink, terms: LeaseTerms, *, version: str) -> None:
        self._queue = queue
        self._sink = sink
        self._transactional: TransactionalSink | None = None
        if isinstance(sink, TransactionalSink) and sink.database == queue.database:
            self._transactional = sink
        self._terms = terms
        self._version = version
        self._lock = threading.Lock()
        self._chunk: _Chunk | None = None
        self._groups: deque[Sequence[Item]] = deque()
        self._call: FunctionCall | None = None
        self._done: list[str] = []
        self._results: list[Result] = []
        self._failures: list[Failure] = []
        self._equalled = 0
        self._refused: Sequence[str] = ()
        self._late: list[Result] = []
        self._late_queue = ""
        self._counts: Counter[str] = Counter()
        self._unlogged: deque[tuple[str, tuple[object, ...], dict[str, object]]] = deque()
        self._started = time.monotonic()
        self.settle_duration = TypicalDuration()

    @property
    def is_empty(self) -> bool:
        return self._chunk is None

    @property
    def has_waiting(self) -> bool:
        """Whether items of the chunk have not been started yet."""
        return bool(self._groups)

    @property
    def call(self) -> FunctionCall | None:
        """The call in progress."""
        return self._call

    @property
    def summary(self) -> WorkerSummary:
        return WorkerSummary(**self._counts, seconds=time.monotonic() - self._started)

    def claim(self, limit: int) -> bool:
        """Claim a chunk; false if none is ready."""
        lease = self._queue.claim(limit, self._terms)
        with self._lock:
            self._hold(lease)
        return lease is not None

    def skip_done(self, *, as_batch: bool) -> None:
        """Plan the calls for all items that have no result yet."""
        chunk = self._chunk
        if chunk is None:
            return
        keys = [item.key for item in chunk.items]
        done = self._sink.done(keys, version=self._version)
        todo = [item for item in chunk.items if item.key not in done]
        with self._lock:
            if self._chunk is not chunk:
                return
            self._done += [key for key in keys if key in done]
            self._counts["skipped"] += len(keys) - len(todo)
            self._groups = deque([todo][: len(todo)] if as_batch else ([item] for item in todo))

    def begin(self) -> FunctionCall | None:
        """Start the next call; None if nothing is left or the chunk was released."""
        with self._lock:
            if not self._groups:
                return None
            self._call = FunctionCall(self._groups.popleft(), time.monotonic())
            return self._call

    def finish(self, call: FunctionCall, computed: CallOutcome) -> None:
        """Record the outcome of a call. A batch that raised is retried in halves."""
        with self._lock:
            self._call = None
            if not call.wanted:
                self._late += computed.results
                return
            self._results += computed.results
            self._done += [result.key for result in computed.results]
            self._failures += computed.failures
            if computed.undecided:
                middle = len(computed.undecided) // 2
                self._groups.extendleft((computed.undecided[middle:], computed.undecided[:middle]))

    def flush(self) -> None:
        """Store and acknowledge what is finished so far."""
        with self._settling():
            if self._chunk is not None:
                self._send([])

    def store_late(self) -> None:
        """Store results of a lost lease for keys that no other worker has stored.

        The items come back to the queue, and are then skipped. Without this, calls that are longer
        than the lease and keep the heartbeat from running would be repeated until they are dead.
        """
        with self._settling():
            if not self._late:
                return
            # Below the token of every lease, so that no result of this queue is replaced.
            refused = self._sink.store(
                self._late, token=0, version=self._version, queue=self._late_queue
            )
            self._counts["done"] += len(self._late) - len(refused)
            self._counts["lost"] += len(refused)
            self._late = []

    def settle(self, claim: int) -> None:
        """Store and acknowledge what is finished, and claim the next chunk in the same request.

        Without transactions, claiming here gains nothing and would hold the lock while the queue
        waits for messages.
        """
        with self._settling():
            if self._chunk is not None:
                following = self._send([], claim=0 if self._queue.database is None else claim)
                self._hold(following)

    def release_rest(self, *, keep_call: bool = False) -> None:
        """Store and acknowledge what is finished, and release the rest for other workers.

        With `keep_call`, the items of the call in progress stay leased.
        """
        with self._settling():
            if self._chunk is None:
                return
            keeps = keep_call and self._call is not None
            released = self._waiting()
            if self._call is not None and not keeps:
                released += [item.key for item in self._call.items]
            self._send(released)
            self._groups.clear()
            if not keeps:
                self._drop()

    def fail_call(self, call: FunctionCall, error: str, policy: RetryPolicy) -> None:
        """Fail the item of a call that will not return, and release the rest.

        The items of a batch stay leased: when the lease expires, they come back in halves until
        the item at fault is found.
        """
        alone = call.items[0] if len(call.items) == 1 else None
        with self._settling():
            if self._chunk is not None and self._call is call:
                failed = [policy.failure(alone, error)] if alone is not None else []
                self._send(self._waiting(), failed=failed)
                self._drop()

    def beat(self) -> float:
        """Extend the lease if it is time to. Returns the seconds until it is time again."""
        period = self._terms.lease_seconds / 3
        chunk = self._chunk
        if chunk is None:
            return period
        wait = chunk.lease.expires - 2 * period - time.monotonic()
        if wait > 0:
            return wait
        try:
            # Without the lock, because storing may take longer than the lease.
            chunk.lease = self._queue.extend(chunk.lease, self._terms)
        except LeaseLost:
            with self._settling():
                # Nothing is lost if the loop has settled the chunk in the meantime, or may have.
                if self._chunk is chunk and not chunk.in_doubt:
                    self._lose()
        return period

    def _hold(self, lease: Lease | None) -> None:
        self._chunk = _Chunk(lease) if lease is not None else None
        if lease is not None:
            self._late_queue = lease.queue
        self._groups = deque([self._chunk.items] if self._chunk is not None else [])

    def _waiting(self) -> list[str]:
        return [item.key for group in self._groups for item in group]

    @contextmanager
    def _settling(self) -> Iterator[None]:
        """Hold the lock, and write the log messages after releasing it."""
        with self._lock:
            yield
        while self._unlogged:
            text, values, fields = self._unlogged.popleft()
            log.warning(text, *values, extra=fields)

    def _log_later(self, text: str, *values: object, **fields: object) -> None:
        self._unlogged.append((text, values, fields))

    def _send(
        self, released: Sequence[str], failed: Sequence[Failure] = (), claim: int = 0
    ) -> Lease | None:
        """Settle what is finished, and these. Returns the next lease, if one was claimed.

        After `QueueUnavailable` or `SinkUnavailable` nothing has changed here, and it can be
        retried.
        """
        chunk = self._chunk
        assert chunk is not None, "There is nothing to settle."
        if not (self._done or self._failures or failed or released or claim):
            return None
        started = time.monotonic()
        try:
            if self._results and self._transactional is None:
                self._store_apart(chunk)
            settlement, following = self._settle(chunk, released, failed, claim)
        except LeaseLost:
            self._lose()
            return None
        except QueueUnavailable:
            chunk.in_doubt = True
            raise
        chunk.in_doubt = False
        self.settle_duration.add(time.monotonic() - started)
        self._counts["done"] += len(self._results)
        self._counts["skipped"] += self._equalled
        self._note_refused()
        self._note_failures(settlement.failed)
        self._forget()
        chunk.unsettled -= {*settlement.done, *settlement.released}
        chunk.unsettled -= {failure.key for failure in settlement.failed}
        if not chunk.unsettled:
            # The queue has ended the lease, so there is nothing left to extend.
            self._chunk = None
        return following

    def _settle(
        self, chunk: _Chunk, released: Sequence[str], failed: Sequence[Failure], claim: int
    ) -> tuple[Settlement, Lease | None]:
        """Acknowledge, and store in the same transaction if the sink shares the database."""
        storing = None
        if self._results and self._transactional is not None:
            storing = self._transactional.storing(
                self._results,
                token=chunk.lease.token,
                version=self._version,
                queue=chunk.lease.queue,
            )
        try:
            settlement = self._settlement(released, failed)
            settle = self._queue.settle
            return settlement, settle(
                chunk.lease, settlement, self._terms, storing=storing, claim=claim
            )
        except StaleResults:
            # Nothing happened. Storing separately shows which results are refused.
            self._store_apart(chunk)
        settlement = self._settlement(released, failed)
        return settlement, self._queue.settle(chunk.lease, settlement, self._terms, claim=claim)

    def _settlement(self, released: Sequence[str], failed: Sequence[Failure]) -> Settlement:
        return Settlement(tuple(self._done), (*self._failures, *failed), tuple(released))

    def _store_apart(self, chunk: _Chunk) -> None:
        """Store in a sink outside the queue's database, right after confirming the lease."""
        lease = chunk.lease = self._queue.extend(chunk.lease, self._terms)
        refused = self._sink.store(
            self._results, token=lease.token, version=self._version, queue=lease.queue
        )
        # A result of the same version from another worker is as good as ours.
        there = self._sink.done(sorted(refused), version=self._version) if refused else set()
        self._counts["done"] += len(self._results) - len(refused)
        self._equalled += len(there)
        # Not stored again if acknowledging takes several tries.
        self._results = []
        if older := sorted(refused - there):
            self._refuse(older)

    def _refuse(self, keys: Sequence[str]) -> None:
        """Move items whose results the sink refused to the dead letters: they are not done."""
        refused = set(keys)
        self._done = [key for key in self._done if key not in refused]
        self._failures += [Failure(key, _REFUSED, is_final=True) for key in keys]
        self._refused = (*self._refused, *keys)

    def _note_refused(self) -> None:
        if self._refused:
            self._counts["refused"] += len(self._refused)
            self._log_later(
                "%s refused the results of %d items because it holds newer ones from another queue "
                "or version. These items are now dead letters.",
                self._sink.url,
                len(self._refused),
                keys=self._refused[:10],
            )

    def _note_failures(self, failures: Sequence[Failure]) -> None:
        self._counts["failed"] += len(failures)
        self._counts["dead"] += sum(failure.is_final for failure in failures)
        for failure in failures:
            how = " permanently" if failure.is_final else ""
            last_line = failure.error.rpartition("\n")[2]
            self._log_later("Item %r failed%s: %s", failure.key, how, last_line, key=failure.key)

    def _lose(self) -> None:
        """Other workers may have these items now: drop them, and set their results aside."""
        chunk = self._chunk
        assert chunk is not None
        # What the sink did not take may have come from the worker that has the items now.
        unstored = self._equalled + len(self._refused)
        self._log_later(
            "Lost the lease on %d items, with %d results that were not stored yet.",
            len(chunk.items),
            len(self._results) + unstored,
            token=chunk.lease.token,
        )
        self._counts["lost"] += unstored
        self._late += self._results
        self._forget()
        self._drop()

    def _forget(self) -> None:
        self._done, self._results, self._failures = [], [], []
        self._equalled, self._refused = 0, ()

    def _drop(self) -> None:
        self._chunk = None
        self._groups.clear()
        if self._call is not None:
            self._call.wanted = False
