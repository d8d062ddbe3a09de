"""Copy a state into memory that belongs to the checkpoint, so that the loop can go on.

The memory is mapped, touched once and reused: a fresh page costs up to ten times what copying to a
touched one does. Copies run in a few threads, in native code that releases the interpreter lock.
"""

import mmap
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from outlast.checkpoint.arrays import Bytes
from outlast.checkpoint.layout import Span
from outlast.checkpoint.tree import Leaf

_THREADS = min(4, os.cpu_count() or 1)
_PIECE_BYTES = 8 * 1024**2
_PAGE_BYTES = 4096


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
        self._memory = mmap.mmap(-1, size_bytes)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            self._memory.madvise(mmap.MADV_HUGEPAGE)
        self._bytes = np.frombuffer(self._memory, np.uint8)
        pieces = [self._bytes[at : at + _PIECE_BYTES] for at in range(0, size_bytes, _PIECE_BYTES)]
        list(self._pool.map(_touch, pieces))

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


def _touch(piece: Bytes) -> None:
    piece[::_PAGE_BYTES] = 0


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
