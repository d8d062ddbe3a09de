"""Copy a state into memory that belongs to the checkpoint, so that the loop can continue.

The memory is mapped, touched once and reused: copying to a fresh page takes up to ten times as long
as to a page that was touched before. Copies run in a few threads, in native code that releases the
interpreter lock.
"""

import contextlib
import mmap
import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

import numpy as np

from outlast._base.logs import get_logger
from outlast.checkpoint.format.layout import Layout, Span, waves
from outlast.checkpoint.saving.memory import available_bytes, is_lack_of_memory
from outlast.checkpoint.state.arrays import Bytes
from outlast.checkpoint.state.tree import Leaf
from outlast.checkpoint.threads import ensure_room_for_thread

log = get_logger(__name__)

_MEMORY_SHARE_MAX = 0.8
_THREADS = min(4, os.cpu_count() or 1)
# Small enough that a save that takes over waits for one piece only for a moment.
_PIECE_BYTES = 4 * 1024**2
_PAGE_BYTES = 4096

StartThread = Callable[[Callable[[], object], str], threading.Thread]


class StagingArea:
    """A staging buffer that is made ready in the background and kept within a bound.

    The bound is `bytes_max` or, without it, most of the memory that is free.
    """

    def __init__(self, bytes_max: int | None) -> None:
        self._bytes_max = bytes_max
        self._warming: threading.Thread | None = None
        self._warm_enough = threading.Event()
        self._has_warned = False
        self.buffer = StagingBuffer()

    @property
    def is_warming(self) -> bool:
        """Whether memory for the next save is still being made ready."""
        return self._warming is not None and self._warming.is_alive()

    def warm_up(self, size_bytes: int, start_thread: StartThread) -> None:
        """Have memory for a state of this size ready before a save needs it."""
        if self.buffer.size_bytes < size_bytes <= self._bound(size_bytes):
            self._warm_enough.clear()
            self._warming = start_thread(lambda: self._reserve_ahead(size_bytes), "outlast-warm-up")

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
                self.buffer.reserve(needed, stop=lambda: True)
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

    def _reserve_ahead(self, size_bytes: int) -> None:
        # The save itself finds out how much memory there is.
        with contextlib.suppress(MemoryError):
            self.buffer.reserve(size_bytes, stop=self._warm_enough.is_set)

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
    """Memory for one copy of a state. Not thread-safe."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._bytes: Bytes = np.empty(0, np.uint8)
        self._pool = _new_pool()

    @property
    def size_bytes(self) -> int:
        return len(self._bytes)

    def reserve(self, size_bytes: int, *, stop: Callable[[], bool] = lambda: False) -> None:
        """Have memory of at least this size, touched. Its content is lost if it grows.

        `stop` is asked before each piece: pages that are not touched here are touched by the next
        `fill`. Raises `MemoryError` if there is not enough; the content is lost then, too.
        """
        if size_bytes <= self.size_bytes:
            return
        # Released first, so that the new memory fits under a limit.
        self._bytes = np.empty(0, np.uint8)
        self._memory = None
        try:
            # Shared memory, which is the default here, gets no huge pages.
            self._memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError as error:
            if not is_lack_of_memory(error):
                raise
            raise MemoryError(f"{size_bytes} bytes for a copy could not be allocated") from error
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        for start in range(0, size_bytes, _PIECE_BYTES):
            if stop():
                return
            _populate(self._memory, start, min(_PIECE_BYTES, size_bytes - start))

    def fill(self, leaves: Sequence[tuple[Leaf, Span]], size_bytes: int) -> None:
        """Copy each leaf to its place in memory of this size.

        When it returns or raises, no copy is in progress: the loop may change the leaves again.
        """
        # Several threads that copy touch the memory faster than one that does nothing else.
        self.reserve(size_bytes, stop=lambda: True)
        jobs = [(leaf, self._bytes[at.start : at.end]) for leaf, at in leaves if at.length]
        copies: list[Future[None]] = []
        try:
            for share in _shared_out(jobs):
                ensure_room_for_thread()
                copies.append(self._pool.submit(_copy_all, share))
        except (RuntimeError, MemoryError):
            # No thread could be started, but its work stays queued for a later one.
            self._pool.shutdown(cancel_futures=True)
            self._pool = _new_pool()
            _copy_all(jobs)
            return
        wait(copies)
        for copy in copies:
            copy.result()

    def view(self, span: Span) -> memoryview:
        """The bytes of a span. They change with the next `fill`."""
        return self._bytes[span.start : span.end].data

    def close(self) -> None:
        self._pool.shutdown()
        self._bytes = np.empty(0, np.uint8)
        self._memory = None


def _largest_wave(layout: Layout, bytes_max: int) -> int:
    if layout.size_bytes <= bytes_max:
        return layout.size_bytes
    return max(wave.length for wave in waves(layout, bytes_max))


def _new_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="outlast-stage")


def _populate(memory: mmap.mmap, start: int, length: int) -> None:
    """Have pages for this part of the memory.

    NumPy writes to them, because it lets other threads run meanwhile. `madvise` holds the
    interpreter lock: where fresh memory is slow, as in many virtual machines, the loop would stop.
    """
    np.frombuffer(memory, np.uint8, length, start)[::_PAGE_BYTES] = 0


def _copy_all(jobs: Sequence[tuple[Leaf, Bytes]]) -> None:
    for leaf, target in jobs:
        leaf.library.copy_out(leaf.array, target)


def _shared_out(jobs: Sequence[tuple[Leaf, Bytes]]) -> list[list[tuple[Leaf, Bytes]]]:
    """The jobs in as many shares as there are threads, with about the same number of bytes."""
    shares: list[list[tuple[Leaf, Bytes]]] = [[] for _ in range(_THREADS)]
    sizes = [0] * _THREADS
    for job in sorted(jobs, key=lambda job: -job[0].nbytes):
        lightest = sizes.index(min(sizes))
        shares[lightest].append(job)
        sizes[lightest] += job[0].nbytes
    return [share for share in shares if share]
