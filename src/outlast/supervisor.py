"""Run a command as the first process of a container: signals, zombies, grace period, exit code.

For images whose entry point is a shell, or whose program ignores signals as process 1. Standard
library only, and quick to import. It writes nothing, so a kill leaves nothing behind but the
command itself, if that is outside a container.
"""

import contextlib
import math
import os
import signal
import time
from collections.abc import Collection, Iterable, Sequence
from signal import Signals
from typing import NamedTuple

from outlast.errors import OutlastError, SettingError
from outlast.interruption.exit_codes import INTERRUPTED
from outlast.interruption.machine import in_pod
from outlast.interruption.settings import EXIT_CODE, GRACE, RESERVE, SIGNALS

# What is left of the grace period after the command is killed: enough to reap it and exit.
_EXIT_SECONDS = 0.5
_GROUP_CHECK_SECONDS = 0.02
_WAIT_SECONDS_MAX = 3600.0

_ALL = signal.valid_signals()
_NOT_FORWARDED = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP),
    *(signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP),
}


class CommandNotStarted(OutlastError):
    """A command could not be started. `exit_code` is 127 if it was not found, otherwise 126."""

    def __init__(self, command: str, error: OSError | ValueError) -> None:
        missing = isinstance(error, FileNotFoundError)
        reason = error.strerror if isinstance(error, OSError) else str(error)
        super().__init__(
            f"Cannot start {command!r}: {reason}.",
            hint="Check the name and the PATH of the image."
            if missing
            else "Check that it is executable and, if it is a script, starts with '#!'.",
        )
        self.exit_code = 127 if missing else 126


class _Supervision(NamedTuple):
    """How to run a command, checked."""

    command: tuple[str, ...]
    grace_seconds: float
    notices: frozenset[Signals]
    explicit_code: int | None
    distrust_zero: bool


def supervise(
    command: Sequence[str],
    *,
    grace_seconds: float | None = None,
    signals: Iterable[int | str] | str | None = None,
    exit_code: int | None = None,
    distrust_zero: bool = False,
    grace_given_as: str | None = None,
) -> int:
    """Run a command to its end and return the code to exit with. Linux only.

    The command gets its own process group, and signals are forwarded to the entire group. After a
    notice, the group has the grace period to exit; then it is killed. `distrust_zero` treats exit
    code 0 after a notice as interrupted. Settings default to the variables that a guard uses.

    Call it in the main thread of a program without other threads or child processes, and exit right
    after: it reaps all child processes, and leaves signals blocked, so that none changes the exit
    code. Raises `CommandNotStarted`, or `SettingError` if a setting is invalid.
    """
    if not command:
        raise ValueError("The command is empty.")
    supervision = _Supervision(
        command=tuple(command),
        grace_seconds=_read_grace(grace_seconds, grace_given_as),
        notices=frozenset(SIGNALS.read(signals).value),
        explicit_code=EXIT_CODE.read(exit_code).value,
        distrust_zero=distrust_zero,
    )
    if not hasattr(signal, "sigtimedwait"):
        raise OutlastError(
            f"outlast exec runs only on Linux, not on {os.uname().sysname}.",
            hint="It is for containers. Outside of one, run the command directly.",
        )
    return _run(supervision)


def _read_grace(given: float | None, given_as: str | None) -> float:
    grace = GRACE.read(given, given_as=given_as)
    if grace.value <= _EXIT_SECONDS:
        raise SettingError(
            f"The grace period of {grace.value:g} s ({grace.source}) is too short: "
            f"{_EXIT_SECONDS:g} s of it are reserved for exiting.",
            hint=GRACE.hint,
            source=grace.source,
        )
    return grace.value


def _run(supervision: _Supervision) -> int:
    # A parent that ignores SIGCHLD would make this process ignore it too.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    inherited = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
    try:
        child = _spawn(supervision, inherited)
    except (OSError, ValueError) as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, inherited)
        raise CommandNotStarted(supervision.command[0], error) from error
    terminal = _Terminal(child)
    try:
        return _supervise(supervision, child, terminal)
    finally:
        terminal.take_back()


def _spawn(supervision: _Supervision, mask: Collection[int]) -> int:
    # The budget of guards in the command: the kill comes before the end of the grace period.
    budget_seconds = supervision.grace_seconds - _EXIT_SECONDS
    environ = {**os.environ, GRACE.variable: repr(budget_seconds)}
    if budget_seconds < RESERVE.read().value:
        environ[RESERVE.variable] = repr(budget_seconds / 4)
    # Python ignores these two signals at startup, and the command would inherit that.
    return os.posix_spawnp(
        supervision.command[0],
        supervision.command,
        environ,
        setpgroup=0,
        setsigmask=mask,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )


