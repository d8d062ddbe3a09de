"""A sink in memory.

It passes the same contract tests as the real ones (`tests/contract/`). Its contents end with the
process.
"""

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from outlast.databases.errors import StaleResults
from outlast.queue.protocol import StoreInTransaction
from outlast.results.protocol import Result

_NUMBERS = itertools.count(1)


class _StoredResult(NamedTuple):
    """A result in the sink."""

    payload: str
    version: str
    queue: str
    token: int
    epoch: int

    def is_replaced_by(self, newer: "_StoredResult") -> bool:
        if self.queue == newer.queue:
            return (newer.token, newer.epoch) >= (self.token, self.epoch)
        return newer.epoch > self.epoch

    def is_of_the_lease_of(self, other: "_StoredResult") -> bool:
        return self[1:4] == other[1:4]


class MemorySink:
    """A sink in memory. It shares the transactions of a `MemoryQueue` with the same name."""

    def __init__(self, name: str | None = None) -> None:
        self._name = name or f"unnamed-sink-{next(_NUMBERS)}"
        self._lock = threading.Lock()
        self._rows: dict[str, _StoredResult] = {}
        self._runs: list[tuple[str, str]] = []

    @property
    def url(self) -> str:
        return f"memory://{self._name}"

    @property
    def database(self) -> str:
        return self.url

    def done(self, keys: Sequence[str], *, version: str) -> AbstractSet[str]:
        with self._lock:
            return {key for key in keys if key in self._rows and self._rows[key].version == version}

    def store(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> AbstractSet[str]:
        with self._lock:
            rows = self._new_rows(results, token, version, queue)
            refused = self._refused(rows)
            self._keep({key: row for key, row in rows.items() if key not in refused})
        return refused

    def storing(
        self, results: Sequence[Result], *, token: int, version: str, queue: str = ""
    ) -> StoreInTransaction:
        def store(_queue: object) -> None:
            with self._lock:
                rows = self._new_rows(results, token, version, queue)
                if self._refused(rows):
                    raise StaleResults(f"{self.url} holds newer results for some of these keys.")
                self._keep(rows)

        return store

    def count(self, *, version: str | None = None) -> int:
        with self._lock:
            return sum(version in (None, row.version) for row in self._rows.values())

    def results(self) -> Iterator[Result]:
        with self._lock:
            rows = sorted(self._rows.items())
        for key, row in rows:
            yield Result(key=key, payload=row.payload)

    def close(self) -> None:
        """Does nothing: the results exist as long as this object."""

    def _new_rows(
        self, results: Sequence[Result], token: int, version: str, queue: str
    ) -> dict[str, _StoredResult]:
        epoch = self._epoch(queue, version)
        return {
            key: _StoredResult(payload, version, queue, token, epoch) for key, payload in results
        }

    def _refused(self, rows: Mapping[str, _StoredResult]) -> set[str]:
        known = self._rows
        return {
            key for key, row in rows.items() if key in known and not known[key].is_replaced_by(row)
        }

    def _keep(self, rows: Mapping[str, _StoredResult]) -> None:
        for key, row in rows.items():
            if key not in self._rows or not self._rows[key].is_of_the_lease_of(row):
                self._rows[key] = row

    def _epoch(self, queue: str, version: str) -> int:
        """The number of the run; a new one if the queue's latest run has another version."""
        of_queue = [number for number, run in enumerate(self._runs, 1) if run[0] == queue]
        if not of_queue or self._runs[of_queue[-1] - 1][1] != version:
            self._runs.append((queue, version))
            return len(self._runs)
        return of_queue[-1]
