"""Memory for data on its way to or from a disk.

A request to a disk covers a limited number of separate pieces of memory. In small pages that is
often no more than 1 MiB, and some disks reach their speed only with larger requests: with huge
pages, direct I/O was measured to be two to three times as fast.
"""

import contextlib
import ctypes
import mmap
import sys

_HUGE_PAGE_BYTES = 2 * 1024**2
# Since Linux 6.1; Python has no name for it yet.
_MADV_COLLAPSE = 25


def private_memory(size_bytes: int) -> mmap.mmap:
    """New memory of this process. Raises `OSError`."""
    # Shared memory, which is the default of mmap, gets no huge pages.
    return mmap.mmap(-1, size_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def use_huge_pages(memory: mmap.mmap, start: int, length: int) -> None:
    """Have what is touched from now on in huge pages, if the kernel has some.

    Where free memory is fragmented, the kernel first moves other pages, for each huge page that is
    touched: filling 5 GiB took twice as long. So no loop should wait for it.
    """
    length = min(length, len(memory) - start)
    if hasattr(mmap, "MADV_HUGEPAGE") and length > 0:
        # A kernel may have been built without them.
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE, start, length)


def collapse(memory: mmap.mmap, start: int, length: int) -> bool:
    """Replace small pages by huge ones now. False if this kernel cannot, or has no memory left.

    Other threads of this program run meanwhile, which `madvise` of the `mmap` module prevents.
    """
    if sys.platform != "linux":
        return False
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory, start))
    call = ctypes.CDLL(None).madvise
    call.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return bool(call(address, length, _MADV_COLLAPSE) == 0)


def aligned_memory(size_bytes: int) -> memoryview:
    """New memory that starts on a huge page. What is before and after it is never touched."""
    memory = private_memory(size_bytes + _HUGE_PAGE_BYTES)
    use_huge_pages(memory, 0, len(memory))
    skipped = -ctypes.addressof(ctypes.c_char.from_buffer(memory)) % _HUGE_PAGE_BYTES
    return memoryview(memory)[skipped : skipped + size_bytes]
