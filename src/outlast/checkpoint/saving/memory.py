"""How much memory this process can still use, given the machine, its control groups and limits.

A container that exceeds its limit is killed without a notice, so a copy of the state must fit into
what is left. Beyond a limit of the process (`ulimit -v`), memory is refused.
"""

import errno
from collections.abc import Iterator
from pathlib import Path

# The words of Python about threads, and of torch about the machine and about an accelerator.
_REFUSALS = ("can't start new thread", "can't allocate memory", "out of memory")
# The threads of a save need address space for their stacks, whether they use it or not.
THREADS_BYTES = 64 * 1024**2
_PROCESS_LIMITS = {"Max address space": "VmSize:", "Max data size": "VmData:"}


def available_bytes(root: Path = Path("/")) -> int | None:
    """How many bytes can be used without getting killed; None if unknown."""
    return min(_free(root), default=None)


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory or a thread was refused. Libraries have many such."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, RuntimeError):
        text = str(error)
        return any(words in text for words in _REFUSALS)
    return isinstance(error, MemoryError)


def _free(root: Path) -> Iterator[int]:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024
    yield from _free_by_limits(root / "proc/self")
    groups = root / "sys/fs/cgroup"
    # In a container, the group's own folder is mounted where the root of all groups usually is.
    own = next((line[3:] for line in _lines(root / "proc/self/cgroup") if line[:3] == "0::"), "/")
    folder = groups / own.lstrip("/")
    for group in (folder, *folder.parents):
        if group.is_relative_to(groups):
            yield from _free_in(group)


def _free_by_limits(process: Path) -> Iterator[int]:
    used = {line.split()[0]: line.split()[1] for line in _lines(process / "status") if "kB" in line}
    for line in _lines(process / "limits"):
        for name, counted in _PROCESS_LIMITS.items():
            limit = line.removeprefix(name).split()[0] if line.startswith(name) else ""
            if limit.isdecimal() and counted in used:
                yield max(0, int(limit) - int(used[counted]) * 1024 - THREADS_BYTES)


def _free_in(group: Path) -> Iterator[int]:
    limit = "".join(_lines(group / "memory.max"))
    used = "".join(_lines(group / "memory.current"))
    if not limit.isdecimal() or not used.isdecimal():
        return
    # Cached files that were not used for a while are dropped before a process is killed.
    idle = [
        line.split()[1] for line in _lines(group / "memory.stat") if line[:14] == "inactive_file "
    ]
    yield max(0, int(limit) - int(used) + sum(map(int, idle)))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
