"""Move large amounts of bytes between memory and a file, past the page cache where that works.

Direct I/O needs aligned memory, offsets and lengths. What is not aligned is copied through a
small aligned buffer or goes the usual way: the file holds the same bytes whichever way they took.
All of it releases the GIL while the disk works.
"""

import errno
import fcntl
import mmap
import os
import sys
from collections.abc import Sequence

from outlast.storage.buffers import total_bytes
from outlast.storage.limits import Countdown

_BLOCK_BYTES = 4096
_BOUNCE_BYTES = 4 * 1024**2
# The pieces are what is measured to be fastest; between two, the time is looked at.
_WRITE_BYTES = 32 * 1024**2
_READ_BYTES = 4 * 1024**2
# Below this the page cache is as quick.
_DIRECT_BYTES_MIN = 1024**2


def write_all(fd: int, sources: Sequence[memoryview], countdown: Countdown) -> None:
    """Write all sources, one after the other, from the start of a new file. Does not sync."""
    if total_bytes(sources) < _DIRECT_BYTES_MIN or not _go_direct(fd):
        write_buffered(fd, sources, countdown)
        return
    writer = _DirectWriter(fd, countdown)
    for source in sources:
        writer.write(source)
    writer.finish()


def write_buffered(fd: int, sources: Sequence[memoryview], countdown: Countdown) -> None:
    """The same through the page cache."""
    for source in sources:
        written = 0
        while written < len(source):
            countdown.seconds_left()
            written += os.write(fd, source[written : written + _WRITE_BYTES])


def read_all(fd: int, buffer: memoryview, start: int, countdown: Countdown) -> int:
    """Fill the buffer from `start` on; the number of bytes until it was full or the file ended."""
    done = 0
    if len(buffer) >= _DIRECT_BYTES_MIN and _go_direct(fd):
        for way in (_read_straight, _read_bounced):
            try:
                done += way(fd, buffer[done:], start + done, countdown)
            except OSError as error:
                # Direct I/O refuses this memory or this place: the next way starts where this did.
                if error.errno != errno.EINVAL:
                    raise
        _go_buffered(fd)
    return done + read_buffered(fd, buffer[done:], start + done, countdown)


def read_buffered(fd: int, buffer: memoryview, start: int, countdown: Countdown) -> int:
    """The same through the page cache."""
    done = 0
    while done < len(buffer):
        countdown.seconds_left()
        count = os.preadv(fd, [buffer[done : done + _READ_BYTES]], start + done)
        if count == 0:
            return done
        done += count
    return done


def _read_straight(fd: int, buffer: memoryview, start: int, countdown: Countdown) -> int:
    """Read whole blocks to where they belong."""
    return read_buffered(fd, buffer[: len(buffer) - len(buffer) % _BLOCK_BYTES], start, countdown)


def _read_bounced(fd: int, buffer: memoryview, start: int, countdown: Countdown) -> int:
    """Read through aligned memory: a copy more, and still faster than the page cache."""
    if len(buffer) < _BLOCK_BYTES:
        return 0
    bounce = _aligned_memory()
    done = 0
    while done < len(buffer):
        countdown.seconds_left()
        skipped = (start + done) % _BLOCK_BYTES
        count = os.preadv(fd, [bounce], start + done - skipped) - skipped
        taken = min(count, len(buffer) - done)
        if taken <= 0:
            return done
        buffer[done : done + taken] = bounce[skipped : skipped + taken]
        done += taken
    return done


class _DirectWriter:
    """Writes aligned sources straight from their memory, others through the bounce buffer."""

    def __init__(self, fd: int, countdown: Countdown) -> None:
        self._fd = fd
        self._countdown = countdown
        self._bounce = _aligned_memory()
        self._filled = 0

    def write(self, source: memoryview) -> None:
        if self._filled == 0:
            whole_blocks = len(source) - len(source) % _BLOCK_BYTES
            source = source[self._write_directly(source[:whole_blocks]) :]
        while source:
            taken = min(len(source), _BOUNCE_BYTES - self._filled)
            self._bounce[self._filled : self._filled + taken] = source[:taken]
            self._filled += taken
            source = source[taken:]
            if self._filled == _BOUNCE_BYTES:
                self._pour(_BOUNCE_BYTES)

    def finish(self) -> None:
        """Write what is left; the last part of a block cannot go directly."""
        whole_blocks = self._filled - self._filled % _BLOCK_BYTES
        tail = self._bounce[whole_blocks : self._filled]
        self._pour(whole_blocks)
        _go_buffered(self._fd)
        write_buffered(self._fd, [tail], self._countdown)

    def _pour(self, count: int) -> None:
        source = self._bounce[:count]
        if rest := source[self._write_directly(source) :]:
            # A short write has left the file at an odd place: only the usual way goes on there.
            _go_buffered(self._fd)
            write_buffered(self._fd, [rest], self._countdown)
        self._filled = 0

    def _write_directly(self, source: memoryview) -> int:
        """Write from where the bytes are; the number that the kernel would take from there."""
        done = 0
        while done < len(source):
            self._countdown.seconds_left()
            try:
                done += os.write(self._fd, source[done : done + _WRITE_BYTES])
            except OSError as error:
                if error.errno == errno.EINVAL and _is_direct(self._fd):
                    return done
                raise
        return done


def _aligned_memory() -> memoryview:
    # A mapping starts on a page, which bytes and bytearrays do not.
    return memoryview(mmap.mmap(-1, _BOUNCE_BYTES))


def _go_direct(fd: int) -> bool:
    """Ask for direct I/O; whether the file system grants it."""
    if sys.platform != "linux":
        return False
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_DIRECT)
    except OSError:
        return False
    return True


def _go_buffered(fd: int) -> None:
    if sys.platform == "linux":
        fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_DIRECT)


def _is_direct(fd: int) -> bool:
    return sys.platform == "linux" and bool(fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DIRECT)
