"""Check whether all published items are done, as far as the backend can tell. Reads only."""

import time
from collections.abc import Sequence

from outlast.queue.errors import QueueStalled
from outlast.queue.protocol import LedgerQueue, Queue
from outlast.results.protocol import Sink

_KEYS_AT_ONCE = 1000


class DrainedCheck:
    """Asks the queue or, if it cannot count, compares the published keys with the results.

    `stall_seconds` is how long nothing may happen while published keys have no result.
    """

    def __init__(self, queue: Queue, sink: Sink, *, version: str, stall_seconds: float) -> None:
        self._queue = queue
        self._sink = sink
        self._version = version
        self._stall_seconds = stall_seconds
        self._done_pages: set[str] = set()
        self._page = ""
        self._rest: list[str] = []
        self._progress: object = None
        self._moved_at = time.monotonic()
        self._has_ledger: bool | None = None

    @property
    def is_possible(self) -> bool:
        """Whether this queue can tell that it is drained."""
        queue = self._queue
        if queue.guarantees.exact_counts:
            return True
        if self._has_ledger is None:
            self._has_ledger = isinstance(queue, LedgerQueue) and queue.published() is not None
        return self._has_ledger

    def is_drained(self) -> bool:
        """Whether every item has a result or is a dead letter."""
        queue = self._queue
        if queue.guarantees.exact_counts:
            stats = queue.stats()
            return not (stats.ready or stats.delayed or stats.leased)
        if not isinstance(queue, LedgerQueue) or not self.is_possible:
            return False
        while self._next_page(queue):
            self._rest = self._missing(queue, self._rest)
            if self._rest:
                return False
            self._done_pages.add(self._page)
        return True

    def note_delivery(self) -> None:
        """Note that the queue delivered something, so it is not stalled."""
        self._moved_at = time.monotonic()

    def raise_if_stalled(self) -> None:
        """Raise `QueueStalled` after too long without a delivery or a new result by any worker."""
        progress = (len(self._done_pages), len(self._rest))
        if progress != self._progress:
            self._progress = progress
            self.note_delivery()
        if time.monotonic() < self._moved_at + self._stall_seconds:
            return
        queue = self._queue
        if not isinstance(queue, LedgerQueue) or not self._rest:
            return
        left = self._missing_everywhere(queue)
        if not left:
            return
        raise QueueStalled(
            f"{queue.url} has delivered no messages for {self._stall_seconds:g} s, but "
            f"{len(left):,} published items, starting with {left[0]!r}, have neither a result nor "
            "a dead letter.",
            hint="Their messages have probably expired. Publish the same items again with a new "
            "ledger in the URL. Items that have a result are skipped.",
        )

    def _next_page(self, queue: LedgerQueue) -> bool:
        """Move to the next page that is not known to be done; false if there is none."""
        if self._page and self._page not in self._done_pages:
            return True
        left = [page for page in queue.pages() if page not in self._done_pages]
        if not left:
            return False
        self._page = left[0]
        self._rest = list(queue.keys_on(self._page))
        return True

    def _missing(self, queue: LedgerQueue, keys: Sequence[str]) -> list[str]:
        """The keys that are not done. Stops asking after the first batch that has one."""
        for start in range(0, len(keys), _KEYS_AT_ONCE):
            some = keys[start : start + _KEYS_AT_ONCE]
            left = self._missing_of(queue, some)
            if left:
                return [*left, *keys[start + _KEYS_AT_ONCE :]]
        return []

    def _missing_of(self, queue: LedgerQueue, keys: Sequence[str]) -> list[str]:
        done = self._sink.done(keys, version=self._version)
        left = [key for key in keys if key not in done]
        if not left:
            return []
        dead = queue.dead_among(left)
        return [key for key in left if key not in dead]

    def _missing_everywhere(self, queue: LedgerQueue) -> list[str]:
        left: list[str] = []
        for page in queue.pages():
            if page not in self._done_pages:
                keys = queue.keys_on(page)
                for start in range(0, len(keys), _KEYS_AT_ONCE):
                    left += self._missing_of(queue, keys[start : start + _KEYS_AT_ONCE])
        return left
