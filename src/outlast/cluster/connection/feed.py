"""Follow several queries at once: one thread each, and one queue of what they report.

The reader takes updates in the order in which they arrived and needs no lock of its own.
"""

import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from outlast.cluster.connection.api import ClusterReader, Update, UpdateKind
from outlast.cluster.errors import ClusterError
from outlast.cluster.resources import Object, Query


class Feed:
    """Updates of several queries. `ended` has the queries that cannot be followed, and why.

    A query without permission ends alone: the others go on. If killed: nothing is left.
    """

    def __init__(
        self,
        cluster: ClusterReader,
        queries: Mapping[Query, Callable[[Object], Any]],
        *,
        cut_streams: Callable[[], object] = lambda: None,
    ) -> None:
        self.ended: dict[Query, ClusterError] = {}
        self._cluster = cluster
        self._cut_streams = cut_streams
        self._stop = threading.Event()
        self._updates: queue.SimpleQueue[Update[Any]] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._follow, args=item, name=f"follow {item[0].resource}")
            for item in queries.items()
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            # A program that exits without closing must not hang on a stream.
            thread.daemon = True
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._stop.set()
        for thread in self._threads:
            while thread.is_alive():
                # Again and again, because it may have opened a stream in between.
                self._cut_streams()
                thread.join(0.1)

    def next(self, timeout_seconds: float | None = None) -> Update[Any] | None:
        """The next update, None if there was none in time."""
        try:
            return self._updates.get(timeout=timeout_seconds)
        except queue.Empty:
            return None

    def drain(self) -> Iterator[Update[Any]]:
        """What has arrived already, without waiting."""
        while not self._updates.empty():
            yield self._updates.get()

    def _follow(self, query: Query, read: Callable[[Object], Any]) -> None:
        try:
            for update in self._cluster.follow(query, read, stop=self._stop):
                self._updates.put(update)
        except ClusterError as error:
            self.ended[query] = error
            self._updates.put(Update(kind=UpdateKind.LOST, query=query, problem=error))
