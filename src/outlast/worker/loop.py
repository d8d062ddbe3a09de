"""The main loop of a worker: claim a chunk, skip what is done, compute, store and acknowledge.

If killed at any moment: acknowledged items are stored. The rest of the chunk comes back to the
queue when its lease expires, and items that were already stored are then skipped.
"""

import dataclasses
import math
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from enum import StrEnum
from typing import NamedTuple

from outlast._base.backoff import backoff_seconds
from outlast._base.logs import get_logger
from outlast.errors import OutlastError
from outlast.interruption.exit_codes import interrupted_code
from outlast.interruption.exiting import Exit, ScheduledExit
from outlast.interruption.guard import Guard
from outlast.interruption.machine import in_pod
from outlast.interruption.notice import Notice
from outlast.metrics.exporter import Exporter, Metric, expiry_metric
from outlast.queue.items import LeaseTerms
from outlast.queue.protocol import Queue
from outlast.results.protocol import Sink
from outlast.worker.drained import DrainedCheck
from outlast.worker.errors import FunctionExited
from outlast.worker.function import UserFunction, text_of
from outlast.worker.heartbeat import Heartbeat, Watchdog
from outlast.worker.leased_chunk import FunctionCall, LeasedChunk
from outlast.worker.measurements import TypicalDuration, WorkerSummary, fits
from outlast.worker.retry import UnavailableRetry
from outlast.worker.settings import WorkerSettings

log = get_logger(__name__)

# A chunk that another worker releases must be picked up within a second.
_POLL_SECONDS = (0.02, 0.5)
_DRAINED_CHECK_SECONDS = 1.0
# How much work a kill can lose at most, besides the call in progress.
_FLUSH_SECONDS = 5.0
_LAST_ACT_SECONDS_MAX = 5.0


class Until(StrEnum):
    """When a worker ends: when the queue is drained, or never."""

    DRAINED = "drained"
    FOREVER = "forever"


class LoopOptions(NamedTuple):
    """How many items to claim at a time, whether to pass them as a batch, and when to end."""

    chunk: int
    batch: bool
    until: Until


