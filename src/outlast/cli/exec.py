"""`outlast exec`: run a command so that signals reach it and its exit code tells the truth.

For images whose entry point is a shell, or whose program ignores signals as process 1. Standard
library only. It writes nothing, so a kill leaves nothing behind but, outside a container, the
command itself.
"""

import argparse
import contextlib
import math
import os
import signal
import time
from collections.abc import Collection, Sequence
from signal import Signals
from typing import NamedTuple, NoReturn

from outlast._base.durations import parse_duration
from outlast.cli.messages import print_error
from outlast.errors import OutlastError, SettingError
from outlast.interruption.exit_codes import INTERRUPTED
from outlast.interruption.machine import in_pod
from outlast.interruption.settings import EXIT_CODE, GRACE, RESERVE, SIGNALS

EXAMPLES = """\
  outlast exec -- python train.py
  outlast exec --grace 25s -- sh -c 'python prepare.py && python train.py'
  outlast exec --distrust-zero -- ./trainer   # it exits 0 on SIGTERM, finished or not
"""

# What is left of the grace period once the command was killed: enough to reap it and leave.
_LEAVE_SECONDS = 0.5
_GROUP_CHECK_SECONDS = 0.02
_WAIT_SECONDS_MAX = 3600.0

_ALL = signal.valid_signals()
_NOT_FORWARDED = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP),
    *(signal.SIGTTIN, signal.SIGTTOU, signal.SIGTSTP),
}


class Plan(NamedTuple):
    """How to run the command."""

    command: tuple[str, ...]
    grace_seconds: float
    notices: frozenset[Signals]
    explicit_code: int | None
    distrust_zero: bool


def main(arguments: Sequence[str]) -> int:
    try:
        plan = _plan(arguments)
        if not hasattr(signal, "sigtimedwait"):
            raise OutlastError(
                f"outlast exec does not run on {os.uname().sysname}, only on Linux.",
                hint="It is the first process of a container; by hand, run the command itself.",
            )
        return run(plan)
    except OutlastError as error:
        print_error(error)
        return 2


def exec_command(*command: str, grace: str | None = None, distrust_zero: bool = False) -> None:
    """Run a command as a container's first process should: signals, zombies, grace, exit code.

    The command gets its own process group, and every signal is passed on to the whole group. After
    a notice the group has the grace period to end; then it is killed.

    Parameters
    ----------
    command: str
        The command and its arguments, after `--`.
    grace: str
        Time from a notice to the kill, such as 25s. Default: OUTLAST_GRACE_SECONDS, else 15s.
    distrust_zero: bool
        Count exit 0 after a notice as interrupted: for programs that exit 0 whenever they are
        stopped, which ends a Kubernetes Job with the work unfinished.
    """
    raise AssertionError("The entry point runs `exec` before the application is built.")


def run(plan: Plan) -> int:
    """Run the command to its end and say what to exit with."""
    # A parent that ignores its children's ends would have us ignore them too.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    inherited = signal.pthread_sigmask(signal.SIG_BLOCK, _ALL)
    try:
        child = _spawn(plan, inherited)
    except (OSError, ValueError) as error:
        return _cannot_start(plan.command[0], error)
    terminal = _Terminal(child)
    try:
        return _supervise(plan, child, terminal)
    finally:
        terminal.take_back()


def _plan(arguments: Sequence[str]) -> Plan:
    parser = _Parser(
        prog="outlast exec",
        usage="outlast exec [--grace DURATION] [--distrust-zero] -- COMMAND [ARGUMENT ...]",
        description="Run a command as a container's first process should: pass signals on to its\n"
        "whole group, reap zombies, give the grace period, and exit with its code.",
        epilog=f"examples:\n{EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--grace",
        type=_grace,
        metavar="DURATION",
        help="time from a notice to the kill, such as 25s (default: OUTLAST_GRACE_SECONDS, or 15s)",
    )
    parser.add_argument(
        "--distrust-zero",
        action="store_true",
        help="count exit 0 after a notice as interrupted, for programs that exit 0 on SIGTERM",
    )
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command
    if not command:
        raise SettingError(
            "There is no command to run.",
            hint="Write it after two dashes: outlast exec -- python train.py",
            source="command line",
        )
    grace = GRACE.read(options.grace, given_as="option --grace")
    if grace.value <= _LEAVE_SECONDS:
        raise SettingError(
            f"The grace period of {grace.value:g} s ({grace.source}) leaves no time: "
            f"{_LEAVE_SECONDS:g} s of it are kept for leaving.",
            hint=GRACE.hint,
            source=grace.source,
        )
    return Plan(
        command=tuple(command),
        grace_seconds=grace.value,
        notices=frozenset(SIGNALS.read().value),
        explicit_code=EXIT_CODE.read().value,
        distrust_zero=options.distrust_zero,
    )


class _Parser(argparse.ArgumentParser):
    """Errors in the words of the other commands."""

    def error(self, message: str) -> NoReturn:
        sentence = message[:1].upper() + message[1:]
        raise SettingError(sentence, hint="See `outlast exec --help`.", source="option")


