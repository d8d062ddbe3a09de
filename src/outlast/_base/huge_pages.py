"""Memory for data on its way to or from a disk.

A request to a disk covers a limited number of separate pieces of memory. In small pages that is
often no more than 1 MiB, and some disks reach their speed only with larger requests: with huge
pages, direct I/O was measured to be two to three times as fast.
"""

import contextlib
import ctypes
import mmap

_HUGE_PAGE_BYTES = 2 * 1024**2


def private_memory(size_bytes: int) -> mmap.mmap:
    """New memory of this process, in huge pages if the kernel has some. Raises `OSError`."""
    # Shared memory, which is the default of mmap, gets no huge pages.
    memory = mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # A kernel may have been built without them.
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


def aligned_memory(size_bytes: int) -> memoryview:
    """The same, starting on a huge page. What is before and after it is never touched."""
    memory = private_memory(size_bytes + _HUGE_PAGE_BYTES)
    skipped = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % _HUGE_PAGE_BYTES
    return memoryview(memory)[skipped : skipped + size_bytes]
