"""Memory for data on its way to or from a disk."""

import ctypes

import pytest

from outlast._base.huge_pages import aligned_memory


@pytest.mark.parametrize("size_bytes", [1, 4096, 2 * 1024**2, 4 * 1024**2 + 1])
def test_memory_starts_on_a_huge_page_and_has_exactly_its_size(size_bytes: int) -> None:
    memory = aligned_memory(size_bytes)

    assert ctypes.addressof(ctypes.c_char.from_buffer(memory)) % (2 * 1024**2) == 0
    assert len(memory) == size_bytes
    memory[:] = b"x" * size_bytes
    assert bytes(memory[-1:]) == b"x"
