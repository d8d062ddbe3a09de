"""Write and read sealed files: for mounts where a file cannot be renamed into place.

What makes a race here have one winner: exclusive create where the mount honours it (NFS, SMB),
or else a mount that refuses the second upload (gcsfuse), seen when the seal is read back. A
mount that does neither may tell two racing writers that they won; one object remains, whole.
"""

import contextlib
import errno
import os
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from outlast.storage.aside import LEFTOVER_SECONDS_MIN, sync_folder
from outlast.storage.buffers import total_bytes
from outlast.storage.direct import read_buffered, write_buffered
from outlast.storage.limits import Countdown
from outlast.storage.seal import HASHED_BYTES_MAX, SEAL_BYTES, Seal, seal, unpack


class Torn(Exception):
    """The file has no seal that fits: it is still being written, or its writer was killed."""


def write_sealed(path: Path, sources: Sequence[memoryview], countdown: Countdown) -> None:
    """Write a file and seal it. Raises `FileExistsError` if the name is taken, torn or not.

    If killed: the file is torn. It keeps its name until a writer comes an hour later.
    """
    _remove_if_abandoned(path)
    if path.exists():
        # Exclusive create says so too, but not on every mount.
        raise _taken(path)
    ours = seal(sources, total_bytes(sources), writer=uuid.uuid4().bytes)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    try:
        try:
            _write(fd, sources, ours, countdown)
        finally:
            # Closing is where many such mounts upload: its error is an error of the write.
            os.close(fd)
        sync_folder(path.parent)
        if _seal_at(path) != ours:
            raise _taken(path)
    except BaseException:
        _withdraw(path, ours)
        raise


def open_sealed(path: Path, countdown: Countdown) -> tuple[int, Seal]:
    """A whole sealed file, open for reading. Raises `Torn`, or `FileNotFoundError`."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        found = _seal_of(fd)
        if found is None or not _is_proven(fd, found, countdown):
            raise Torn(path)
    except BaseException:
        os.close(fd)
        raise
    return fd, found


def _write(fd: int, sources: Sequence[memoryview], ours: Seal, countdown: Countdown) -> None:
    write_buffered(fd, sources, countdown)
    if ours.length_bytes > HASHED_BYTES_MAX:
        # No hash proves these bytes, so they must lie there before anything says so.
        os.fsync(fd)
    write_buffered(fd, [memoryview(ours.pack())], countdown)
    os.fsync(fd)


def _seal_at(path: Path) -> Seal | None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return _seal_of(fd)
    finally:
        os.close(fd)


def _seal_of(fd: int) -> Seal | None:
    size = os.fstat(fd).st_size
    if size < SEAL_BYTES:
        return None
    return unpack(os.pread(fd, SEAL_BYTES, size - SEAL_BYTES), size)


def _is_proven(fd: int, found: Seal, countdown: Countdown) -> bool:
    if found.length_bytes > HASHED_BYTES_MAX:
        return True
    payload = bytearray(found.length_bytes)
    read_buffered(fd, memoryview(payload), 0, countdown)
    return found.vouches_for(payload)


def _taken(path: Path) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))


def _withdraw(path: Path, ours: Seal) -> None:
    """Remove our failed file, but not one that another writer has sealed in its place."""
    with contextlib.suppress(OSError):
        if _seal_at(path) in (None, ours):
            path.unlink()


def _remove_if_abandoned(path: Path) -> None:
    """Free the name of a torn file that nobody has written to for long."""
    with contextlib.suppress(FileNotFoundError):
        age_seconds = time.time() - path.stat().st_mtime
        if age_seconds > LEFTOVER_SECONDS_MIN and _seal_at(path) is None:
            path.unlink()