def _grace(text: str) -> float:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _spawn(plan: Plan, mask: Collection[int]) -> int:
    # What guards inside may count on: the kill comes before the end of the grace period.
    budget_seconds = plan.grace_seconds - _LEAVE_SECONDS
    environ = {**os.environ, GRACE.variable: repr(budget_seconds)}
    if budget_seconds < RESERVE.read().value:
        environ[RESERVE.variable] = repr(budget_seconds / 4)
    # Python ignores these two at its start, and a command would inherit that.
    return os.posix_spawnp(
        plan.command[0],
        plan.command,
        environ,
        setpgroup=0,
        setsigmask=mask,
        setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
    )


def _supervise(plan: Plan, child: int, terminal: "_Terminal") -> int:
    """Pass signals on until the command has ended; after a notice, until its whole group has.

    A shell dies of the signal at once, while the program it started may still be saving.
    """
    kill_at = math.inf
    status: int | None = None
    while True:
        number = _next_signal(kill_at, draining=status is not None)
        if number in plan.notices:
            kill_at = min(kill_at, time.monotonic() + plan.grace_seconds - _LEAVE_SECONDS)
        if number == signal.SIGCONT:
            terminal.lend()
        if number is not None and number not in _NOT_FORWARDED:
            _signal_group(child, number)
        if number in plan.notices:
            # A command that was stopped could not act on the notice.
            _signal_group(child, signal.SIGCONT)
        status = _reap(child, terminal, status)
        noticed = kill_at < math.inf
        if status is not None and not (noticed and _group_lives(child)):
            return _code(plan, status, noticed=noticed)
        if time.monotonic() >= kill_at:
            _signal_group(child, signal.SIGKILL)
            return _code(plan, _reap_killed(child, status), noticed=True)


def _next_signal(kill_at: float, *, draining: bool) -> int | None:
    """The next signal; None when it is time to look at the group or to kill it."""
    timeout = max(0.0, kill_at - time.monotonic())
    if draining:
        timeout = min(timeout, _GROUP_CHECK_SECONDS)
    info = signal.sigtimedwait(_ALL, min(timeout, _WAIT_SECONDS_MAX))
    return info.si_signo if info is not None else None


def _reap(child: int, terminal: "_Terminal", status: int | None) -> int | None:
    """Collect every process that ended, orphans too; returns the command's status once known."""
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
    """The status after a kill; one that hangs in the kernel is not waited for."""
    give_up_at = time.monotonic() + _LEAVE_SECONDS / 2
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


def _code(plan: Plan, status: int, *, noticed: bool) -> int:
    """The command's own code, unless the notice is what ended it."""
    if os.WIFEXITED(status):
        code = os.WEXITSTATUS(status)
        if code == 0 and noticed and plan.distrust_zero:
            return INTERRUPTED if plan.explicit_code is None else plan.explicit_code
        return code
    number = os.WTERMSIG(status)
    if noticed and number in {*plan.notices, signal.SIGKILL}:
        if plan.explicit_code is not None:
            return plan.explicit_code
        if in_pod() and number != signal.SIGINT:
            return INTERRUPTED
    return 128 + number


def _cannot_start(command: str, error: OSError | ValueError) -> int:
    missing = isinstance(error, FileNotFoundError)
    reason = error.strerror if isinstance(error, OSError) else str(error)
    print_error(
        OutlastError(
            f"Cannot start {command!r}: {reason}.",
            hint="Check the name and the PATH of the image."
            if missing
            else "Check that it is executable and, if a script, starts with '#!'.",
        )
    )
    return 127 if missing else 126


class _Terminal:
    """Lends the terminal to the command's group, so that Ctrl-C, Ctrl-Z and typing go there.

    As a shell sees it, we are the job: we stop when the command stops and go on when it does.
    """

    def __init__(self, group: int) -> None:
        self._group = group
        self._own_group = os.getpgrp()
        try:
            # Not standard input, which may be a pipe in a job that still reads the terminal.
            self._fd = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            self._fd = -1
        self.lend()

    def lend(self) -> None:
        """Give the terminal to the command, if it is ours to give."""
        self._pass_on(self._own_group, self._group)

    def take_back(self) -> None:
        self._pass_on(self._group, self._own_group)

    def on_stop(self, number: int) -> None:
        """The command was stopped by a signal."""
        if self._fd < 0 or number == signal.SIGSTOP:
            return
        ours = (self._own_group, self._group)
        if number in (signal.SIGTTIN, signal.SIGTTOU) and self._foreground() in ours:
            # It asked for the terminal before we had lent it, which may have been just now.
            self.lend()
            _signal_group(self._group, signal.SIGCONT)
            return
        self.take_back()
        os.killpg(self._own_group, signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTSTP])
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])
        if signal.SIGCONT not in signal.sigpending():
            # No shell is there to stop for: the kernel has let us go on, and so does the command.
            self.lend()
            _signal_group(self._group, signal.SIGCONT)

    def _foreground(self) -> int | None:
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:
            return None

    def _pass_on(self, giver: int, taker: int) -> None:
        if self._fd >= 0 and self._foreground() == giver:
            # Our signals are blocked, so a background group may do this without being stopped.
            with contextlib.suppress(OSError):
                os.tcsetpgrp(self._fd, taker)
