"""Which kind of file system a folder lies on, and whether its rename and link can be trusted."""

import re
from pathlib import Path

_MOUNTS = Path("/proc/self/mountinfo")
_REMOTE_TYPES = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "virtiofs", "afs"})
_ESCAPE = re.compile(r"\\([0-7]{3})")


def is_remote(folder: Path) -> bool:
    """Whether a folder is on FUSE or on the network. Where nothing is known, it is not."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    kind = file_system_type(folder.resolve(), mounts)
    return kind in _REMOTE_TYPES or kind.startswith("fuse")


def file_system_type(folder: Path, mounts: str) -> str:
    """The type of the mount that holds an absolute path, by the text of a mountinfo file."""
    found = ""
    depth = -1
    for line in mounts.splitlines():
        # "36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw": the dash ends a list.
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        # The last of several mounts at one point is the one that is seen.
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            depth = len(point.parts)
            found = after.split(" ", 1)[0]
    return found
