"""One run of a worker: claim, skip what is done, compute, store, acknowledge, again and again.

If killed at any moment: what was acknowledged is stored; the rest of the chunk comes back to the
queue when its lease expires, and what of it was stored is then skipped.
"""

import dataclasses
import logging
import math
import os
import random
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from typing import NamedTuple, TypeVar

from outlast.errors import Interrupted, OutlastError
from outlast.interruption.exit_codes import interrupted_code
from outlast.interruption.guard import Guard
from outlast.interruption.leaving import Departure, Exit
from outlast.interruption.machine import in_pod
from outlast.interruption.notice import Notice
from outlast.metrics.exporter import Exporter, Metric
from outlast.metrics.figures import expiry_metric
from outlast.queue.errors import QueueUnavailable
from outlast.queue.items import Terms
from outlast.queue.protocol import LedgerQueue, Queue
from outlast.results.errors import SinkUnavailable
from outlast.results.protocol import Sink
from outlast.worker.function import Function
from outlast.worker.heartbeat import Heartbeat, Watchdog
from outlast.worker.holding import Call, Holding
from outlast.worker.pace import Pace, fits
from outlast.worker.settings import WorkerSettings
from outlast.worker.summary import Summary

log = logging.getLogger(__name__)

# A chunk that someone releases must be taken up within a second.
_POLL_SECONDS = (0.02, 0.5)
_RETRY_SECONDS = (0.1, 5.0)
_DRAINED_CHECK_SECONDS = 1.0
# So much work a kill can cost at most, beside the item under way, however long a chunk takes.
_FLUSH_SECONDS = 5.0
_LAST_ACT_SECONDS_MAX = 5.0

T = TypeVar("T")


class Until(StrEnum):
    """When a worker is done: once nothing is left in the queue, or never."""

    DRAINED = "drained"
    FOREVER = "forever"


class Manner(NamedTuple):
    """How items are taken: so many at a time, one by one or as a batch, until when."""

    chunk: int
    batch: bool
    until: Until


