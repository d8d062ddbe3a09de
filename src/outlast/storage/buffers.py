"""Views of memory as plain bytes. Nothing is copied here."""

from collections.abc import Sequence

from outlast.storage.protocol import Buffer


def byte_views(parts: Sequence[Buffer]) -> list[memoryview]:
    """The parts as flat views of bytes, the empty ones left out."""
    if isinstance(parts, bytes | bytearray | memoryview | str):
        raise TypeError("An object is written from a sequence of buffers: put it in a list.")
    return [_flat(view) for part in parts if (view := memoryview(part)).nbytes]


def writable_view(buffer: Buffer) -> memoryview:
    """The buffer as a flat view of bytes that can be filled."""
    view = memoryview(buffer)
    if view.readonly:
        raise TypeError("The buffer to read into must be writable.")
    return _flat(view) if view.nbytes else memoryview(bytearray())


def total_bytes(views: Sequence[memoryview]) -> int:
    return sum(view.nbytes for view in views)


def _flat(view: memoryview) -> memoryview:
    if not view.c_contiguous:
        raise TypeError("Only contiguous memory can be stored.")
    return view.cast("B")
