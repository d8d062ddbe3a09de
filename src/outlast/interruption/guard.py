"""The one place that knows whether, and until when, this process may live.

Opening a guard takes the signals over and starts a watcher thread; closing it puts everything back.
It saves nothing itself: the loop asks, and acts between two steps.
"""

import math
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar

from outlast.interruption import watcher
from outlast.interruption.guard_settings import GuardSettings
from outlast.interruption.notice import Announcement, Notice, Source
from outlast.interruption.watch import Watch

OnNotice = TypeVar("OnNotice", bound=Callable[[Notice], object])
OnLastResort = TypeVar("OnLastResort", bound=Callable[[], object])


class Guard:
    """Hears that this process will be ended, and leaves in time if the program does not.

    `interrupted` turns true once there is a notice; a plain attribute, cheap enough to ask at every
    step. From then on the process leaves by itself at the end of the budget (grace less reserve)
    with the interrupted code, since the loop may be stuck in a step that outlasts the grace period.
    A notice from outside stands even after the guard was closed.

    Raises `SettingError` when a setting cannot work.
    """

    interrupted: bool

    def __init__(
        self,
        *,
        grace_seconds: float | None = None,
        signals: Iterable[int | str] | str | None = None,
        exit_code: int | None = None,
        reserve_seconds: float | None = None,
        expires_at: datetime | str | None = None,
        max_run_seconds: float | None = None,
        node_name: str | None = None,
        metadata_host: str | None = None,
    ) -> None:
        self._settings = GuardSettings.read(
            {
                "grace_seconds": grace_seconds,
                "signals": signals,
                "exit_code": exit_code,
                "reserve_seconds": reserve_seconds,
                "expires_at": expires_at,
                "max_run_seconds": max_run_seconds,
                "node_name": node_name,
                "metadata_host": metadata_host,
            }
        )
        self._watcher: watcher.Watcher | None = None
        self._watch = Watch(self._settings, self._set_interrupted)
        self.interrupted = False

    def __enter__(self) -> Self:
        if self._watcher is not None:
            raise RuntimeError("This guard is open already. Open another one to nest.")
        if self.interrupted:
            self.interrupted = False
            self._watch = self._watch.renewed()
        self._watcher = watcher.admit(self._watch)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._watcher is not None, "Only an open guard can be closed."
        open_watcher, self._watcher = self._watcher, None
        if open_watcher.is_current:
            self._watch.wait_for_callbacks()
        open_watcher.remove(self._watch)

    @property
    def notice(self) -> Notice | None:
        """The notice, or None."""
        return self._watch.notice

    @property
    def save_requested(self) -> Notice | None:
        """What, announced well ahead such as maintenance, makes a save wise but no departure."""
        return self._watch.save_requested

    def save_started(self) -> None:
        """Take the request for a save as met."""
        self._watch.save_requested = None

    @property
    def exit_code(self) -> int:
        """What this process should leave with now: 0 without a notice."""
        return self._watch.exit_code(cut_off=False)

    @property
    def budget_seconds(self) -> float:
        """Seconds for work that a notice from outside will leave: the grace less the reserve."""
        return self._settings.grace_seconds - self._settings.reserve_seconds

    def seconds_until_expiry(self) -> float | None:
        """How long the machine will live, where a clock knows; None if none does, or closed."""
        return self._watcher.seconds_until_expiry(self._watch) if self._watcher else None

    def remaining(self) -> float:
        """Seconds left for work; 0 once the budget is spent, infinite without a notice."""
        return self._watch.remaining()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Block until there is a notice, or until the timeout. Says whether there is one."""
        return self._watch.arrived.wait(None if timeout_seconds == math.inf else timeout_seconds)

    def interrupt(self, reason: str) -> None:
        """Give notice from within the program, to every open guard of this process."""
        if self._watcher is None or not self._watcher.is_current:
            raise RuntimeError("Only an open guard can be interrupted, by the process it is in.")
        self._watcher.announce(
            Announcement(source=Source.PROGRAM, reason=reason, arrived=time.monotonic())
        )

    def on_notice(self, callback: OnNotice) -> OnNotice:
        """Call this with the notice when it comes, in a thread, after those registered before.

        It should be done within `remaining()`; none is started once that is 0.
        """
        self._watch.add_callback(callback)
        if self._watcher is not None:
            self._watcher.wake()
        return callback

    def on_last_resort(self, callback: OnLastResort) -> OnLastResort:
        """Call this, in a thread, when the budget is spent and the loop has not come back.

        All of them together have half the reserve; then the process is gone.
        """
        self._watch.add_last_resort(callback)
        return callback

    def _set_interrupted(self) -> None:
        self.interrupted = True