class Shift:
    """A worker at work. `run` returns when the queue is drained and raises when told to leave."""

    def __init__(
        self,
        queue: Queue,
        sink: Sink,
        *,
        function: Function,
        guard: Guard,
        settings: WorkerSettings,
        manner: Manner,
    ) -> None:
        self._queue = queue
        self._sink = sink
        self._function = function
        self._guard = guard
        self._settings = settings
        self._manner = manner
        terms = Terms(
            worker=f"{socket.gethostname()}:{os.getpid()}",
            lease_seconds=settings.lease_seconds,
            failures_max=settings.failures_max,
        )
        self._holding = Holding(queue, sink, terms, version=settings.version)
        self._pace = Pace()
        self._drained_check_due = -math.inf

    def run(self) -> Summary:
        with ExitStack() as stack:
            stack.enter_context(
                Heartbeat(self._holding, lease_seconds=self._settings.lease_seconds)
            )
            if self._settings.timeout_seconds is not None:
                stack.enter_context(self._watchdog(self._settings.timeout_seconds, stack))
            stack.enter_context(Exporter(self._metrics()))
            self._guard.on_notice(self._on_notice)
            self._guard.on_last_resort(self._holding.let_go)
            log.info("The worker started on %s.", self._queue.url, extra=self._manner._asdict())
            try:
                self._work()
            except BaseException:
                self._quietly(self._holding.let_go)
                raise
            finally:
                summary = self._holding.summary
                log.info("The worker ended: %s.", summary, extra=dataclasses.asdict(summary))
        return summary

    def _metrics(self) -> list[Metric]:
        return [
            Metric(
                name="outlast_progress_total",
                kind="counter",
                meaning="Items that this process has finished.",
                read=lambda: self._holding.summary.done,
            ),
            Metric(
                name="outlast_queue_ready",
                kind="gauge",
                meaning="Items that wait in the queue.",
                read=lambda: self._queue.stats().ready,
            ),
            expiry_metric(self._guard),
        ]

    def _work(self) -> None:
        # Asked before the set-up, which may take minutes that nobody needs any more. No lease is
        # held meanwhile: a set-up that fails or kills its process is no item's fault.
        if self._is_drained():
            log.warning("There is nothing to do in %s.", self._queue.url)
            return
        self._function.setup()
        idle_polls = 0
        while True:
            self._leave_if_told()
            if self._holding.is_empty and not self._claim():
                if self._is_drained():
                    return
                self._guard.wait(_pause(idle_polls, *_POLL_SECONDS))
                idle_polls += 1
            else:
                self._work_off()
                self._drained_check_due = -math.inf
                idle_polls = 0

    def _claim(self) -> bool:
        return self._patiently(lambda: self._holding.claim(self._manner.chunk))

    def _work_off(self) -> None:
        """Compute what is to be computed of the chunk, settle it and claim the next."""
        guard, holding, function, pace = self._guard, self._holding, self._function, self._pace
        self._patiently(lambda: holding.skip_done(as_batch=self._manner.batch))
        flush_at = time.monotonic() + _FLUSH_SECONDS
        while not guard.interrupted and (call := holding.begin()) is not None:
            try:
                computed = function.compute(call.items)
            except BaseException as error:
                self._on_escape(call, error)
                raise
            now = time.monotonic()
            pace.add(now - call.started, len(call.items))
            holding.finish(call, computed)
            if now >= flush_at:
                self._quietly(holding.flush)
                flush_at = time.monotonic() + _FLUSH_SECONDS
        if not guard.interrupted:
            self._patiently(lambda: holding.settle(claim=self._manner.chunk))

    def _is_drained(self) -> bool:
        now = time.monotonic()
        if self._manner.until is Until.FOREVER or now < self._drained_check_due:
            return False
        self._drained_check_due = now + _DRAINED_CHECK_SECONDS
        return self._patiently(lambda: is_drained(self._queue, self._sink, self._settings.version))

    def _patiently(self, act: Callable[[], T]) -> T:
        """Repeat this until the servers answer, for as long as patience lasts."""
        give_up_at = time.monotonic() + self._settings.patience_seconds
        tries = 0
        while True:
            try:
                return act()
            except (QueueUnavailable, SinkUnavailable) as error:
                if time.monotonic() >= give_up_at:
                    raise
                log.warning("Waiting, because the surroundings do not answer: %s", error)
            self._guard.wait(_pause(tries, *_RETRY_SECONDS))
            self._leave_if_told()
            tries += 1

    def _leave_if_told(self) -> None:
        if self._guard.interrupted:
            raise Interrupted(self._guard.exit_code)

    def _on_notice(self, _notice: Notice) -> None:
        """Let others have what is not begun, at once; keep the call under way if it should fit."""
        call = self._holding.call
        keep_call = call is not None and fits(
            self._pace.usual_seconds(len(call.items)),
            elapsed_seconds=time.monotonic() - call.started,
            left_seconds=self._guard.remaining() - (self._holding.settle_pace.usual_seconds() or 0),
        )
        self._quietly(lambda: self._holding.let_go(keep_call=keep_call))

    def _on_escape(self, call: Call, error: BaseException) -> None:
        """The function raised what ends programs: its own doing, unless somebody told it to."""
        if self._guard.interrupted or isinstance(error, KeyboardInterrupt):
            return
        text = f"The function ended its worker: {type(error).__name__}: {error}"
        self._quietly(lambda: self._holding.blame(call, text, self._function.blame))

    def _watchdog(self, timeout_seconds: float, stack: ExitStack) -> Watchdog:
        exit = Exit()
        stack.callback(exit.close)

        def leave(call: Call) -> None:
            what = f"The function did not return within {timeout_seconds:g} s"
            departure = Departure(
                at=time.monotonic(),
                code=interrupted_code(
                    explicit=self._settings.exit_code,
                    by_keyboard=False,
                    in_pod=in_pod(),
                    cut_off=True,
                ),
                seconds_max=_LAST_ACT_SECONDS_MAX,
            )
            blame = self._function.blame
            last_act = lambda: self._holding.blame(call, f"{what}.", blame)  # noqa: E731
            exit.leave(departure, f"{what}: leaving.", [last_act])

        return Watchdog(self._holding, timeout_seconds=timeout_seconds, on_overdue=leave)

    def _quietly(self, act: Callable[[], object]) -> None:
        """Do this if it can be done now: there is a later chance, or else the lease expires."""
        try:
            act()
        except OutlastError as error:
            log.warning("The items held could not be settled: %s", error)


def is_drained(queue: Queue, sink: Sink, version: str) -> bool:
    """Whether every item has a result or was given up, as far as the backend can tell."""
    if queue.promises.exact_counts:
        stats = queue.stats()
        return not (stats.ready or stats.delayed or stats.leased)
    published = queue.published() if isinstance(queue, LedgerQueue) else None
    if published is None:
        return False
    return sink.count(version=version) + (queue.stats().dead or 0) >= published


def _pause(tries: int, least_seconds: float, most_seconds: float) -> float:
    """Twice as long each time, within bounds, and never the same for two workers."""
    seconds: float = min(least_seconds * 2.0 ** min(tries, 30), most_seconds)
    return seconds * random.uniform(0.5, 1.0)