def _supervise(supervision: _Supervision, child: int, terminal: "_Terminal") -> int:
    """Forward signals until the command has ended; after a notice, until its entire group has.

    A shell dies from the signal immediately, while the program it started may still be saving.
    """
    kill_at = math.inf
    status: int | None = None
    while True:
        number = _next_signal(kill_at, draining=status is not None)
        if number in supervision.notices:
            kill_at = min(kill_at, time.monotonic() + supervision.grace_seconds - _EXIT_SECONDS)
        if number == signal.SIGCONT:
            terminal.lend()
        if number is not None and number not in _NOT_FORWARDED:
            _signal_group(child, number)
        if number in supervision.notices:
            # A stopped command could not react to the notice.
            _signal_group(child, signal.SIGCONT)
        status = _reap(child, terminal, status)
        noticed = kill_at < math.inf
        if status is not None and not (noticed and _group_lives(child)):
            return _exit_code(supervision, status, noticed=noticed)
        if time.monotonic() >= kill_at:
            _signal_group(child, signal.SIGKILL)
            return _exit_code(supervision, _reap_killed(child, status), noticed=True)


def _next_signal(kill_at: float, *, draining: bool) -> int | None:
    """The next signal; None when it is time to check the group or to kill it."""
    timeout = max(0.0, kill_at - time.monotonic())
    if draining:
        timeout = min(timeout, _GROUP_CHECK_SECONDS)
    info = signal.sigtimedwait(_ALL, min(timeout, _WAIT_SECONDS_MAX))
    return info.si_signo if info is not None else None


def _reap(child: int, terminal: "_Terminal", status: int | None) -> int | None:
    """Reap all processes that ended, including orphans. Returns the command's status if known."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                break
            if os.WIFSTOPPED(ended):
                if pid == child:
                    terminal.on_stop(os.WSTOPSIG(ended))
            elif pid == child:
                status = ended
    return status


def _reap_killed(child: int, status: int | None) -> int:
    """The status after a kill. Does not wait for a process that hangs in the kernel."""
    give_up_at = time.monotonic() + _EXIT_SECONDS / 2
    while status is None and time.monotonic() < give_up_at:
        pid, ended = os.waitpid(child, os.WNOHANG)
        if pid == child:
            status = ended
        else:
            time.sleep(0.005)
    return int(signal.SIGKILL) if status is None else status


def _signal_group(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _exit_code(supervision: _Supervision, status: int, *, noticed: bool) -> int:
    """The exit code of the command, unless the notice ended it."""
    if os.WIFEXITED(status):
        code = os.WEXITSTATUS(status)
        if code == 0 and noticed and supervision.distrust_zero:
            return INTERRUPTED if supervision.explicit_code is None else supervision.explicit_code
        return code
    number = os.WTERMSIG(status)
    if noticed and number in {*supervision.notices, signal.SIGKILL}:
        if supervision.explicit_code is not None:
            return supervision.explicit_code
        if in_pod() and number != signal.SIGINT:
            return INTERRUPTED
    return 128 + number


class _Terminal:
    """Lends the terminal to the command's group, so that Ctrl-C, Ctrl-Z and input go there.

    To a shell, this process is the job: it stops when the command stops, and continues with it.
    """

    def __init__(self, group: int) -> None:
        self._group = group
        self._own_group = os.getpgrp()
        try:
            # Not standard input, which may be a pipe although the job reads the terminal.
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1
        self.lend()

    def lend(self) -> None:
        """Give the terminal to the command, if this process has it."""
        self._pass_on(self._own_group, self._group)

    def take_back(self) -> None:
        self._pass_on(self._group, self._own_group)

    def on_stop(self, number: int) -> None:
        """React to the command being stopped by a signal."""
        if self._fd < 0 or number == signal.SIGSTOP:
            return
        ours = (self._own_group, self._group)
        if number in (signal.SIGTTIN, signal.SIGTTOU) and self._foreground() in ours:
            # It asked for the terminal before it was lent.
            self.lend()
            _signal_group(self._group, signal.SIGCONT)
            return
        self.take_back()
        os.killpg(self._own_group, signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTSTP])
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])
        if signal.SIGCONT not in signal.sigpending():
            # There is no shell to stop for: the kernel let this process continue.
            self.lend()
            _signal_group(self._group, signal.SIGCONT)

    def _foreground(self) -> int | None:
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:
            return None

    def _pass_on(self, giver: int, taker: int) -> None:
        if self._fd >= 0 and self._foreground() == giver:
            # Signals are blocked, so a background group may do this without being stopped.
            with contextlib.suppress(OSError):
                os.tcsetpgrp(self._fd, taker)
