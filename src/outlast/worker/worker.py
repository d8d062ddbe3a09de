"""What users see: a worker that pulls items from a queue and puts results into a sink.

outlast.Worker("sqlite:///jobs.db", "sqlite:///jobs.db").run(embed, chunk=10)
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from outlast._base.settings import Setting
from outlast.errors import SettingError
from outlast.interruption.guard import Guard
from outlast.queue.opening import open_queue
from outlast.queue.protocol import LedgerQueue, Queue
from outlast.results.opening import open_sink
from outlast.results.protocol import Sink
from outlast.worker.function import Blame, Function
from outlast.worker.settings import QUEUE_URL, SINK_URL, WorkerSettings
from outlast.worker.shift import Manner, Shift, Until
from outlast.worker.summary import Summary

log = logging.getLogger(__name__)


class Worker:
    """Works on the items of a queue, on a machine that may be taken away.

    `queue` and `sink` are opened ones or URLs; without one, `OUTLAST_QUEUE_URL` and
    `OUTLAST_SINK_URL`. `version` names what results depend on besides the item. The settings are
    explained in docs/reference/settings.md. Raises `SettingError` when one cannot work.
    """

    def __init__(
        self,
        queue: Queue | str | None,
        sink: Sink | str | None,
        *,
        lease_seconds: float | None = None,
        version: str | None = None,
        failures_max: int | None = None,
        retry_seconds: float | None = None,
        timeout_seconds: float | None = None,
        patience_seconds: float | None = None,
        grace_seconds: float | None = None,
        exit_code: int | None = None,
    ) -> None:
        self._queue = _given_or_set(queue, QUEUE_URL)
        self._sink = _given_or_set(sink, SINK_URL)
        self._grace_seconds = grace_seconds
        self._settings = WorkerSettings.read(
            {
                "lease_seconds": lease_seconds,
                "version": version,
                "failures_max": failures_max,
                "retry_seconds": retry_seconds,
                "timeout_seconds": timeout_seconds,
                "patience_seconds": patience_seconds,
                "exit_code": exit_code,
            }
        )

    def run(
        self,
        function: Callable[[Any], Any] | type,
        chunk: int = 10,
        *,
        batch: bool = False,
        until: str = Until.DRAINED,
    ) -> Summary:
        """Call the function with every item's value and store what it returns, once per key.

        With `batch`, it takes a list of up to `chunk` values and returns as many results. An
        exception, raised or returned in a result's place, is that item's failure. A class is
        instantiated, and its `setup()` called once before the first item.

        Returns when the queue is drained; with `until="forever"`, never. After a notice, stores
        what is done, releases the rest and raises `Interrupted`. Raises `QueueUnavailable` or
        `SinkUnavailable` once patience has ended.

        If killed: what was acknowledged is stored; the rest comes back when its lease expires.
        """
        if chunk < 1:
            raise ValueError(f"chunk is {chunk!r}, but it counts items from 1.")
        blame = Blame(self._settings.failures_max, self._settings.retry_seconds)
        work = Function(function, batch=batch, blame=blame)
        manner = Manner(chunk, batch, _until(until))
        guard = Guard(grace_seconds=self._grace_seconds, exit_code=self._settings.exit_code)
        # The guard is closed first, because its callbacks use the queue.
        with ExitStack() as opened, guard:
            queue = opened.enter_context(_opened(self._queue, open_queue))
            sink = opened.enter_context(_opened(self._sink, open_sink))
            if manner.until is Until.DRAINED and not _can_be_drained(queue):
                log.warning(
                    "%s cannot say when it is drained, so this worker works until it is stopped. "
                    "A ledger in its URL would tell.",
                    queue.url,
                )
            shift = Shift(
                queue, sink, function=work, guard=guard, settings=self._settings, manner=manner
            )
            return shift.run()


def _until(given: str) -> Until:
    try:
        return Until(given)
    except ValueError:
        raise ValueError(f"until is {given!r}; it is 'drained' or 'forever'.") from None


def _can_be_drained(queue: Queue) -> bool:
    if queue.promises.exact_counts:
        return True
    return isinstance(queue, LedgerQueue) and queue.published() is not None


def _given_or_set(given: Any, setting: Setting[str]) -> Any:
    """What was given, or else the URL from the environment."""
    if given is not None and not isinstance(given, str):
        return given
    if url := setting.read(given).value:
        return url
    raise SettingError(
        f"The worker has no {setting.keyword}.",
        hint=f"Give a URL, or set {setting.variable}.",
        source=f"variable {setting.variable}",
    )


@contextmanager
def _opened(given: Any, open_url: Callable[[str], Any]) -> Iterator[Any]:
    """What was given, opened and closed here if it is a URL."""
    if not isinstance(given, str):
        yield given
        return
    opened = open_url(given)
    try:
        yield opened
    finally:
        opened.close()
