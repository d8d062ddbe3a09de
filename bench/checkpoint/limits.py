"""What the machine itself can do: copy the state, write it, read it."""

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch

from bench.checkpoint.caches import drop_caches
from bench.checkpoint.state import Tensors, mutate, size_of

CHUNK = 16 * 2**20
Copy = tuple[int, int, int]


def measure(tensors: Tensors, folder: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds by limit, for the size of the state."""
    sources = list(tensors.values())
    copies = [torch.ones_like(tensor) for tensor in sources]
    file = folder / "raw"
    size = size_of(tensors) // (2 * CHUNK) * (2 * CHUNK)
    scale = size_of(tensors) / size  # whole chunks, so that direct I/O may be used
    seen: dict[str, list[float]] = {}
    _write(file, size, 1)  # as with the systems, the first one does not count
    for _ in range(repeats):
        mutate(tensors)
        for threads in (1, 2):
            best = min(_foreach(sources, copies, threads), _memcpy(sources, copies, threads))
            seen.setdefault(f"memcpy, {threads} thread{'s' * (threads > 1)}", []).append(best)
        for threads in (1, 2):
            name = f"raw write, direct + fsync, {threads} thread{'s' * (threads > 1)}"
            seen.setdefault(name, []).append(_write(file, size, threads) * scale)
        drop_caches(folder)
        for threads in (1, 2):
            name = f"raw read, direct, {threads} thread{'s' * (threads > 1)}"
            seen.setdefault(name, []).append(_read(file, size, os.O_DIRECT, threads) * scale)
        _read(file, size, 0, 1)  # fills the page cache
        seen.setdefault("raw read, page cache", []).append(_read(file, size, 0, 1) * scale)
    file.unlink()
    return seen


def _timed(work: Callable[[int], None], threads: int) -> float:
    """Run the parts of the work side by side."""
    others = [threading.Thread(target=work, args=(part,)) for part in range(1, threads)]
    started = time.perf_counter()
    for thread in others:
        thread.start()
    work(0)
    for thread in others:
        thread.join()
    return time.perf_counter() - started


def _foreach(sources: list[torch.Tensor], copies: list[torch.Tensor], threads: int) -> float:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        return _timed(lambda _: torch._foreach_copy_(copies, sources), 1)
    finally:
        torch.set_num_threads(before)


def _memcpy(sources: list[torch.Tensor], copies: list[torch.Tensor], threads: int) -> float:
    memcpy = ctypes.CDLL(None).memcpy
    memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    memcpy.restype = ctypes.c_void_p
    calls: list[Copy] = [
        (copy.data_ptr(), source.data_ptr(), source.nbytes)
        for source, copy in zip(sources, copies, strict=True)
    ]

    def work(part: int) -> None:
        for call in calls[part::threads]:
            memcpy(*call)

    return _timed(work, threads)


def _buffer() -> mmap.mmap:
    """In huge pages, with which a disk is fastest, and already faulted in.

    In small pages, one request covers at most 1 MiB here, and reading takes up to three times as
    long.
    """
    buffer = mmap.mmap(-1, CHUNK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    buffer.madvise(mmap.MADV_HUGEPAGE)
    buffer.write(os.urandom(CHUNK))
    return buffer


def _write(file: Path, size: int, threads: int) -> float:
    buffers = [_buffer() for _ in range(threads)]
    number = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_DIRECT, 0o600)

    def work(part: int) -> None:
        for offset in range(part * CHUNK, size, threads * CHUNK):
            if os.pwrite(number, buffers[part], offset) != CHUNK:
                raise OSError(f"a short write to {file}")

    def write_and_sync() -> None:
        _timed(work, threads)
        os.fsync(number)

    try:
        return _timed(lambda _: write_and_sync(), 1)
    finally:
        os.close(number)


def _read(file: Path, size: int, flags: int, threads: int) -> float:
    buffers = [_buffer() for _ in range(threads)]
    number = os.open(file, os.O_RDONLY | flags)

    def work(part: int) -> None:
        for offset in range(part * CHUNK, size, threads * CHUNK):
            if os.preadv(number, [buffers[part]], offset) != CHUNK:
                raise OSError(f"a short read from {file}")

    try:
        return _timed(work, threads)
    finally:
        os.close(number)
