"""The state of one guard: its notice, its callbacks, and its exit time.

Written by the watcher's thread, read by the program's. It starts nothing itself.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Self

from outlast._base.logs import get_logger
from outlast.interruption.exit_codes import FINISHED, interrupted_code
from outlast.interruption.exiting import ScheduledExit
from outlast.interruption.expiry import explicit_expiry
from outlast.interruption.machine import in_pod
from outlast.interruption.notice import Announcement, Notice, NoticeSource, merge
from outlast.interruption.settings import GuardSettings

log = get_logger(__name__)


class GuardState:
    """The state of one guard. `on_interrupted` is called when its notice arrives."""

    def __init__(
        self,
        settings: GuardSettings,
        on_interrupted: Callable[[], object],
        *,
        on_notice: Sequence[Callable[[Notice], object]] = (),
        on_last_resort: Sequence[Callable[[], object]] = (),
    ) -> None:
        self.settings = settings
        self.explicit_expiry = explicit_expiry(settings)
        self.notice: Notice | None = None
        self.save_requested: Notice | None = None
        self.arrived = threading.Event()
        self._on_interrupted = on_interrupted
        self._on_notice = list(on_notice)
        self._on_last_resort = list(on_last_resort)
        self._called_count = 0
        self._called_back = threading.Event()
        self._caller: int | None = None
        self._lock = threading.Lock()

    def renewed(self) -> Self:
        """The same guard without its notice."""
        return type(self)(
            self.settings,
            self._on_interrupted,
            on_notice=self._on_notice,
            on_last_resort=self._on_last_resort,
        )

    def receive(self, announcement: Announcement) -> bool:
        """Take note of an announcement. Returns whether it changes anything."""
        notice = announcement.for_grace(self.settings.grace_seconds)
        if announcement.source is NoticeSource.MAINTENANCE:
            self.save_requested = notice
            return True
        merged = merge(self.notice, notice)
        if merged is self.notice:
            return False
        self._called_back.clear()
        self.notice = merged
        self._on_interrupted()
        self.arrived.set()
        return True

    @property
    def is_ended_from_outside(self) -> bool:
        """Whether something outside stops the process at the deadline."""
        return self.notice is not None and self.notice.source.is_outside

    def remaining(self) -> float:
        if self.notice is None:
            return math.inf
        return max(0.0, self._budget_end(self.notice) - time.monotonic())

    def exit_code(self, *, cut_off: bool) -> int:
        if self.notice is None:
            return FINISHED
        return interrupted_code(
            explicit=self.settings.exit_code,
            by_keyboard=self.notice.source is NoticeSource.KEYBOARD,
            in_pod=in_pod(),
            cut_off=cut_off,
        )

    def interrupted_codes(self) -> frozenset[int]:
        """The exit codes by which to recognize that the notice ended this process."""
        if self.notice is None:
            return frozenset()
        return frozenset(self.exit_code(cut_off=cut_off) for cut_off in (False, True))

    def scheduled_exit(self) -> ScheduledExit | None:
        """When and how the process exits by itself; None without a notice."""
        if self.notice is None:
            return None
        return ScheduledExit(
            at=self._budget_end(self.notice),
            code=self.exit_code(cut_off=True),
            seconds_max=self.settings.reserve_seconds / 2,
        )

    def add_callback(self, callback: Callable[[Notice], object]) -> None:
        with self._lock:
            self._on_notice.append(callback)
            self._called_back.clear()

    def add_last_resort(self, callback: Callable[[], object]) -> None:
        self._on_last_resort.append(callback)

    def last_resort(self) -> Sequence[Callable[[], object]]:
        return tuple(self._on_last_resort)

    def has_callbacks_due(self) -> bool:
        return self.notice is not None and not self._called_back.is_set()

    def wait_for_callbacks(self) -> None:
        """Wait within the budget until all callbacks have run, unless called by one of them."""
        if self.notice is not None and self._caller != threading.get_ident():
            self._called_back.wait(self.remaining())

    def call_back(self) -> None:
        """Run the callbacks in order. One that hangs delays the others."""
        self._caller = threading.get_ident()
        while (callback := self._next_callback()) is not None:
            assert self.notice is not None, "Callbacks run after the notice."
            if self.remaining() <= 0:
                log.warning("Skipped the notice callback %r: no time left.", callback)
                continue
            try:
                callback(self.notice)
            except BaseException:
                log.exception("The notice callback %r failed.", callback)
        self._caller = None

    def _next_callback(self) -> Callable[[Notice], object] | None:
        with self._lock:
            if self._called_count == len(self._on_notice):
                self._called_back.set()
                return None
            self._called_count += 1
            return self._on_notice[self._called_count - 1]

    def _budget_end(self, notice: Notice) -> float:
        return notice.deadline - self.settings.reserve_seconds
