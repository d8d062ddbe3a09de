"""Open the folders and files of a store without following links out of it.

Only the root may be a link. Below it, each name is opened relative to its folder, and no link is
followed: someone who can write into a run cannot make Outlast read, write or delete anything
elsewhere. Only regular files are opened, because opening a pipe can block forever. Also finds out
on what kind of file system a folder is.
"""

import contextlib
import errno
import os
import re
import stat
from pathlib import Path

from outlast.storage.local.aside import sync_folder

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularFile(OSError):
    """A link, pipe or similar has the name of an object or of a folder of objects."""

    def __init__(self, name: str, mode: int, *, expected: str) -> None:
        super().__init__(errno.ELOOP, os.strerror(errno.ELOOP), name)
        self.name = name
        self.kind = next((kind for test, kind in _KINDS if test(mode)), "not a regular file")
        self.expected = expected


def open_root(root: Path, *, mode: int | None) -> int:
    """Open the folder of a store. With a `mode`, it is created if it is missing.

    If killed: some of its parent folders exist, durably.
    """
    try:
        return os.open(root, _FOLDER)
    except FileNotFoundError:
        if mode is None:
            raise
    missing = []
    folder = root
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for folder in reversed(missing):
        # Only the store's own folder is private; its parents are created like `mkdir -p` does.
        is_root = folder == root
        try:
            folder.mkdir(mode & 0o777 if is_root else 0o777)
        except FileExistsError as error:
            if not folder.is_dir():
                raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(folder)) from error
            continue
        if is_root:
            with contextlib.suppress(OSError):
                folder.chmod(mode)
        _sync(folder.parent)
    return os.open(root, _FOLDER)


def open_folder(name: str, parent: int, *, mode: int | None) -> int:
    """Open a folder within another. With a `mode`, it is created if it is missing.

    Raises `NotRegularFile` if the name is a link. If killed: the folder exists, or not.
    """
    try:
        return _open_folder(name, parent)
    except FileNotFoundError:
        if mode is None:
            raise
    try:
        os.mkdir(name, mode & 0o777, dir_fd=parent)
    except FileExistsError:
        return _open_folder(name, parent)
    fd = _open_folder(name, parent)
    set_mode(fd, mode)
    sync_folder(parent)
    return fd


def open_file(name: str, folder: int) -> int:
    """Open a regular file for reading. Raises `NotRegularFile` for anything else."""
    _check_regular(name, mode_of(name, folder))
    fd = os.open(name, _FILE, dir_fd=folder)
    try:
        # The name may refer to something else by now; the open file cannot change.
        _check_regular(name, os.fstat(fd).st_mode)
    except BaseException:
        os.close(fd)
        raise
    return fd


def mode_of(name: str, folder: int) -> int:
    """The type and permissions of the file with this name. Links are not followed."""
    return os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode


def is_there(name: str, folder: int) -> bool:
    try:
        mode_of(name, folder)
    except FileNotFoundError:
        return False
    return True


def set_mode(fd: int, mode: int) -> None:
    """Set permissions exactly, regardless of the umask."""
    # Many mounts have their own permissions and do not support this.
    with contextlib.suppress(OSError):
        os.fchmod(fd, mode)


def _open_folder(name: str, parent: int) -> int:
    try:
        return os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError:
        mode = mode_of(name, parent)
        if stat.S_ISLNK(mode):
            raise NotRegularFile(name, mode, expected="folder") from None
        raise


def _check_regular(name: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    if not stat.S_ISREG(mode):
        raise NotRegularFile(name, mode, expected="regular file")


def _sync(folder: Path) -> None:
    fd = os.open(folder, _FOLDER)
    try:
        sync_folder(fd)
    finally:
        os.close(fd)


_MOUNTS = Path("/proc/self/mountinfo")
# Shared by several machines, or by a machine and its guests: some of these do not make a lock or a
# rename visible to all of them. Types that begin with "fuse" count as well.
_REMOTE_TYPES = frozenset(
    """
    9p acfs afs beegfs ceph cifs coda dvs gfs gfs2 glusterfs gpfs lustre ncpfs nfs nfs4 ocfs2
    orangefs panfs prl_fs pvfs2 smb3 smbfs vboxsf virtiofs vmhgfs wekafs
    """.split()
)
_ESCAPE = re.compile(r"\\([0-7]{3})")


def is_remote(folder: Path) -> bool:
    """Whether a folder is on FUSE or a network file system. False if unknown."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return False
    return is_remote_type(file_system_type(folder.resolve(), mounts))


def is_remote_type(kind: str) -> bool:
    return kind in _REMOTE_TYPES or kind.startswith("fuse")


def file_system_type(folder: Path, mounts: str) -> str:
    """The type of the mount that contains an absolute path, according to a mountinfo file."""
    found = ""
    depth = -1
    for line in mounts.splitlines():
        # "36 35 98:0 /root /mnt rw,noatime master:1 - ext3 /dev/root rw": the dash ends a list.
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(_ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[4]))
        # Of several mounts at one point, the last one is visible.
        if folder.is_relative_to(point) and len(point.parts) >= depth:
            depth = len(point.parts)
            found = after.split(" ", 1)[0]
    return found
