"""What the kernel knows about this process and its files."""

import os
import stat
from pathlib import Path

DROP = Path("/proc/sys/vm/drop_caches")


def drop_caches(folder: Path) -> None:
    """Make the next read of these files come from the disk."""
    os.sync()
    try:
        DROP.write_text("3")
    except OSError:  # not root: these files only
        for file in folder.rglob("*"):
            if file.is_file():
                number = os.open(file, os.O_RDONLY)
                os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(number)


def fill_cache(folder: Path) -> None:
    """Put these files into the page cache. A disk that is bypassed fills it for nobody."""
    for file in folder.rglob("*"):
        if file.is_file():
            with file.open("rb", buffering=0) as opened:
                while opened.read(16 * 2**20):
                    pass


def reset_peak() -> int:
    """The resident bytes now; the peak counts from here."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("self", "VmRSS")


def peak() -> int:
    """The most resident bytes since then, and those of helper processes that are not shared."""
    helpers = sum(
        _status(pid, "VmHWM") - _status(pid, "RssShmem") - _status(pid, "RssFile")
        for pid in _children()
    )
    return _status("self", "VmHWM") + helpers


def written() -> int:
    """The bytes that this process and its helpers have sent to the disk, or will."""
    total = 0
    for pid in ("self", *_children()):
        for line in Path(f"/proc/{pid}/io").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == "write_bytes":
                total += int(value)
    return total


def listing(folder: Path) -> dict[tuple[str, int], tuple[int, int]]:
    """By name and inode: the size and the last change of every file."""
    found = {}
    for file in folder.rglob("*"):
        try:
            status = file.stat()
        except FileNotFoundError:
            continue  # deleted meanwhile, with an old checkpoint
        if stat.S_ISREG(status.st_mode):
            found[str(file), status.st_ino] = (status.st_size, status.st_mtime_ns)
    return found


def new_bytes(
    before: dict[tuple[str, int], tuple[int, int]], after: dict[tuple[str, int], tuple[int, int]]
) -> int:
    """The sizes of new files and of changed ones, which may have been overwritten."""
    return sum(value[0] for key, value in after.items() if before.get(key) != value)


def _children() -> list[str]:
    found: list[str] = []
    waiting = ["self"]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
            try:
                children = (task / "children").read_text().split()
            except FileNotFoundError:
                continue  # the thread has ended meanwhile
            found += children
            waiting += children
    return found


def _status(pid: str, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0]) * 1024
    return 0
