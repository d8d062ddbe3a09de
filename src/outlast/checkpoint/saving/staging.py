"""Copy a state into memory that belongs to the checkpoint, so that the loop can continue.

The memory is mapped, touched once and reused: copying to a fresh page takes up to ten times as long
as to a page that was touched before. Copies run in the loop's thread and a few others, in native
code that releases the interpreter lock. See `copying.py`.
"""

import contextlib
import mmap
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING

import numpy as np

from outlast._base.huge_pages import collapse, private_memory, use_huge_pages
from outlast._base.logs import get_logger
from outlast.checkpoint.format.layout import Layout, Span, waves
from outlast.checkpoint.saving.copying import CopyQueue, PieceSize, copies_of
from outlast.checkpoint.saving.memory import available_bytes, is_lack_of_memory
from outlast.checkpoint.state.tree import Leaf
from outlast.checkpoint.threads import ensure_room_for_thread

if TYPE_CHECKING:
    from outlast.checkpoint.state.library import Bytes

log = get_logger(__name__)

_MEMORY_SHARE_MAX = 0.8
# Small enough that a save that takes over waits for one piece only for a moment.
_PIECE_BYTES = 4 * 1024**2
_PAGE_BYTES = 4096

StartThread = Callable[[Callable[[], object], str], threading.Thread]


class StagingArea:
    """A staging buffer that is made ready in the background and kept within a bound.

    The bound is `bytes_max` or, without it, most of the memory that is free.
    """

    def __init__(self, bytes_max: int | None, *, threads: int = 1) -> None:
        self._bytes_max = bytes_max
        self._warming: threading.Thread | None = None
        self._warm_enough = threading.Event()
        self._has_warned = False
        self.buffer = StagingBuffer(threads=threads)

    @property
    def is_warming(self) -> bool:
        """Whether memory for the next save is still being made ready."""
        is_warming = self._warming is not None and self._warming.is_alive()
        return is_warming and not self.buffer.has_content

    def warm_up(self, size_bytes: int, start_thread: StartThread) -> None:
        """Have memory for a state of this size ready before a save needs it."""
        if self.buffer.size_bytes < size_bytes <= self._bound(size_bytes):
            self._warm_enough.clear()
            room = min(_room_for(size_bytes), self._bound(size_bytes) - size_bytes)
            self._warming = start_thread(
                lambda: self._reserve_ahead(size_bytes, room), "outlast-warm-up"
            )

    def collapse(self, start_thread: StartThread) -> None:
        """Have huge pages where a save could not wait for them, before the next one."""
        if self.buffer.has_small_pages:
            self._warm_enough.clear()
            self._warming = start_thread(
                lambda: self.buffer.collapse(self._warm_enough.is_set), "outlast-warm-up"
            )

    def stop_warming(self) -> None:
        """Stop the background work: on a busy machine it may never finish."""
        if self._warming is not None:
            self._warm_enough.set()
            self._warming.join()
            self._warming = None

    def obtain(self, layout: Layout) -> int:
        """Reserve memory for a state; returns how many bytes of it may be staged at once.

        The free memory is an estimate. If less is available, smaller parts are staged. Raises
        `MemoryError` if there is not even room for the largest array.
        """
        bytes_max = self._bound(layout.size_bytes)
        needed = 0
        while True:
            before, needed = needed, _largest_wave(layout, bytes_max)
            try:
                # Pages that are not touched now are touched by the copies, in several threads.
                room = min(_room_for(needed), bytes_max - needed)
                self.buffer.reserve(needed, room_bytes=room, stop=lambda: True)
            except MemoryError:
                if needed == before:
                    raise
                bytes_max = needed // 2
                self._warn_of_waves(layout.size_bytes, bytes_max)
            else:
                return bytes_max

    def close(self) -> None:
        self.stop_warming()
        self.buffer.close()

    def _bound(self, size_bytes: int) -> int:
        """How much of a state of this size may be staged at once."""
        if self._bytes_max is not None:
            return self._bytes_max
        held = self.buffer.size_bytes
        if size_bytes <= held or (free := available_bytes()) is None:
            return size_bytes
        bound = max(held, int(_MEMORY_SHARE_MAX * (free + held)))
        if bound < size_bytes:
            self._warn_of_waves(size_bytes, bound)
        return bound

    def _reserve_ahead(self, size_bytes: int, room_bytes: int) -> None:
        # The save itself finds out how much memory there is.
        with contextlib.suppress(MemoryError):
            self.buffer.reserve(size_bytes, room_bytes=room_bytes, stop=self._warm_enough.is_set)

    def _warn_of_waves(self, size_bytes: int, bound: int) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning(
                "Saving in parts: a copy of the state needs %d MB, but only %d MB are available. "
                "The loop waits during each save. To avoid this, give the process more memory.",
                size_bytes // 10**6,
                bound // 10**6,
            )


