"""A node with one command on it: a process that can be told to stop, and that can vanish.

Signals go where a kubelet sends them: SIGTERM to process 1 alone, SIGKILL to everything. If the
drill itself is killed: the node vanishes with it, where the system can tie the two together.
"""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outlast.drill import outputs
from outlast.drill.isolation import Isolation
from outlast.drill.records import Handling

_FORK_SECONDS_MAX = 0.5
_FORKING_SECONDS_MAX = 0.05
_POLL_SECONDS = 0.001
_UNSHARE_FAILED = 1
_LAUNCHERS = frozenset({"unshare", "setpriv"})


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEnd:
    """`left_behind` counts the processes that were still there when process 1 had ended."""

    exit_code: int
    cpu_seconds: float
    left_behind: int


class Node:
    """The command starts with the node. Call `kill` and wait for `ended` to be rid of it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        isolation: Isolation,
        folder: Path,
        environ: Mapping[str, str],
        log: Path,
    ) -> None:
        self._isolation = isolation
        self._log = log
        self._main: int | None = None
        self._killed = False
        self._end: NodeEnd | None = None
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*isolation.prefix, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=dict(environ),
                # Ctrl-C in the terminal is for the drill, which then clears up.
                start_new_session=True,
            )
        self._fd = _open_pidfd(self._process.pid)

    @property
    def fd(self) -> int | None:
        """Becomes readable when the node has ended, where the system has such a thing."""
        return self._fd

    def ended(self) -> NodeEnd | None:
        """How it ended, once it has. Never waits."""
        if self._end is not None:
            return self._end
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        # Python would wait for the process itself otherwise.
        self._process.returncode = code
        if self._isolation.namespace and code == _UNSHARE_FAILED:
            # unshare cannot die of the SIGKILL that its child died of, ours or the kernel's.
            if self._killed or outputs.says_killed(self._log):
                code = -signal.SIGKILL
        left_behind = 0 if self._isolation.namespace else self._kill_rest()
        self._end = NodeEnd(
            exit_code=code if code >= 0 else 128 - code,
            cpu_seconds=usage.ru_utime + usage.ru_stime,
            left_behind=left_behind,
        )
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        return self._end

    def handling(self) -> Handling:
        """What process 1 would do about SIGTERM now."""
        status = _read_proc(self._main_pid(), "status")
        if "\nSigCgt:" not in status:
            return Handling.UNKNOWN
        if _field(status, "Name") in _LAUNCHERS:
            # The command itself has not begun yet.
            return Handling.DEFAULT
        bit = 1 << (signal.SIGTERM - 1)
        if int(_field(status, "SigCgt"), 16) & bit:
            return Handling.CAUGHT
        if int(_field(status, "SigBlk"), 16) & bit:
            # It waits for whoever asks for it, or only until something has been forked.
            return Handling.UNKNOWN
        return Handling.IGNORED if int(_field(status, "SigIgn"), 16) & bit else Handling.DEFAULT

    def process_name(self) -> str:
        """The name of process 1; empty where it cannot be told."""
        return _read_proc(self._main_pid(), "comm").strip()

    def terminate(self) -> Handling:
        """Send the notice to process 1, and say how it was set up for it."""
        handling = self.handling()
        give_up_at = time.monotonic() + _FORKING_SECONDS_MAX
        while handling is Handling.UNKNOWN and time.monotonic() < give_up_at:
            time.sleep(_POLL_SECONDS)
            handling = self.handling()
        # The kernel drops what process 1 does not handle; outside a namespace, we do.
        if self._isolation.namespace or handling is not Handling.DEFAULT:
            _signal(self._main_pid(), signal.SIGTERM)
        return handling

    def kill(self) -> None:
        """Let everything on the node vanish at once."""
        if self._end is not None:
            return
        main = self._main_pid()
        self._killed = True
        if self._isolation.namespace:
            # Not unshare itself: it ends after the namespace is empty, and leaves no zombie.
            _signal(main if main is not None else self._process.pid, signal.SIGKILL)
        else:
            self._kill_rest()
            _signal(self._process.pid, signal.SIGKILL)

    def _main_pid(self) -> int | None:
        """Process 1 of the node, by its number out here. Waits for it to be forked."""
        if not self._isolation.namespace:
            return self._process.pid
        give_up_at = time.monotonic() + _FORK_SECONDS_MAX
        while self._main is None and self._process.returncode is None:
            pid = self._process.pid
            children = _read_proc(pid, f"task/{pid}/children").split()
            if children:
                self._main = int(children[0])
            elif time.monotonic() > give_up_at or _has_ended(pid):
                break
            else:
                time.sleep(_POLL_SECONDS)
        return self._main

    def _kill_rest(self) -> int:
        """Kill whatever else is in the session that the command leads, and count it."""
        rest = [pid for pid in _session(self._process.pid) if pid != self._process.pid]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in rest:
            _signal(pid, signal.SIGKILL)
        return len(rest)


def await_ends(nodes: Iterable[Node], seconds_max: float) -> None:
    """Wait until all nodes have ended, at most so long."""
    waiting = list(nodes)
    give_up_at = time.monotonic() + seconds_max
    while waiting and time.monotonic() < give_up_at:
        waiting = [node for node in waiting if node.ended() is None]
        if waiting:
            time.sleep(_POLL_SECONDS)


def _open_pidfd(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _signal(pid: int | None, number: int) -> None:
    if pid is not None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _has_ended(pid: int) -> bool:
    state = _read_proc(pid, "stat").rpartition(")")[2].split()
    return not state or state[0] in "ZX"


def _read_proc(pid: int | None, name: str) -> str:
    if pid is None:
        return ""
    try:
        # Not with pathlib: this is asked again and again while the command runs.
        with open(f"/proc/{pid}/{name}", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def _field(status: str, name: str) -> str:
    """The value of a line of /proc/PID/status."""
    return status.partition(f"{name}:\t")[2].partition("\n")[0]


def _session(leader: int) -> list[int]:
    """The processes of a session. Empty where there is no /proc."""
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(path.read_text().rpartition(")")[2].split()[3]) == leader:
                members.append(int(path.parent.name))
    return members
