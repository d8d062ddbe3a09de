"""Files that are written to a hidden folder and then appear under their names atomically.

A writer holds a lock on its file while it lives, which distinguishes the leftovers of a killed
writer from files that are still being written. Folders are passed as open descriptors, so that no
link leads elsewhere, and only regular files with names generated here are ever removed.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import re
import stat
import sys
import uuid
from collections.abc import Callable, Iterator

LEFTOVER_SECONDS_MIN = 3600.0

# Errors of file systems without hard links, or without a rename that keeps an existing file.
_REFUSALS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK, errno.EXDEV}
)
_NAME = re.compile(r"write-[0-9a-f]{32}")
_RENAME_NOREPLACE = 1


class CannotPublish(Exception):
    """The file system cannot give a file a name only if the name is free."""


@contextlib.contextmanager
def file_aside(folder: int) -> Iterator[tuple[int, str]]:
    """A new, locked file in `folder`. It is removed from there on exit, published or not."""
    name = f"write-{uuid.uuid4().hex}"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        _try_lock(fd)
        yield fd, name
    finally:
        # A file that vanished, or cannot be removed now, is not an error.
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder)
        os.close(fd)


def publish(name: str, folder: int, final: str, final_folder: int) -> None:
    """Give a finished file its name. Raises `FileExistsError` if the name is taken.

    If killed: the name refers to the complete file, or does not exist.
    """
    for method in (_link, _rename_noreplace):
        try:
            method(name, folder, final, final_folder)
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
        else:
            return
    raise CannotPublish


def sweep(folder: int, *, now: float) -> None:
    """Remove the old files of killed writers, by the wall clock `now`.

    Files of other users are kept: their writers may hold locks that this machine cannot see.
    """
    with os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _NAME.fullmatch(entry.name)]
    for name in names:
        # Another process may be faster, and a remaining leftover does no harm.
        with contextlib.suppress(OSError):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_old = now - status.st_mtime > LEFTOVER_SECONDS_MIN
            if is_old and _is_own_file(status):
                _remove_if_abandoned(name, folder)


def sync_folder(folder: int) -> None:
    """Make the names in a folder durable, if the file system supports that."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise


def _remove_if_abandoned(name: str, folder: int) -> None:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    fd = os.open(name, flags, dir_fd=folder)
    try:
        if _is_own_file(os.fstat(fd)) and _try_lock(fd):
            os.unlink(name, dir_fd=folder)
    finally:
        os.close(fd)


def _is_own_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _link(name: str, folder: int, final: str, final_folder: int) -> None:
    os.link(name, final, src_dir_fd=folder, dst_dir_fd=final_folder, follow_symlinks=False)


def _rename_noreplace(name: str, folder: int, final: str, final_folder: int) -> None:
    renameat2 = _renameat2()
    if renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    source, target = os.fsencode(name), os.fsencode(final)
    if renameat2(folder, source, final_folder, target, _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), final)


@functools.cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """The system call, which Python does not offer; None if the C library lacks it."""
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if function is None:
        return None
    function.argtypes = (
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_int,
        ctypes.c_char_p,
        ctypes.c_uint,
    )
    found: Callable[[int, bytes, int, bytes, int], int] = function
    return found
