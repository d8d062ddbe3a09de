"""A simulated node that runs one command, and how it is isolated from the rest of the machine.

Signals go where a kubelet sends them: SIGTERM to process 1 alone, SIGKILL to everything. The best
isolation is a PID namespace: the command is process 1 in it, as in a container, and all processes
on the node end together. Without one, a process group is used; a process that leaves the group
survives. If the drill itself is killed: the node ends too, where the system can tie them together.
"""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from outlast.drills.run.records import SigtermHandling

_FORK_SECONDS_MAX = 0.5
_FORKING_SECONDS = 0.05
_FORKING_SECONDS_MAX = 5.0
_POLL_SECONDS = 0.001
_UNSHARE_FAILED = 1
_LAUNCHERS = frozenset({"unshare", "setpriv"})
# The launchers have an error output of their own, because unshare reports a killed child there.
_JOIN_OUTPUTS = ("sh", "-c", 'exec "$@" 2>&1', "sh")
_KILLED_MESSAGE = "unshare: sigprocmask"
_PROBE_SECONDS_MAX = 5.0
_NAMESPACE = ("--pid", "--fork", "--kill-child=KILL")
# In the order of preference: with its own /proc, and without becoming root in the namespace.
_VARIANTS: tuple[tuple[str, ...], ...] = (
    (*_NAMESPACE, "--mount-proc"),
    ("--user", "--map-current-user", *_NAMESPACE, "--mount-proc"),
    _NAMESPACE,
    ("--user", "--map-current-user", *_NAMESPACE),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Isolation:
    """The prefix for a command, and whether it makes the command process 1 of a namespace."""

    prefix: tuple[str, ...]
    namespace: bool

    @property
    def name(self) -> str:
        return "PID namespace" if self.namespace else "process group"


GROUP = Isolation(prefix=(), namespace=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeEnd:
    """`left_behind` counts the processes that were still running when process 1 had ended."""

    exit_code: int
    cpu_seconds: float
    left_behind: int


class SimulatedNode:
    """A running command. Call `kill` and wait for `ended` to remove it."""

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
        self._launcher_output = tempfile.TemporaryFile() if isolation.prefix else None
        joined = _JOIN_OUTPUTS if isolation.prefix else ()
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*isolation.prefix, *joined, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=self._launcher_output or output,
                cwd=folder,
                env=dict(environ),
                # Ctrl-C in the terminal is for the drill, which then cleans up.
                start_new_session=True,
            )
        self._fd = _open_pidfd(self._process.pid)

    @property
    def fd(self) -> int | None:
        """Becomes readable when the node has ended; None where the system does not support it."""
        return self._fd

    def ended(self) -> NodeEnd | None:
        """How it ended, once it has. Never waits."""
        if self._end is not None:
            return self._end
        pid, status, usage = os.wait4(self._process.pid, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        # Otherwise Python would wait for the process itself.
        self._process.returncode = code
        was_killed = self._read_launcher()
        if self._isolation.namespace and code == _UNSHARE_FAILED and (self._killed or was_killed):
            # unshare cannot report that its child died of SIGKILL, from the drill or the kernel.
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

    def _read_launcher(self) -> bool:
        """Whether the launcher reports that process 1 was killed. Other errors go to the log."""
        if self._launcher_output is None:
            return False
        with self._launcher_output as file:
            file.seek(0)
            lines = file.read().splitlines(keepends=True)
        others = [line for line in lines if not line.startswith(_KILLED_MESSAGE.encode())]
        if others:
            with self._log.open("ab") as log:
                log.writelines(others)
        return len(others) < len(lines)

    def handling(self) -> SigtermHandling:
        """How process 1 would handle SIGTERM now."""
        status = _read_proc(self._main_pid(), "status")
        if "\nSigCgt:" not in status:
            return SigtermHandling.UNKNOWN
        if _field(status, "Name") in _LAUNCHERS:
            # The command itself has not started yet.
            return SigtermHandling.DEFAULT
        bit = 1 << (signal.SIGTERM - 1)
        if int(_field(status, "SigCgt"), 16) & bit:
            return SigtermHandling.CAUGHT
        if int(_field(status, "SigBlk"), 16) & bit:
            # A thread may wait for it, or it is blocked only during a fork.
            return SigtermHandling.UNKNOWN
        return (
            SigtermHandling.IGNORED
            if int(_field(status, "SigIgn"), 16) & bit
            else SigtermHandling.DEFAULT
        )

    def process_name(self) -> str:
        """The name of process 1; empty if unknown."""
        return _read_proc(self._main_pid(), "comm").strip()

    def terminate(self) -> SigtermHandling:
        """Send SIGTERM to process 1. Returns how it was set up to handle it."""
        handling = self.handling()
        asked_at = time.monotonic()
        while handling is SigtermHandling.UNKNOWN and self._may_be_forking(asked_at):
            time.sleep(_POLL_SECONDS)
            handling = self.handling()
        if handling is SigtermHandling.DEFAULT and self._may_be_awaited():
            handling = SigtermHandling.UNKNOWN
        # The kernel drops signals that process 1 does not handle. Outside a namespace, we do.
        if self._isolation.namespace or handling is not SigtermHandling.DEFAULT:
            _signal(self._main_pid(), signal.SIGTERM)
        return handling

    def _may_be_forking(self, since: float) -> bool:
        """Whether process 1 may block SIGTERM only until its child runs.

        On a busy machine that takes a while, but the process is not asleep meanwhile.
        """
        waited_seconds = time.monotonic() - since
        if waited_seconds < _FORKING_SECONDS:
            return True
        state = _field(_read_proc(self._main_pid(), "status"), "State")
        return waited_seconds < _FORKING_SECONDS_MAX and state[:1] in ("R", "D")

    def _may_be_awaited(self) -> bool:
        """Whether a thread blocks SIGTERM or waits for a signal. While it waits, nothing blocks."""
        bit = 1 << (signal.SIGTERM - 1)
        for path in Path(f"/proc/{self._main_pid()}/task").glob("[0-9]*"):
            with contextlib.suppress(OSError, ValueError):
                blocked = int(_field((path / "status").read_text(), "SigBlk"), 16)
                if blocked & bit or "sigtimedwait" in (path / "wchan").read_text():
                    return True
        return False

    def cpu_seconds(self) -> float:
        """The CPU time of all processes that are running on the node.

        Process 1 does not learn that of children which are killed together with it.
        """
        main = self._main_pid()
        return 0.0 if main is None else _cpu_seconds_of_tree(main)

    def kill(self) -> None:
        """Kill all processes on the node at once."""
        if self._end is not None:
            return
        main = self._main_pid()
        self._killed = True
        if self._isolation.namespace:
            # Not unshare itself: it ends once the namespace is empty, and leaves no zombie.
            _signal(main if main is not None else self._process.pid, signal.SIGKILL)
        else:
            self._kill_rest()
            _signal(self._process.pid, signal.SIGKILL)

    def _main_pid(self) -> int | None:
        """The PID of process 1 of the node, outside its namespace. Waits until it is forked."""
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
        """Kill and count all other processes in the session of the command."""
        rest = [pid for pid in _session(self._process.pid) if pid != self._process.pid]
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        for pid in rest:
            _signal(pid, signal.SIGKILL)
        return len(rest)


class Ending(Protocol):
    """Something that is about to end."""

    def ended(self) -> NodeEnd | None: ...


def await_ends(nodes: Iterable[Ending], seconds_max: float) -> None:
    """Wait until all nodes have ended, at most `seconds_max`."""
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
        # Not with pathlib, because this is called often while the command runs.
        with open(f"/proc/{pid}/{name}", errors="replace") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


def _field(status: str, name: str) -> str:
    """The value of a line of /proc/PID/status."""
    return status.partition(f"{name}:\t")[2].partition("\n")[0]


def _cpu_seconds_of_tree(root: int) -> float:
    """The CPU time of a process, of its descendants, and of their children that have ended."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = path.read_text().rpartition(")")[2].split()
            pid = int(path.parent.name)
            children.setdefault(int(fields[1]), []).append(pid)
            ticks[pid] = sum(map(int, fields[11:15]))
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        total += ticks.get(pid, 0)
        waiting += children.pop(pid, [])
    return total / os.sysconf("SC_CLK_TCK")


def _session(leader: int) -> list[int]:
    """The processes of a session. Empty where there is no /proc."""
    members = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if int(path.read_text().rpartition(")")[2].split()[3]) == leader:
                members.append(int(path.parent.name))
    return members


@functools.cache
def best_isolation() -> Isolation:
    """The strongest isolation that works on this machine."""
    unshare = shutil.which("unshare") if sys.platform == "linux" else None
    if unshare is None:
        return _tied(GROUP)
    for flags in _VARIANTS:
        if "--user" not in flags and os.geteuid() != 0:
            continue
        if _works([unshare, *flags, "--", "true"]):
            return _tied(Isolation(prefix=(unshare, *flags, "--"), namespace=True))
    return _tied(GROUP)


def _tied(isolation: Isolation) -> Isolation:
    """The same isolation, with nodes that die with the drill where the system supports it."""
    setpriv = shutil.which("setpriv") if sys.platform == "linux" else None
    tie = (setpriv or "", "--pdeathsig", "KILL", "--")
    if setpriv is None or not _works([*tie, "true"]):
        return isolation
    return Isolation(prefix=(*tie, *isolation.prefix), namespace=isolation.namespace)


def _works(command: Sequence[str]) -> bool:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PROBE_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
