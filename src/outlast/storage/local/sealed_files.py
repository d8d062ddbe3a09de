"""Sealed files: objects on mounts where neither rename nor exclusive create can be trusted.

On FUSE and network mounts, an object is written directly under its final name plus `~sealed`, which
cannot be part of an object name. The file consists of the bytes of the object and then a seal of 64
bytes, written last:

    8  magic         b"outlast1"
    8  length        of the bytes before the seal, little endian
    16 writer        random; identifies the writer of the file
    16 hash          BLAKE2b of the bytes, if there are at most `HASHED_BYTES_MAX`; else zeros
    16 seal hash     BLAKE2b of the 48 bytes before

A file without a valid seal is torn: it is neither listed nor read. Small objects, such as
manifests, are verified by their hash each time. Large ones are synced before their seal is written,
so that a seal proves that all bytes are there; their content is verified by the hashes of a
checkpoint's chunks.

A race has one winner if the mount supports exclusive create (NFS, SMB) or refuses the second upload
(gcsfuse), which shows when the seal is read back. On other mounts, two racing writers may both
succeed; one complete object remains.
"""

import contextlib
import errno
import hashlib
import os
import stat
import struct
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from outlast.storage.limits import Countdown
from outlast.storage.local.aside import LEFTOVER_SECONDS_MIN, sync_folder
from outlast.storage.local.direct import read_buffered, write_buffered
from outlast.storage.local.folders import is_there, open_file, set_mode
from outlast.storage.protocol import total_bytes

SUFFIX = "~sealed"
SEAL_BYTES = 64
HASHED_BYTES_MAX = 1024**2

_MAGIC = b"outlast1"
_HEAD = struct.Struct("<8sQ16s16s")
_HASH_BYTES = 16
_NO_HASH = bytes(_HASH_BYTES)


@dataclass(frozen=True, kw_only=True, slots=True)
class Seal:
    """The seal at the end of a file."""

    length_bytes: int
    writer: bytes
    hash: bytes

    def pack(self) -> bytes:
        head = _HEAD.pack(_MAGIC, self.length_bytes, self.writer, self.hash)
        return head + _hash(head)

    def vouches_for(self, payload: bytes | bytearray) -> bool:
        """Whether these bytes were sealed. Large ones are accepted without a hash."""
        if len(payload) != self.length_bytes:
            return False
        return self.length_bytes > HASHED_BYTES_MAX or self.hash == _hash(payload)


def seal(payload: Sequence[memoryview], length_bytes: int, *, writer: bytes) -> Seal:
    """Create the seal for the bytes of an object."""
    hashed = _hash(*payload) if length_bytes <= HASHED_BYTES_MAX else _NO_HASH
    return Seal(length_bytes=length_bytes, writer=writer, hash=hashed)


def unpack(tail: bytes, file_bytes: int) -> Seal | None:
    """The seal in the last bytes of a file of this size; None if the file is torn."""
    if len(tail) != SEAL_BYTES or _hash(tail[: _HEAD.size]) != tail[_HEAD.size :]:
        return None
    magic, length_bytes, writer, hashed = _HEAD.unpack(tail[: _HEAD.size])
    if magic != _MAGIC or length_bytes + SEAL_BYTES != file_bytes:
        return None
    return Seal(length_bytes=length_bytes, writer=writer, hash=hashed)


def _hash(*parts: bytes | bytearray | memoryview) -> bytes:
    state = hashlib.blake2b(digest_size=_HASH_BYTES)
    for part in parts:
        state.update(part)
    return state.digest()


class Torn(Exception):
    """The file has no valid seal: it is still being written, or its writer was killed."""


class Damaged(Torn):
    """The file was completed, but its bytes do not match its seal."""


def write_sealed(
    name: str, folder: int, sources: Sequence[memoryview], countdown: Countdown, *, mode: int
) -> None:
    """Write a file and seal it. Raises `FileExistsError` if the name is taken, torn or not.

    If killed: the file is torn, and its name stays taken for an hour.
    """
    _remove_if_abandoned(name, folder)
    if is_there(name, folder):
        # Exclusive create would fail too, but not on every mount.
        raise _taken(name)
    ours = seal(sources, total_bytes(sources), writer=uuid.uuid4().bytes)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, mode, dir_fd=folder)
    try:
        try:
            set_mode(fd, mode)
            _write(fd, sources, ours, countdown)
        finally:
            # Many such mounts upload when the file is closed, so an error here is a failed write.
            os.close(fd)
        sync_folder(folder)
        if _seal_at(name, folder) != ours:
            raise _taken(name)
    except BaseException:
        _withdraw(name, folder, ours)
        raise


def open_sealed(name: str, folder: int, countdown: Countdown) -> tuple[int, Seal]:
    """Open a complete sealed file. Raises `Torn`, `NotRegularFile` or `FileNotFoundError`."""
    fd = open_file(name, folder)
    try:
        found = _seal_of(fd)
        if found is None:
            raise Torn(name)
        if not _is_proven(fd, found, countdown):
            raise Damaged(name)
    except BaseException:
        os.close(fd)
        raise
    return fd, found


def _write(fd: int, sources: Sequence[memoryview], ours: Seal, countdown: Countdown) -> None:
    write_buffered(fd, sources, countdown)
    if ours.length_bytes > HASHED_BYTES_MAX:
        # No hash verifies these bytes, so they must be durable before the seal is.
        os.fsync(fd)
    write_buffered(fd, [memoryview(ours.pack())], countdown)
    os.fsync(fd)


def _seal_at(name: str, folder: int) -> Seal | None:
    fd = open_file(name, folder)
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


def _taken(name: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name)


def _withdraw(name: str, folder: int, ours: Seal) -> None:
    """Remove our failed file, but not one that another writer has sealed."""
    with contextlib.suppress(OSError):
        if _seal_at(name, folder) in (None, ours):
            _unlink(name, folder)


def _remove_if_abandoned(name: str, folder: int) -> None:
    """Free the name of a torn file that has not been written to for a long time."""
    with contextlib.suppress(FileNotFoundError):
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        is_old = time.time() - status.st_mtime > LEFTOVER_SECONDS_MIN
        if stat.S_ISREG(status.st_mode) and is_old and _seal_at(name, folder) is None:
            _unlink(name, folder)


def _unlink(name: str, folder: int) -> None:
    os.unlink(name, dir_fd=folder)
