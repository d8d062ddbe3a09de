"""The end of a lease: stay on the node until it goes, so that no new Pod starts on it.

A process that has saved could exit long before its node is taken away. Its Job would then start a
new Pod on the same node, which has no time for anything, and again, with a growing backoff. If it
stays, the node's shutdown ends it, and the next Pod starts on another node.
"""

import threading
import time
from dataclasses import dataclass, field, replace

from outlast.interruption.exiting import ScheduledExit
from outlast.interruption.expiry import BOOT_MARGIN_SECONDS, OVERDUE_SECONDS_MAX, ExpiryClock

_CHECK_SECONDS = 5.0


@dataclass(kw_only=True)
class LeaseEnd:
    """A process that has saved, on a node whose lease ends. `exit` is how it exits afterwards."""

    clock: ExpiryClock
    exit: ScheduledExit
    budget_seconds: float
    _shutdown_at: float | None = None
    _shutdown: threading.Event = field(default_factory=threading.Event)

    def on_shutdown(self, moment: float) -> None:
        """The signal came, at this `time.monotonic()`."""
        if self._shutdown_at is None:
            self._shutdown_at = moment
            self._shutdown.set()

    def seconds_max(self) -> float:
        """How long to stay at most: until the clock is known to be wrong."""
        return self.clock.seconds_left() + OVERDUE_SECONDS_MAX + BOOT_MARGIN_SECONDS

    def wait(self) -> bool:
        """Wait for the shutdown. Returns whether it came. Follows the clock if it is corrected."""
        while (left_seconds := self.seconds_max()) > 0:
            if self._shutdown.wait(min(left_seconds, _CHECK_SECONDS)):
                return True
        return False

    def scheduled_exit(self) -> ScheduledExit:
        """When the watcher ends the process, if it hangs."""
        if self._shutdown_at is not None:
            return replace(self.exit, at=self._shutdown_at + self.budget_seconds)
        return replace(self.exit, at=time.monotonic() + self.seconds_max() + self.budget_seconds)

    def final_exit(self) -> ScheduledExit:
        """When the process must be gone, once it no longer waits."""
        return replace(self.exit, at=time.monotonic() + 2 * self.exit.seconds_max)
