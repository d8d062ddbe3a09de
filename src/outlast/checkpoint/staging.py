"""Copy a state into memory that belongs to the checkpoint, so that the loop can go on.

The memory is mapped, touched once and reused: a fresh page costs up to ten times what copying to a
touched one does. Copies run in a few threads, in native code that releases the interpreter lock.
"""

import mmap
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from outlast.checkpoint.arrays import Bytes
from outlast.checkpoint.layout import Span
from outlast.checkpoint.tree import Leaf

_THREADS = min(4, os.cpu_count() or 1)
# Populating holds the interpreter lock, so it goes in pieces of a few milliseconds.
_PIECE_BYTES = 16 * 1024**2
_PAGE_BYTES = 4096
_MADV_POPULATE_WRITE = 23  # in Linux since 5.14, and not yet in Python


class Stage:
    """Memory for one image of a state. Not for two threads at once."""

    def __init__(self) -> None:
        self._memory: mmap.mmap | None = None
        self._bytes: Bytes = np.empty(0, np.uint8)
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="outlast-stage")

    @property
    def size_bytes(self) -> int:
        return len(self._bytes)

    def reserve(self, size_bytes: int) -> None:
        """Have memory of at least this size, touched. What it held is lost if it grows."""
        if size_bytes <= self.size_bytes:
            return
        # Shared memory, which is the default here, gets no huge pages.
        self._memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        for start in range(0, size_bytes, _PIECE_BYTES):
            _populate(self._memory, start, min(_PIECE_BYTES, size_bytes - start))

    def fill(self, leaves: Sequence[tuple[Leaf, Span]], size_bytes: int) -> None:
        """Copy each leaf to its place in memory of this size."""
        self.reserve(size_bytes)
        jobs = [(leaf, self._bytes[at.start : at.end]) for leaf, at in leaves if at.length]
        list(self._pool.map(_copy_all, _shared_out(jobs)))

    def view(self, span: Span) -> memoryview:
        """The bytes of a span. They change with the next `fill`."""
        return self._bytes[span.start : span.end].data

    def close(self) -> None:
        self._pool.shutdown()
        self._bytes = np.empty(0, np.uint8)
        self._memory = None


def _populate(memory: mmap.mmap, start: int, length: int) -> None:
    """Have pages behind this part of the memory."""
    try:
        if sys.platform != "linux":
            raise OSError
        memory.madvise(_MADV_POPULATE_WRITE, start, length)
    except OSError:
        np.frombuffer(memory, np.uint8, length, start)[::_PAGE_BYTES] = 0


def _copy_all(jobs: Sequence[tuple[Leaf, Bytes]]) -> None:
    for leaf, target in jobs:
        leaf.library.copy_out(leaf.array, target)


def _shared_out(jobs: Sequence[tuple[Leaf, Bytes]]) -> list[list[tuple[Leaf, Bytes]]]:
    """The jobs in as many shares as there are threads, of about the same number of bytes."""
    shares: list[list[tuple[Leaf, Bytes]]] = [[] for _ in range(_THREADS)]
    sizes = [0] * _THREADS
    for job in sorted(jobs, key=lambda job: -job[0].nbytes):
        lightest = sizes.index(min(sizes))
        shares[lightest].append(job)
        sizes[lightest] += job[0].nbytes
    return [share for share in shares if share]