class StagingBuffer:
    """Memory for one copy of a state. Not thread-safe.

    `threads` copy, one of which is the loop's.
    """

    def __init__(self, *, threads: int = 1) -> None:
        self._memory: mmap.mmap | None = None
        self._bytes: Bytes = np.empty(0, np.uint8)
        self._is_fresh = True
        # Up to here, huge pages were asked for.
        self._huge_bytes = 0
        self._piece_size = PieceSize()
        self._helpers = threads - 1
        self._pool = ThreadPoolExecutor(max(1, self._helpers), "outlast-stage")

    @property
    def size_bytes(self) -> int:
        return len(self._bytes)

    @property
    def has_content(self) -> bool:
        """Whether a save has touched all of the memory that it needed."""
        return not self._is_fresh

    @property
    def has_small_pages(self) -> bool:
        """Whether a part of the memory was touched without asking for huge pages."""
        return self._huge_bytes < self.size_bytes

    def reserve(
        self, size_bytes: int, *, room_bytes: int = 0, stop: Callable[[], bool] = lambda: False
    ) -> None:
        """Have memory of at least this size, touched. Its content is lost if it grows.

        New memory has `room_bytes` more, so that a state that grows a little still fits.
        `stop` is asked before each piece: pages that are not touched here are touched by the next
        `fill`. Raises `MemoryError` if there is not enough; the content is lost then, too.
        """
        if size_bytes <= self.size_bytes:
            return
        self._is_fresh = True
        self._huge_bytes = 0
        # Released first, so that the new memory fits under a limit.
        self._bytes = np.empty(0, np.uint8)
        self._memory = None
        size_bytes += room_bytes
        try:
            self._memory = private_memory(size_bytes)
        except OSError as error:
            if not is_lack_of_memory(error):
                raise
            raise MemoryError(f"{size_bytes} bytes for a copy could not be allocated") from error
        self._bytes = np.frombuffer(self._memory, np.uint8)
        for start in range(0, size_bytes, _PIECE_BYTES):
            if stop():
                return
            # Further than this piece, which need not end where a huge page does.
            use_huge_pages(self._memory, start, 2 * _PIECE_BYTES)
            _populate(self._memory, start, min(_PIECE_BYTES, size_bytes - start))
            self._huge_bytes = start + _PIECE_BYTES

    def fill(self, leaves: Sequence[tuple[Leaf, Span]], size_bytes: int) -> None:
        """Copy each leaf to its place in memory of this size.

        When it returns or raises, no copy is in progress: the loop may change the leaves again.
        """
        # Several threads that copy touch the memory faster than one that does nothing else.
        self.reserve(size_bytes, stop=lambda: True)
        started, piece_bytes = time.monotonic(), self._piece_size.choose()
        queue = CopyQueue(copies_of(leaves, self._bytes, piece_bytes))
        helpers: list[Future[None]] = []
        # Without memory for a thread, this one copies all of it. A helper that was queued all the
        # same finds nothing left to do.
        with contextlib.suppress(RuntimeError, MemoryError):
            for _ in range(min(self._helpers, len(queue) - 1)):
                ensure_room_for_thread()
                helpers.append(self._pool.submit(queue.work))
        try:
            queue.work()
        finally:
            wait(helpers)
        for helper in helpers:
            helper.result()
        if not self._is_fresh:
            self._piece_size.note(piece_bytes, size_bytes, time.monotonic() - started)
        self._is_fresh = False

    def collapse(self, stop: Callable[[], bool]) -> None:
        """Replace the small pages of what was touched by `fill`. `stop` is asked in between."""
        if self._memory is None:
            return
        use_huge_pages(self._memory, self._huge_bytes, self.size_bytes)
        while self._huge_bytes < self.size_bytes and not stop():
            length = min(_PIECE_BYTES, self.size_bytes - self._huge_bytes)
            if not collapse(self._memory, self._huge_bytes, length):
                # It would probably not work for the rest either.
                self._huge_bytes = self.size_bytes
                return
            self._huge_bytes += length

    def view(self, span: Span) -> memoryview:
        """The bytes of a span. They change with the next `fill`."""
        return self._bytes[span.start : span.end].data

    def close(self) -> None:
        self._pool.shutdown()
        self._bytes = np.empty(0, np.uint8)
        self._memory = None


def _room_for(size_bytes: int) -> int:
    """How much memory to have beyond that of a state, because logs and the like grow."""
    return min(_PIECE_BYTES, size_bytes // 16)


def _largest_wave(layout: Layout, bytes_max: int) -> int:
    if layout.size_bytes <= bytes_max:
        return layout.size_bytes
    return max(wave.length for wave in waves(layout, bytes_max))


def _populate(memory: mmap.mmap, start: int, length: int) -> None:
    """Have pages for this part of the memory.

    NumPy writes to them, because it lets other threads run meanwhile. `madvise` holds the
    interpreter lock: where fresh memory is slow, as in many virtual machines, the loop would stop.
    """
    np.frombuffer(memory, np.uint8, length, start)[::_PAGE_BYTES] = 0
