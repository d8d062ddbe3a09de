"""Where each array is in the staged copy of a state, and how that copy is cut into chunks.

Pure. Chunks are hashed, deduplicated and verified. A chunk starts on a block, so that it can be
written straight from memory. Large arrays have their own chunks; small ones share chunks, so that
thousands of scalars do not need thousands of chunks. A chunk does not depend on what is before it.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass

BLOCK_BYTES = 4096
CHUNK_BYTES = 4 * 1024**2
SMALL_BYTES_MAX = 64 * 1024
ALIGNMENT_BYTES = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """A range of bytes in the staged copy."""

    start: int
    length: int

    @property
    def end(self) -> int:
        return self.start + self.length

    def moved(self, distance: int) -> "Span":
        return Span(start=self.start + distance, length=self.length)


_NOTHING = Span(start=0, length=0)


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """`places[i]` is where leaf i is; `chunks` cover all places, in order."""

    places: tuple[Span, ...]
    chunks: tuple[Span, ...]
    size_bytes: int


def lay_out(sizes: Sequence[int]) -> Layout:
    """Place leaves of these sizes: first the small ones, then the large, each in their order."""
    places, chunks, end = _lay_out_small(sizes)
    large = tuple(size for size in sizes if size > SMALL_BYTES_MAX)
    large_places, large_chunks = _lay_out_large(large, round_up(end, BLOCK_BYTES))
    if large_places:
        end = large_places[-1].end
    following = iter(large_places)
    return Layout(
        places=tuple(place or next(following) for place in places),
        chunks=(*chunks, *large_chunks),
        size_bytes=round_up(end, BLOCK_BYTES),
    )


def _lay_out_small(sizes: Sequence[int]) -> tuple[list[Span | None], list[Span], int]:
    """The places of the small leaves and None for each large one, the chunks, and the end."""
    places: list[Span | None] = []
    chunks: list[Span] = []
    start = end = 0
    for size in sizes:
        if size > SMALL_BYTES_MAX:
            places.append(None)
        elif size == 0:
            places.append(_NOTHING)
        else:
            at = round_up(end, ALIGNMENT_BYTES)
            if at + size - start > CHUNK_BYTES:
                chunks.append(Span(start=start, length=end - start))
                start = at = round_up(end, BLOCK_BYTES)
            places.append(Span(start=at, length=size))
            end = at + size
    if end > start:
        chunks.append(Span(start=start, length=end - start))
    return places, chunks, end


@functools.lru_cache(4)
def _lay_out_large(sizes: tuple[int, ...], end: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The places and chunks of the large leaves. Small ones, such as logs, change more often."""
    places: list[Span] = []
    chunks: list[Span] = []
    for size in sizes:
        start = round_up(end, BLOCK_BYTES)
        end = start + size
        places.append(Span(start=start, length=size))
        chunks += [
            Span(start=at, length=min(CHUNK_BYTES, end - at))
            for at in range(start, end, CHUNK_BYTES)
        ]
    return tuple(places), tuple(chunks)


def waves(layout: Layout, bytes_max: int) -> list[Span]:
    """Cut the copy into parts of at most `bytes_max`, without splitting a leaf.

    A leaf that is larger than that makes a larger part.
    """
    inner = {place.start for place in layout.places if place.length}
    parts: list[Span] = []
    for chunk in layout.chunks:
        end = round_up(chunk.end, BLOCK_BYTES)
        last = parts[-1] if parts else None
        if last is None or (chunk.start in inner and end - last.start > bytes_max):
            parts.append(Span(start=chunk.start, length=end - chunk.start))
        else:
            parts[-1] = Span(start=last.start, length=end - last.start)
    return parts


def round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple
