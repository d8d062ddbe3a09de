"""How much memory this process may still take, by the machine and by its control groups.

A container that takes more than its limit is killed without a notice, so a copy of the state must
fit into what is left below it.
"""

from collections.abc import Iterator
from pathlib import Path


def available_bytes(root: Path = Path("/")) -> int | None:
    """The bytes that can be taken without anybody being killed; None where nobody can tell."""
    return min(_free(root), default=None)


def _free(root: Path) -> Iterator[int]:
    for line in _lines(root / "proc/meminfo"):
        if line.startswith("MemAvailable:"):
            yield int(line.split()[1]) * 1024
    groups = root / "sys/fs/cgroup"
    # In a container, the group's own folder is mounted where the root of all groups usually is.
    own = next((line[3:] for line in _lines(root / "proc/self/cgroup") if line[:3] == "0::"), "/")
    folder = groups / own.lstrip("/")
    for group in (folder, *folder.parents):
        if group.is_relative_to(groups):
            yield from _free_in(group)


def _free_in(group: Path) -> Iterator[int]:
    limit = "".join(_lines(group / "memory.max"))
    used = "".join(_lines(group / "memory.current"))
    if not limit.isdecimal() or not used.isdecimal():
        return
    # Files that nobody has used for a while are dropped before anybody is killed.
    idle = [
        line.split()[1] for line in _lines(group / "memory.stat") if line[:14] == "inactive_file "
    ]
    yield max(0, int(limit) - int(used) + sum(map(int, idle)))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []
