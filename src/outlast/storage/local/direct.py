"""Move large amounts of bytes between memory and a file, bypassing the page cache if possible.

Direct I/O needs aligned memory, offsets and lengths. Unaligned data is copied through a small
aligned buffer or goes through the page cache; the file contains the same bytes either way. Bytes
that are in the page cache already are taken from there. The GIL is released while the disk works.
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
import sys
import threading
from collections.abc import Iterator, Sequence

from outlast._base.huge_pages import aligned_memory
from outlast.storage.limits import Countdown
from outlast.storage.protocol import total_bytes

_BLOCK_BYTES = 4096
_BOUNCE_BYTES = 4 * 1024**2
# These sizes were measured to be the fastest. The time limit is checked between two pieces.
_WRITE_BYTES = 32 * 1024**2
_READ_BYTES = 4 * 1024**2
# Below this, the page cache is as fast.
_DIRECT_BYTES_MIN = 1024**2

_mincore = getattr(ctypes.CDLL(None), "mincore", None)
_own = threading.local()
_ODD = bytes(range(1, 256, 2))


class ReadTurns:
    """Lets few threads of this process read from a disk at a time; a forked child counts anew.

    Threads that all get their bytes at once would then all compute at once, and more of them than
    there are processors would leave the disk without a request meanwhile.
    """

    def __init__(self) -> None:
        self._renew()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew)

    @contextlib.contextmanager
    def one(self, countdown: Countdown) -> Iterator[None]:
        free = self._free
        if not free.acquire(timeout=countdown.seconds_left()):
            raise countdown.timeout()
        try:
            yield
        finally:
            free.release()

    def _renew(self) -> None:
        self._free = threading.Semaphore(max(2, os.cpu_count() or 1))


DISK_TURNS = ReadTurns()
"""For all disks of this machine. A network is faster with many requests at a time."""


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


def read_all(
    fd: int,
    buffer: memoryview,
    start: int,
    countdown: Countdown,
    *,
    turns: ReadTurns | None = None,
) -> int:
    """Fill the buffer from `start` on. Returns the number of bytes read.

    With `turns`, what is not in the page cache is read in turn with other threads.
    """
    done = 0
    is_large = len(buffer) >= _DIRECT_BYTES_MIN
    if is_large and not _is_cached(fd, start, len(buffer)) and _go_direct(fd):
        for method in (_read_straight, _read_bounced):
            try:
                done += method(fd, buffer[done:], start + done, countdown, turns)
            except OSError as error:
                # Direct I/O does not support this memory or offset: the next method starts here.
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


def _is_cached(fd: int, start: int, length: int) -> bool:
    """Whether the page cache has all these bytes. Reads none of them."""
    if _mincore is None:
        return False
    skipped = start % mmap.ALLOCATIONGRANULARITY
    try:
        mapped = mmap.mmap(fd, length + skipped, flags=mmap.MAP_PRIVATE, offset=start - skipped)
    except (OSError, ValueError):
        return False
    pages = ctypes.create_string_buffer(-(-(length + skipped) // mmap.PAGESIZE))
    with mapped:
        address = ctypes.c_void_p(_address_of(mapped))
        if _mincore(address, ctypes.c_size_t(len(mapped)), pages) != 0:
            return False
    # The last bit of each byte is set for a page in memory; the others have no meaning.
    return not pages.raw.translate(None, _ODD)


def _read_straight(
    fd: int, buffer: memoryview, start: int, countdown: Countdown, turns: ReadTurns | None
) -> int:
    """Read full blocks directly into the buffer, if that starts on a page."""
    if _address_of(buffer) % mmap.PAGESIZE:
        # The disk may accept it, but takes longer than the bounce buffer.
        return 0
    with turns.one(countdown) if turns is not None else contextlib.nullcontext():
        blocks = len(buffer) - len(buffer) % _BLOCK_BYTES
        return read_buffered(fd, buffer[:blocks], start, countdown)


def _read_bounced(
    fd: int, buffer: memoryview, start: int, countdown: Countdown, turns: ReadTurns | None
) -> int:
    """Read through aligned memory: one more copy, but still faster than the page cache."""
    if len(buffer) < _BLOCK_BYTES:
        return 0
    if not hasattr(_own, "bounce"):
        # Kept for the next piece: making memory takes as long as reading into it.
        _own.bounce = aligned_memory(_BOUNCE_BYTES)
    bounce: memoryview = _own.bounce
    done = 0
    while done < len(buffer):
        countdown.seconds_left()
        skipped = (start + done) % _BLOCK_BYTES
        # Full blocks, but none that is not wanted.
        wanted = -(-(skipped + len(buffer) - done) // _BLOCK_BYTES) * _BLOCK_BYTES
        with turns.one(countdown) if turns is not None else contextlib.nullcontext():
            count = os.preadv(fd, [bounce[:wanted]], start + done - skipped) - skipped
        taken = min(count, len(buffer) - done)
        if taken <= 0:
            return done
        _copy(buffer[done : done + taken], bounce[skipped:])
        done += taken
    return done


def _copy(target: memoryview, source: memoryview) -> None:
    """Fill the target, and let other threads run meanwhile, as an assignment would not."""
    ctypes.memmove(_address_of(target), _address_of(source), len(target))


def _address_of(memory: memoryview | mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


class _DirectWriter:
    """Writes aligned sources directly from their memory, others through the bounce buffer."""

    def __init__(self, fd: int, countdown: Countdown) -> None:
        self._fd = fd
        self._countdown = countdown
        self._bounce = aligned_memory(_BOUNCE_BYTES)
        self._filled = 0

    def write(self, source: memoryview) -> None:
        if self._filled == 0:
            full_blocks = len(source) - len(source) % _BLOCK_BYTES
            source = source[self._write_directly(source[:full_blocks]) :]
        while source:
            taken = min(len(source), _BOUNCE_BYTES - self._filled)
            self._bounce[self._filled : self._filled + taken] = source[:taken]
            self._filled += taken
            source = source[taken:]
            if self._filled == _BOUNCE_BYTES:
                self._flush(_BOUNCE_BYTES)

    def finish(self) -> None:
        """Write the rest; an incomplete block needs the page cache."""
        full_blocks = self._filled - self._filled % _BLOCK_BYTES
        tail = self._bounce[full_blocks : self._filled]
        self._flush(full_blocks)
        _go_buffered(self._fd)
        write_buffered(self._fd, [tail], self._countdown)

    def _flush(self, count: int) -> None:
        source = self._bounce[:count]
        if rest := source[self._write_directly(source) :]:
            # After a short write the offset is unaligned: continue through the page cache.
            _go_buffered(self._fd)
            write_buffered(self._fd, [rest], self._countdown)
        self._filled = 0

    def _write_directly(self, source: memoryview) -> int:
        """Write without copying. Returns the number of bytes that the kernel accepted."""
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


def _go_direct(fd: int) -> bool:
    """Turn on direct I/O. Returns whether the file system supports it."""
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