class WorkerLoop:
    """Runs a worker. `run` returns when the queue is drained and raises when interrupted."""

    def __init__(
        self,
        queue: Queue,
        sink: Sink,
        *,
        function: UserFunction,
        guard: Guard,
        retry: UnavailableRetry,
        settings: WorkerSettings,
        options: LoopOptions,
    ) -> None:
        self._queue = queue
        self._function = function
        self._guard = guard
        self._retry = retry
        self._settings = settings
        self._options = options
        terms = LeaseTerms(
            worker=f"{socket.gethostname()}:{os.getpid()}",
            lease_seconds=settings.lease_seconds,
            failures_max=settings.failures_max,
        )
        self._leased = LeasedChunk(queue, sink, terms, version=settings.result_version)
        self._call_duration = TypicalDuration()
        self._drained = DrainedCheck(
            queue, sink, version=settings.result_version, stall_seconds=settings.stall_seconds
        )
        self._drained_check_due = -math.inf

    def run(self) -> WorkerSummary:
        with ExitStack() as stack:
            stack.enter_context(Heartbeat(self._leased, lease_seconds=self._settings.lease_seconds))
            if self._settings.timeout_seconds is not None:
                stack.enter_context(self._watchdog(self._settings.timeout_seconds, stack))
            stack.enter_context(Exporter(self._metrics()))
            self._guard.on_notice(self._on_notice)
            self._guard.on_last_resort(self._leased.release_rest)
            log.info("Worker started on %s.", self._queue.url, extra=self._options._asdict())
            try:
                self._work()
            except BaseException:
                self._quietly(self._leased.release_rest)
                raise
            finally:
                summary = self._leased.summary
                log.info("Worker ended: %s.", summary, extra=dataclasses.asdict(summary))
        return summary

    def _metrics(self) -> list[Metric]:
        return [
            Metric(
                name="outlast_progress_total",
                kind="counter",
                meaning="Items this process has finished.",
                read=lambda: self._leased.summary.done,
            ),
            Metric(
                name="outlast_queue_ready",
                kind="gauge",
                meaning="Items waiting in the queue.",
                read=lambda: self._queue.stats().ready,
            ),
            expiry_metric(self._guard),
        ]

    def _work(self) -> None:
        if self._options.until is Until.DRAINED and not self._retry.repeat(
            lambda: self._drained.is_possible
        ):
            log.warning(
                "%s cannot report when it is drained, so this worker runs until it is stopped. "
                "To change that, add a ledger to its URL.",
                self._queue.url,
            )
        # Checked before setup(), which may take minutes. No lease is held during setup(), so if it
        # fails or kills the process, no item is charged with a failure.
        if self._is_drained():
            log.warning("%s has no items left to process.", self._queue.url)
            return
        try:
            self._function.setup()
        except SystemExit as error:
            self._refuse_success(error, "The setup() method")
            raise
        self._drained.note_delivery()
        idle_polls = 0
        while True:
            self._retry.raise_if_interrupted()
            if self._leased.is_empty and not self._claim():
                if self._is_drained():
                    return
                self._guard.wait(backoff_seconds(idle_polls, *_POLL_SECONDS))
                idle_polls += 1
            else:
                self._work_off()
                self._drained.note_delivery()
                self._drained_check_due = -math.inf
                idle_polls = 0

    def _claim(self) -> bool:
        return self._retry.repeat(lambda: self._leased.claim(self._options.chunk))

    def _work_off(self) -> None:
        """Process the chunk, settle it and claim the next one."""
        guard, leased, function, pace = (
            self._guard,
            self._leased,
            self._function,
            self._call_duration,
        )
        self._retry.repeat(lambda: leased.skip_done(as_batch=self._options.batch))
        flush_at = time.monotonic() + _FLUSH_SECONDS
        while not guard.interrupted and (call := leased.begin()) is not None:
            try:
                computed = function.compute(call.items)
            except BaseException as error:
                if self._ends_worker(error):
                    self._on_escape(call, error)
                    raise
                computed = function.failed(call.items, error)
            now = time.monotonic()
            pace.add(now - call.started, len(call.items))
            leased.finish(call, computed)
            # After the last call, everything is settled below.
            if now >= flush_at and leased.has_waiting:
                self._quietly(leased.flush)
                flush_at = time.monotonic() + _FLUSH_SECONDS
        if not guard.interrupted:
            self._retry.repeat(lambda: leased.settle(claim=self._options.chunk))
            self._retry.repeat(leased.store_late)

    def _is_drained(self) -> bool:
        now = time.monotonic()
        if self._options.until is Until.FOREVER or now < self._drained_check_due:
            return False
        self._drained_check_due = now + _DRAINED_CHECK_SECONDS
        if self._retry.repeat(self._drained.is_drained):
            return True
        self._drained.raise_if_stalled()
        return False

    def _ends_worker(self, error: BaseException) -> bool:
        """Whether what the function raised ends the worker, instead of only failing the item."""
        if isinstance(error, KeyboardInterrupt):
            return self._may_be_from_a_person()
        return not isinstance(error, GeneratorExit)

    def _may_be_from_a_person(self) -> bool:
        """Whether a KeyboardInterrupt may come from Ctrl-C rather than from the function."""
        if self._guard.interrupted:
            return True
        # The guard treats Ctrl-C as a notice, unless it was told not to handle that signal. Python
        # raises KeyboardInterrupt in the main thread only.
        is_main = threading.current_thread() is threading.main_thread()
        return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler

    def _on_notice(self, _notice: Notice) -> None:
        """Release what is not started; keep the call in progress if it should finish in time."""
        call = self._leased.call
        keep_call = call is not None and fits(
            self._call_duration.expected_seconds(len(call.items)),
            elapsed_seconds=time.monotonic() - call.started,
            left_seconds=self._guard.remaining()
            - (self._leased.settle_duration.expected_seconds() or 0),
        )
        self._quietly(lambda: self._leased.release_rest(keep_call=keep_call))

    def _on_escape(self, call: FunctionCall, error: BaseException) -> None:
        """Fail the item if its call ended the worker, unless the worker was interrupted."""
        if self._guard.interrupted or isinstance(error, KeyboardInterrupt):
            return
        text = f"The function ended the worker: {text_of(error)}"
        self._quietly(lambda: self._leased.fail_call(call, text, self._function.policy))
        if isinstance(error, SystemExit):
            self._refuse_success(error, "The function")

    def _refuse_success(self, error: SystemExit, caller: str) -> None:
        """Raise if this exit would look like a drained queue."""
        # Of a number, the operating system keeps the lowest byte.
        is_success = error.code is None or (isinstance(error.code, int) and not error.code & 0xFF)
        if is_success and not self._guard.interrupted:
            code = "" if error.code is None else error.code
            raise FunctionExited(
                f"{caller} called sys.exit({code}) before the queue was drained.",
                hint="Return a result or raise an exception instead. To stop the worker on "
                "purpose, exit with a code other than 0.",
            ) from error

    def _watchdog(self, timeout_seconds: float, stack: ExitStack) -> Watchdog:
        exit = Exit()
        stack.callback(exit.close)

        def leave(call: FunctionCall) -> None:
            what = f"The function did not return within {timeout_seconds:g} s"
            scheduled_exit = ScheduledExit(
                at=time.monotonic(),
                code=interrupted_code(
                    explicit=self._settings.exit_code,
                    by_keyboard=False,
                    in_pod=in_pod(),
                    cut_off=True,
                ),
                seconds_max=_LAST_ACT_SECONDS_MAX,
            )
            policy = self._function.policy
            last_act = lambda: self._leased.fail_call(call, f"{what}.", policy)  # noqa: E731
            exit.end_process(scheduled_exit, f"{what}: exiting.", [last_act])

        return Watchdog(self._leased, timeout_seconds=timeout_seconds, on_overdue=leave)

    def _quietly(self, act: Callable[[], object]) -> None:
        """Try once. If it fails, there is another chance later, or the lease expires."""
        try:
            act()
        except OutlastError as error:
            log.warning("Could not settle the leased items: %s", error)
