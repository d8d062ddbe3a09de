"""Files that are written out of sight, and then appear under their name at once.

A writer holds a lock on its file while it lives, so that what a killed writer left behind can be
told from what is still being written.
"""

import contextlib
import ctypes
import errno
import fcntl
import functools
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

LEFTOVER_SECONDS_MIN = 3600.0

# What file systems answer that know no hard links, or no rename that spares an existing file.
_REFUSALS = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL, errno.EMLINK, errno.EXDEV}
)
_AT_FDCWD = -100
_RENAME_NOREPLACE = 1


class CannotPublish(Exception):
    """The file system has no way to give a file a name only if the name is free."""


@contextlib.contextmanager
def file_aside(folder: Path) -> Iterator[tuple[int, Path]]:
    """A new, locked file in `folder`. On leaving, it is gone from there, published or not."""
    path = folder / uuid.uuid4().hex
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        _try_lock(fd)
        yield fd, path
    finally:
        # A file that vanished, or that cannot be removed now, is no reason to fail.
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(fd)


def publish(path: Path, final: Path) -> None:
    """Give a finished file its name. Raises `FileExistsError` if the name is taken.

    If killed: the name is there with the whole file, or not at all.
    """
    for way in (os.link, _rename_noreplace):
        try:
            way(path, final)
        except OSError as error:
            if error.errno not in _REFUSALS:
                raise
        else:
            return
    raise CannotPublish


def sweep(folder: Path, *, now: float) -> None:
    """Remove what killed writers left behind, by the wall clock `now`."""
    with os.scandir(folder) as entries:
        for entry in entries:
            # Another sweeper may be faster, and a leftover that stays does no harm.
            with contextlib.suppress(OSError):
                if now - entry.stat().st_mtime > LEFTOVER_SECONDS_MIN:
                    _remove_if_abandoned(entry.path)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, where the file system has a notion of it."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _REFUSALS:
            raise
    finally:
        os.close(fd)


def _remove_if_abandoned(path: str) -> None:
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if _try_lock(fd):
            os.unlink(path)  # noqa: PTH108 (a plain string, as scandir gives it)
    finally:
        os.close(fd)


def _try_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _rename_noreplace(path: Path, final: Path) -> None:
    renameat2 = _renameat2()
    if renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    source, target = os.fsencode(path), os.fsencode(final)
    if renameat2(_AT_FDCWD, source, _AT_FDCWD, target, _RENAME_NOREPLACE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(final))


@functools.cache
def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    """The system call, which Python does not offer; nothing where the C library has none."""
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
