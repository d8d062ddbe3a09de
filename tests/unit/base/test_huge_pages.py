"""Memory for data on its way to or from a disk."""

import ctypes

import pytest

from outlast._base.huge_pages import aligned_memory, collapse, private_memory, use_huge_pages


@pytest.mark.parametrize("size_bytes", [1, 4096, 2 * 1024**2, 4 * 1024**2 + 1])
def test_memory_starts_on_a_huge_page_and_has_exactly_its_size(size_bytes: int) -> None:
    memory = aligned_memory(size_bytes)

    assert ctypes.addressof(ctypes.c_char.from_buffer(memory)) % (2 * 1024**2) == 0
    assert len(memory) == size_bytes
    memory[:] = b"x" * size_bytes
    assert bytes(memory[-1:]) == b"x"


def test_memory_keeps_its_bytes_when_its_pages_are_replaced() -> None:
    memory = private_memory(9 * 1024**2)
    content = bytes(range(256)) * (len(memory) // 256)
    memory[:] = content

    use_huge_pages(memory, 0, len(memory))
    # Whether it works depends on the kernel.
    collapse(memory, 0, 4 * 1024**2)
    collapse(memory, 4 * 1024**2, 5 * 1024**2)

    assert memory[:] == content


def test_advice_beyond_the_end_of_the_memory_is_ignored() -> None:
    memory = private_memory(4096)

    use_huge_pages(memory, 4096, 4096)
    use_huge_pages(memory, 8192, 4096)

    assert memory[:] == bytes(4096)
