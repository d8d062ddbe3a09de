"""The chunk that a worker holds: what waits, what is being computed, what became of the rest.

Four threads meet here. The loop computes. The guard lets go when a notice comes, while the loop may
be deep inside a call. The heartbeat holds on to the lease and may find it lost. The watchdog blames
a call that does not return. Whoever has the lock may settle; nobody computes with the lock held,
nor logs, because a log may hang.
"""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from outlast.queue.errors import LeaseLost
from outlast.queue.items import Failure, Item, Lease, Outcome, Terms
from outlast.queue.protocol import Queue
from outlast.results.protocol import Result, Sink, TransactionalSink
from outlast.worker.function import Blame, Computed
from outlast.worker.pace import Pace
from outlast.worker.summary import Summary

log = logging.getLogger(__name__)


class Call:
    """One call of the function. `wanted` turns false once others may work on its items."""

    __slots__ = ("items", "started", "wanted")

    def __init__(self, items: Sequence[Item], started: float) -> None:
        self.items = items
        self.started = started
        self.wanted = True


class Holding:
    """At most one chunk. If killed: its lease expires, and its items come back."""

    def __init__(self, queue: Queue, sink: Sink, terms: Terms, *, version: str) -> None:
        self._queue = queue
        self._sink = sink
        self._transactional: TransactionalSink | None = None
        if isinstance(sink, TransactionalSink) and sink.place == queue.place:
            self._transactional = sink
        self._terms = terms
        self._version = version
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._groups: deque[Sequence[Item]] = deque()
        self._call: Call | None = None
        self._done: list[str] = []
        self._results: list[Result] = []
        self._failures: list[Failure] = []
        self._counts: Counter[str] = Counter()
        self._untold: deque[tuple[str, tuple[object, ...], dict[str, object]]] = deque()
        self._started = time.monotonic()
        self.settle_pace = Pace()

    @property
    def is_empty(self) -> bool:
        return self._lease is None

    @property
    def call(self) -> Call | None:
        """The call under way."""
        return self._call

    @property
    def summary(self) -> Summary:
        return Summary(**self._counts, seconds=time.monotonic() - self._started)

    def claim(self, limit: int) -> bool:
        """Take a chunk, if one is ready."""
        lease = self._queue.claim(limit, self._terms)
        with self._lock:
            self._hold(lease)
        return lease is not None

    def skip_done(self, *, as_batch: bool) -> None:
        """Lay out what is to be computed: everything that has no result yet."""
        lease = self._lease
        if lease is None:
            return
        items = _one_per_key(lease)
        keys = [item.key for item in items]
        done = self._sink.done(keys, version=self._version)
        todo = [item for item in items if item.key not in done]
        with self._lock:
            if self._lease is None or self._lease.token != lease.token:
                return
            self._done += [key for key in keys if key in done]
            self._counts["skipped"] += len(keys) - len(todo)
            self._groups = deque([todo][: len(todo)] if as_batch else ([item] for item in todo))

    def begin(self) -> Call | None:
        """The next call to make; None when nothing is left, or the chunk was let go."""
        with self._lock:
            if not self._groups:
                return None
            self._call = Call(self._groups.popleft(), time.monotonic())
            return self._call

    def finish(self, call: Call, computed: Computed) -> None:
        """Note what a call gave. A batch that failed as a whole is tried again in halves."""
        with self._lock:
            self._call = None
            if not call.wanted:
                self._counts["lost"] += len(computed.results)
                return
            self._results += computed.results
            self._done += [result.key for result in computed.results]
            self._failures += computed.failures
            if computed.undecided:
                middle = len(computed.undecided) // 2
                self._groups.extendleft((computed.undecided[middle:], computed.undecided[:middle]))

    def flush(self) -> None:
        """Store and acknowledge what is finished of a chunk that takes long."""
        with self._settling():
            if self._lease is not None:
                self._send([])

    def settle(self, claim: int) -> None:
        """Store and acknowledge what is finished, and take the next chunk in the same go.

        Where that is no transaction, nothing is gained by it, and the lock would be held while the
        queue waits for messages.
        """
        with self._settling():
            if self._lease is not None:
                self._hold(self._send([], claim=0 if self._queue.place is None else claim))

    def let_go(self, *, keep_call: bool = False) -> None:
        """Store and acknowledge what is finished, and release the rest for others, at once.

        With `keep_call`, the items of the call under way stay leased.
        """
        with self._settling():
            if self._lease is None:
                return
            keeps = keep_call and self._call is not None
            released = self._waiting()
            if self._call is not None and not keeps:
                released += [item.key for item in self._call.items]
            self._send(released)
            self._groups.clear()
            if not keeps:
                self._drop()

    def blame(self, call: Call, error: str, blame: Blame) -> None:
        """Fail the item of a call that will not return, and let go of the rest.

        The items of a batch stay leased: once the lease has expired they come back in halves, and
        the one at fault is found.
        """
        alone = call.items[0] if len(call.items) == 1 else None
        with self._settling():
            if self._lease is not None and self._call is call:
                failed = [blame.failure(alone, error)] if alone is not None else []
                self._send(self._waiting(), failed=failed)
                self._drop()

    def beat(self) -> float:
        """Hold on to the lease when it is due; gives the seconds until it is due again."""
        period = self._terms.lease_seconds / 3
        lease = self._lease
        if lease is None:
            return period
        wait = lease.expires - 2 * period - time.monotonic()
        if wait > 0:
            return wait
        try:
            extended = self._queue.extend(lease, self._terms)
        except LeaseLost:
            with self._settling():
                if self._lease is not None and self._lease.token == lease.token:
                    self._lose()
            return period
        with self._lock:
            if self._lease is not None and self._lease.token == lease.token:
                self._lease = extended
        return period

    def _hold(self, lease: Lease | None) -> None:
        self._lease = lease
        self._groups = deque([_one_per_key(lease)] if lease is not None else [])

    def _waiting(self) -> list[str]:
        return [item.key for group in self._groups for item in group]

    @contextmanager
    def _settling(self) -> Iterator[None]:
        """With the lock; what there is to tell is told after it."""
        with self._lock:
            yield
        while self._untold:
            text, values, fields = self._untold.popleft()
            log.warning(text, *values, extra=fields)

    def _tell(self, text: str, *values: object, **fields: object) -> None:
        self._untold.append((text, values, fields))

    def _send(
        self, released: Sequence[str], failed: Sequence[Failure] = (), claim: int = 0
    ) -> Lease | None:
        """Settle what is finished, these too; gives the next chunk, if one was claimed.

        Raises `QueueUnavailable` or `SinkUnavailable`; then nothing has changed here, and it can be
        tried again.
        """
        lease = self._lease
        assert lease is not None, "Only what is held can be settled."
        failures = (*self._failures, *failed)
        outcome = Outcome(tuple(self._done), failures, tuple(released))
        if not any(outcome) and not claim:
            return None
        started = time.monotonic()
        try:
            storing = None
            if self._results and self._transactional is not None:
                storing = self._transactional.storing(
                    self._results, token=lease.token, version=self._version
                )
            elif self._results:
                lease = self._store_apart(lease)
            following = self._queue.settle(
                lease, outcome, self._terms, storing=storing, claim=claim
            )
        except LeaseLost:
            self._lose()
            return None
        self.settle_pace.add(time.monotonic() - started)
        self._counts["done"] += len(self._results)
        self._note_failures(failures)
        self._done, self._results, self._failures = [], [], []
        return following

    def _store_apart(self, lease: Lease) -> Lease:
        """Store into a sink of another place, right after making sure of the lease."""
        self._lease = self._queue.extend(lease, self._terms)
        refused = self._sink.store(self._results, token=lease.token, version=self._version)
        if refused:
            text = "Results of %d items were refused: newer ones were there."
            self._tell(text, len(refused), keys=sorted(refused)[:10])
        self._counts["done"] += len(self._results) - len(refused)
        self._counts["lost"] += len(refused)
        # What is stored is not stored again, should acknowledging it take several tries.
        self._results = []
        return self._lease

    def _note_failures(self, failures: Sequence[Failure]) -> None:
        self._counts["failed"] += len(failures)
        self._counts["dead"] += sum(failure.is_final for failure in failures)
        for failure in failures:
            how = " for good" if failure.is_final else ""
            last_line = failure.error.rpartition("\n")[2]
            self._tell("Item %r failed%s: %s", failure.key, how, last_line, key=failure.key)

    def _lose(self) -> None:
        """Others may work on these items now: forget them, and what was found out about them."""
        assert self._lease is not None
        self._tell(
            "The lease on %d items was lost, and with it the results of %d.",
            len(self._lease.items),
            len(self._results),
            token=self._lease.token,
        )
        self._counts["lost"] += len(self._results)
        self._done, self._results, self._failures = [], [], []
        self._drop()

    def _drop(self) -> None:
        self._lease = None
        self._groups.clear()
        if self._call is not None:
            self._call.wanted = False


def _one_per_key(lease: Lease) -> list[Item]:
    """The items, but one for each key: a queue that does not know keys may deliver one twice."""
    return list({item.key: item for item in lease.items}.values())
