"""A command that is running: forward signals, keep the grace period, end what is left of it.

What only a notice or a failure needs is loaded shortly after the start, not before: a command that
ends at once does not wait for it, and a notice hours later needs no file of this package.
"""

from __future__ import annotations

import os
import time

from outlast.interruption.exit_codes import FINISHED, INTERRUPTED, interrupted_code
from outlast.supervisor.posix_signals import signal
from outlast.supervisor.processes import ProcessTree
from outlast.supervisor.supervised import EXIT_SECONDS, Supervision
from outlast.supervisor.terminal import Terminal

# Type checkers know this name without an import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from outlast.supervisor.notes import AtNotice

_DRAIN_CHECK_SECONDS = 0.02
_WAIT_SECONDS_MAX = 3600.0
_LOAD_AFTER_SECONDS = 0.05
_NEVER = float("inf")

_ALL = signal.valid_signals()
_NOT_FORWARDED = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP),
    *(signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP),
}


class RunningCommand:
    """One command, after its start."""

    def __init__(self, supervision: Supervision, command: int, notes_path: str | None) -> None:
        self._supervision = supervision
        self._notes_path = notes_path
        self._terminal = Terminal(command)
        self._processes = ProcessTree(command, self._terminal.on_stop)
        self._notice: int | None = None
        self._at_notice: AtNotice | None = None
        self._kill_at = _NEVER
        self._load_at = time.monotonic() + _LOAD_AFTER_SECONDS

    @property
    def was_noticed(self) -> bool:
        """Whether a notice has arrived."""
        return self._notice is not None

    def wait(self) -> int:
        """Supervise the command to its end. Returns the code to exit with."""
        try:
            return self._supervise()
        finally:
            self._terminal.take_back()

    def _supervise(self) -> int:
        """Forward signals until the command has ended; after a notice, until all below it has.

        A shell dies from the signal immediately, while the program it started may still be saving.
        Descendants are also ended if the command died from a signal: it cannot have left them
        running on purpose.
        """
        while True:
            number = self._next_signal()
            if number in self._supervision.notices:
                self._on_notice(number)
            if number == signal.SIGCONT:
                self._terminal.lend()
            if number is not None and number not in _NOT_FORWARDED:
                self._processes.signal_group(number)
            if number in self._supervision.notices:
                # A stopped command could not react to the notice.
                self._processes.signal_group(signal.SIGCONT)
            self._processes.reap()
            status = self._processes.status
            if status is not None and self._is_over(status):
                return self._exit_code(status)
            if time.monotonic() >= self._kill_at:
                self._processes.kill(EXIT_SECONDS / 2)
                status = self._processes.status
                return self._exit_code(signal.SIGKILL if status is None else status)

    def _next_signal(self) -> int | None:
        """The next signal; None when it is time to check the descendants or to kill them."""
        now = time.monotonic()
        if now >= self._load_at:
            self._load_at = _NEVER
            _load_the_rest()
        timeout = max(0.0, min(self._kill_at, self._load_at) - now)
        if self._processes.status is not None:
            timeout = min(timeout, _DRAIN_CHECK_SECONDS)
        info = signal.sigtimedwait(_ALL, min(timeout, _WAIT_SECONDS_MAX))
        return info.si_signo if info is not None else None

    def _on_notice(self, number: int) -> None:
        self._start_countdown()
        if self._notice is None:
            from outlast.interruption.machine import in_pod
            from outlast.supervisor.notes import look_around, read_notes

            self._notice = number
            cut_off_code = interrupted_code(
                explicit=self._supervision.explicit_code,
                by_keyboard=number == signal.SIGINT,
                in_pod=in_pod(),
                cut_off=True,
            )
            self._at_notice = look_around(read_notes(self._notes_path), cut_off_code)

    def _start_countdown(self) -> None:
        budget_seconds = self._supervision.grace_seconds - EXIT_SECONDS
        self._kill_at = min(self._kill_at, time.monotonic() + budget_seconds)

    def _is_over(self, status: int) -> bool:
        """Whether nothing is left to wait for, after the command has ended."""
        if self._processes.has_ended:
            return True
        if os.WIFSIGNALED(status):
            self._start_countdown()
        if self._kill_at == _NEVER:
            return True
        self._processes.ask_orphans_to_exit(self._notice or signal.SIGTERM)
        return False

    def _exit_code(self, status: int) -> int:
        """The exit code of the command, unless its processes agree that a notice ended them."""
        own = _own_code(self._supervision, status, noticed=self._notice is not None)
        if own == FINISHED or (os.WIFSIGNALED(status) and self._notice is None):
            return own
        from outlast.supervisor.notes import agreed_code, read_notes

        agreed = agreed_code(read_notes(self._notes_path), self._at_notice)
        return own if agreed is None else agreed


def _load_the_rest() -> None:
    """Import what the functions here import themselves when a notice or a failure comes first."""
    import outlast.interruption.machine
    import outlast.supervisor.notes  # noqa: F401


def _own_code(supervision: Supervision, status: int, *, noticed: bool) -> int:
    """The exit code of the command, unless the notice ended it."""
    if os.WIFEXITED(status):
        code = os.WEXITSTATUS(status)
        if code == FINISHED and noticed and supervision.distrust_zero:
            return INTERRUPTED if supervision.explicit_code is None else supervision.explicit_code
        return code
    number = os.WTERMSIG(status)
    if noticed and number in {*supervision.notices, signal.SIGKILL}:
        if supervision.explicit_code is not None:
            return supervision.explicit_code
        from outlast.interruption.machine import in_pod

        if in_pod() and number != signal.SIGINT:
            return INTERRUPTED
    return 128 + number
