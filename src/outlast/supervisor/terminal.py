"""The terminal of a supervised command: Ctrl-C, Ctrl-Z, `fg`, `bg` and input go to the command."""

import os

from outlast.supervisor.posix_signals import signal
from outlast.supervisor.processes import signal_group


class Terminal:
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
            signal_group(self._group, signal.SIGCONT)
            return
        self.take_back()
        os.killpg(self._own_group, signal.SIGTSTP)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTSTP])
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])
        if signal.SIGCONT not in signal.sigpending():
            # There is no shell to stop for: the kernel let this process continue.
            self.lend()
            signal_group(self._group, signal.SIGCONT)

    def _foreground(self) -> int | None:
        try:
            return os.tcgetpgrp(self._fd)
        except OSError:
            return None

    def _pass_on(self, giver: int, taker: int) -> None:
        if self._fd >= 0 and self._foreground() == giver:
            # Signals are blocked, so a background group may do this without being stopped.
            try:
                os.tcsetpgrp(self._fd, taker)
            except OSError:
                pass
