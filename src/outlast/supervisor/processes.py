"""The processes below a supervised command: signal, reap and kill them, also in other sessions.

torchrun starts each worker in a session of its own, which signals to its process group never reach,
and which outlives it if it is killed. This process has adopted such orphans, so none is lost.
"""

from __future__ import annotations

import os
import time

from outlast.supervisor.posix_signals import signal

# Type checkers know this name without an import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_KILL_AGAIN_SECONDS = 0.01


class ProcessTree:
    """A command, its process group, and everything that descends from them."""

    def __init__(self, command: int, on_stop: Callable[[int], object]) -> None:
        self._command = command
        self._on_stop = on_stop
        self._asked_to_exit: set[int] = set()
        self._has_children = True
        self.status: int | None = None

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left. True only after the command has ended, and was reaped."""
        return not (self._has_children or _group_lives(self._command))

    def signal_group(self, number: int) -> None:
        signal_group(self._command, number)

    def reap(self) -> None:
        """Reap all processes that ended, including orphans."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
                if pid == 0:
                    break
                if os.WIFSTOPPED(status):
                    if pid == self._command:
                        self._on_stop(os.WSTOPSIG(status))
                elif pid == self._command:
                    self.status = status
        except ChildProcessError:
            self._has_children = False

    def ask_orphans_to_exit(self, number: int) -> None:
        """Send this signal once to each orphan outside the group, which did not receive it."""
        for pid in _children() - self._asked_to_exit:
            self._asked_to_exit.add(pid)
            try:
                if os.getpgid(pid) != self._command:
                    os.kill(pid, number)
                    os.kill(pid, signal.SIGCONT)
            except (ProcessLookupError, PermissionError):
                pass

    def kill(self, seconds_max: float) -> None:
        """Kill everything. Does not wait longer for a process that hangs in the kernel."""
        give_up_at = time.monotonic() + seconds_max
        while True:
            self.signal_group(signal.SIGKILL)
            # Again and again, because a process may start another one meanwhile.
            for pid in descendants():
                try:
                    os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    pass
            self.reap()
            if not self._has_children or time.monotonic() >= give_up_at:
                return
            time.sleep(_KILL_AGAIN_SECONDS)


def signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        pass


def is_running(pid: int) -> bool:
    """Whether this process exists and has not ended."""
    fields = _stat(pid)
    return bool(fields) and fields[0] not in ("Z", "X")


def descendants() -> dict[int, int]:
    """All processes below this one, each with its parent."""
    parents = _parents()
    found = {pid: parent for pid, parent in parents.items() if parent == os.getpid()}
    newest = set(found)
    while newest:
        newest = {pid for pid, parent in parents.items() if parent in newest}
        found.update((pid, parents[pid]) for pid in newest)
    return found


def variables_of(pid: int) -> dict[str, str]:
    """The environment variables with which a process was started; none if it is gone."""
    try:
        with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            pairs = (text.partition("=") for text in file.read().split("\0"))
            return {name: value for name, _, value in pairs}
    except OSError:
        return {}


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _children() -> set[int]:
    """The children of this process, which has one thread."""
    try:
        with open("/proc/thread-self/children") as file:  # noqa: PTH123
            return {int(pid) for pid in file.read().split()}
    except OSError:
        # Not every kernel has this file, which spares reading about all processes.
        return {pid for pid, parent in _parents().items() if parent == os.getpid()}


def _parents() -> dict[int, int]:
    """The parent of every process on this machine, or in this container."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208
    return {pid: int(fields[1]) for pid in pids if (fields := _stat(pid))}


def _stat(pid: int) -> list[str]:
    """The fields of a process from its state on; none if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            # The program's name is in parentheses and may contain any character.
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []
