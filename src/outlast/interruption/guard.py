"""The guard: lets a program know that it will be stopped, and how much time is left.

Opening a guard takes over the signals and starts a watcher thread; closing it restores everything.
It saves nothing itself: the loop checks the guard and acts between two steps.
"""

import math
import os
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from types import TracebackType
from typing import Self, TypeVar

from outlast._base.logs import get_logger
from outlast.interruption import watcher
from outlast.interruption.exit_codes import FINISHED, claims_success
from outlast.interruption.guard_state import GuardState
from outlast.interruption.notice import Announcement, Notice, NoticeSource
from outlast.interruption.settings import STAY_UNTIL_SHUTDOWN, GuardSettings

log = get_logger(__name__)

OnNotice = TypeVar("OnNotice", bound=Callable[[Notice], object])
OnLastResort = TypeVar("OnLastResort", bound=Callable[[], object])


class Guard:
    """Receives the notice that this process will be stopped, and exits in time if needed.

    `interrupted` becomes true once there is a notice. It is a plain attribute, cheap enough to
    check at every step. From then on, the process exits by itself at the end of the budget (the
    grace period minus the reserve) with the interrupted code, because the loop may be stuck in a
    step that takes longer than the grace period. A notice from outside stays in effect after the
    guard closes.

    A `SystemExit` that leaves the block after a notice without a code, or with code 0, gets the
    interrupted code: the work inside was not finished. Any other code is kept.

    Raises `SettingError` if a setting is invalid.
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
        self._stays = STAY_UNTIL_SHUTDOWN.read().value
        self._watcher: watcher.Watcher | None = None
        self._state = GuardState(self._settings, self._set_interrupted)
        self.interrupted = False

    def __enter__(self) -> Self:
        if self._watcher is not None:
            raise RuntimeError("This guard is already open. To nest guards, create another one.")
        if self.interrupted:
            self.interrupted = False
            self._state = self._state.renewed()
        self._watcher = watcher.admit(self._state)
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
            if isinstance(error, SystemExit) and claims_success(error):
                open_watcher.catch_up()
                self._correct(error)
            self._state.wait_for_callbacks()
            if self._stays and isinstance(error, SystemExit) and error.code == self.exit_code != 0:
                open_watcher.stay_until_shutdown(self._state)
        open_watcher.remove(self._state)

    @property
    def notice(self) -> Notice | None:
        """The notice, or None."""
        return self._state.notice

    @property
    def save_requested(self) -> Notice | None:
        """An event announced well ahead, such as maintenance: save soon, but keep running."""
        return self._state.save_requested

    def save_started(self) -> None:
        """Clear the request for a save, because one has started."""
        self._state.save_requested = None

    @property
    def exit_code(self) -> int:
        """The exit code this process should use now: 0 without a notice."""
        return self._state.exit_code(cut_off=False)

    @property
    def budget_seconds(self) -> float:
        """Seconds for work after a notice from outside: the grace period minus the reserve."""
        return self._settings.grace_seconds - self._settings.reserve_seconds

    def seconds_until_expiry(self) -> float | None:
        """Seconds until the machine is taken away; None if unknown, or if the guard is closed."""
        return self._watcher.seconds_until_expiry(self._state) if self._watcher else None

    def remaining(self) -> float:
        """Seconds left for work: 0 once the budget is used up, infinite without a notice."""
        return self._state.remaining()

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait for a notice. Returns whether there is one; false after the timeout.

        Raises `RuntimeError` in a forked child, which never receives a notice.
        """
        opened_by = self._watcher
        if opened_by is not None and not opened_by.is_current:
            raise RuntimeError(
                f"This guard was opened by process {opened_by.pid}, not by this forked child "
                f"({os.getpid()}). Open a guard in the child."
            )
        return self._state.arrived.wait(None if timeout_seconds == math.inf else timeout_seconds)

    def catch_up(self) -> None:
        """Return once every signal that this process has received so far is known here.

        Another signal handler of the program can run before the guard has its notice.
        """
        if self._watcher is not None and self._watcher.is_current:
            self._watcher.catch_up()

    def interrupt(self, reason: str) -> None:
        """Send a notice from within the program to every open guard of this process."""
        if self._watcher is None or not self._watcher.is_current:
            raise RuntimeError(
                "Only an open guard can be interrupted, and only by the process that opened it."
            )
        self._watcher.announce(
            Announcement(source=NoticeSource.PROGRAM, reason=reason, arrived=time.monotonic())
        )

    def announce_peer(self, reason: str, seconds_left: float) -> None:
        """Send the notice of another rank of this program to every open guard of this process.

        `seconds_left` is what `remaining()` is on that rank: no rank can work longer than the
        first one that is stopped. Without effect if this guard is closed.
        """
        if self._watcher is not None and self._watcher.is_current:
            self._watcher.announce(
                Announcement(
                    source=NoticeSource.PEER,
                    reason=reason,
                    arrived=time.monotonic(),
                    window_seconds=seconds_left + self._settings.reserve_seconds,
                )
            )

    def on_notice(self, callback: OnNotice) -> OnNotice:
        """Call this with the notice when it arrives, in a thread, in order of registration.

        It should finish within `remaining()` seconds. No callback starts once that is 0.
        """
        self._state.add_callback(callback)
        if self._watcher is not None:
            self._watcher.wake()
        return callback

    def on_last_resort(self, callback: OnLastResort) -> OnLastResort:
        """Call this, in a thread, if the budget is used up and the program has not exited.

        All these callbacks together have half of the reserve; then the process exits.
        """
        self._state.add_last_resort(callback)
        return callback

    def _correct(self, error: SystemExit) -> None:
        """Give an exit the interrupted code, whoever raised it. It keeps its class."""
        if self.exit_code != FINISHED:
            log.warning(
                "%s with exit code %s after a notice: exiting with %d, because the work was not "
                "finished.",
                type(error).__name__,
                error.code,
                self.exit_code,
            )
            error.code = self.exit_code

    def _set_interrupted(self) -> None:
        self.interrupted = True
