"""What one guard knows: its notice, its callbacks, and when it wants the process gone.

Written by the watcher's thread, asked by the program's. It starts nothing itself.
"""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from outlast.interruption.exit_codes import FINISHED, interrupted_code
from outlast.interruption.expiry import explicit_expiry
from outlast.interruption.guard_settings import GuardSettings
from outlast.interruption.leaving import Departure
from outlast.interruption.machine import in_pod
from outlast.interruption.notice import Announcement, Notice, Source, merge

log = logging.getLogger(__name__)


class Watch:
    """The state of one guard. `on_interrupted` is called once its notice is there."""

    def __init__(self, settings: GuardSettings, on_interrupted: Callable[[], object]) -> None:
        self.settings = settings
        self.explicit_expiry = explicit_expiry(settings)
        self.notice: Notice | None = None
        self.save_requested: Notice | None = None
        self.arrived = threading.Event()
        self.called_back = threading.Event()
        self._on_interrupted = on_interrupted
        self._on_notice: deque[Callable[[Notice], object]] = deque()
        self._on_last_resort: list[Callable[[], object]] = []
        self._calling = threading.Lock()

    def receive(self, announcement: Announcement) -> bool:
        """Note what was announced, and say whether it changes anything."""
        notice = announcement.for_grace(self.settings.grace_seconds)
        if announcement.source is Source.MAINTENANCE:
            self.save_requested = notice
            return True
        merged = merge(self.notice, notice)
        if merged is self.notice:
            return False
        self.called_back.clear()
        self.notice = merged
        self._on_interrupted()
        self.arrived.set()
        return True

    def remaining(self) -> float:
        if self.notice is None:
            return math.inf
        return max(0.0, self._budget_end(self.notice) - time.monotonic())

    def exit_code(self, *, cut_off: bool) -> int:
        if self.notice is None:
            return FINISHED
        return interrupted_code(
            explicit=self.settings.exit_code,
            by_keyboard=self.notice.source is Source.KEYBOARD,
            in_pod=in_pod(),
            cut_off=cut_off,
        )

    def departure(self, *, cut_off: bool) -> Departure | None:
        """When and how the process leaves if nothing else ends it; None without a notice."""
        if self.notice is None:
            return None
        return Departure(
            at=self._budget_end(self.notice),
            code=self.exit_code(cut_off=cut_off),
            seconds_max=self.settings.reserve_seconds / 2,
        )

    def add_callback(self, callback: Callable[[Notice], object]) -> None:
        self._on_notice.append(callback)
        self.called_back.clear()

    def add_last_resort(self, callback: Callable[[], object]) -> None:
        self._on_last_resort.append(callback)

    def last_resort(self) -> Sequence[Callable[[], object]]:
        return tuple(self._on_last_resort)

    def has_callbacks_due(self) -> bool:
        return self.notice is not None and not self.called_back.is_set()

    def call_back(self) -> None:
        """Run what waits for the notice, in order. One that hangs holds up the later ones."""
        with self._calling:
            while self._on_notice and self.notice is not None:
                callback = self._on_notice.popleft()
                if self.remaining() <= 0:
                    log.warning("No time was left to call %r on the notice.", callback)
                    continue
                try:
                    callback(self.notice)
                except Exception:
                    log.exception("The callback %r failed on the notice.", callback)
            self.called_back.set()

    def _budget_end(self, notice: Notice) -> float:
        return notice.deadline - self.settings.reserve_seconds
