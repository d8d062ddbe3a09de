"""Read a checkpoint's bytes back into the places where they belong.

A chunk that belongs to one array is read straight into it and verified there; others are verified
first and then copied. A copy that is missing, wrong or unreadable is overwritten with the next one;
without a good copy, an older checkpoint is used. No byte is used before its chunk has verified: see
`chunk_reading.py`.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format.keys import Hashing
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.format.manifest import CheckpointManifest, Chunk, Copy
from outlast.checkpoint.restoring.chunk_reading import WantedChunk, read_chunks
from outlast.checkpoint.state.library import Bytes
from outlast.storage import Store

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """The hash of a run of a leaf's bytes."""

    start: int
    length: int
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Loaded:
    """The copies that turned out to be bad, and the hashes of each leaf's bytes."""

    bad: set[Copy]
    pieces: dict[int, list[Piece]]


def load(store: Store, manifest: CheckpointManifest, targets: Sequence[Sequence[Bytes]]) -> Loaded:
    """Fill `targets[i]` with the bytes of leaf i.

    Raises `CheckpointCorrupt` if no copy of a chunk verifies.

    If it raises or is killed: the targets are partly filled and must not be used.
    """
    _check_targets(manifest, targets)
    scatter = _Scatter(manifest.places, targets, manifest.hashing)
    bad: set[Copy] = set()
    read_chunks(store, [_wanted(manifest, chunk, scatter) for chunk in manifest.chunks], bad)
    if bad:
        packs = ", ".join(sorted({copy.pack for copy in bad}))
        log.error("Read %s from second copies because these are damaged: %s", manifest.name, packs)
    return Loaded(bad=bad, pieces=scatter.pieces)


def _wanted(manifest: CheckpointManifest, chunk: Chunk, scatter: "_Scatter") -> WantedChunk:
    place = scatter.place_of(chunk)
    use = partial(scatter.put, chunk, in_place=place is not None)
    return WantedChunk(manifest=manifest, chunk=chunk, use=use, place=place)


def _check_targets(manifest: CheckpointManifest, targets: Sequence[Sequence[Bytes]]) -> None:
    """An array that is larger than what was saved would keep bytes that were never restored."""
    for leaf, held in zip(manifest.leaves, targets, strict=True):
        for target in held:
            if len(target) != leaf.nbytes:
                raise CheckpointCorrupt(
                    f"{manifest.name!r} has {leaf.nbytes} bytes for {leaf.path!r}, "
                    f"but the array there has {len(target)}."
                )


class _Scatter:
    """Which leaves a chunk's bytes belong to."""

    def __init__(
        self, places: Sequence[Span], targets: Sequence[Sequence[Bytes]], hashing: Hashing
    ) -> None:
        held = [(place, index) for index, place in enumerate(places) if place.length]
        self._held = sorted(held, key=lambda item: item[0].start)
        self._starts = [place.start for place, _ in self._held]
        self._targets = targets
        self._hashing = hashing
        self.pieces: dict[int, list[Piece]] = {index: [] for _, index in held}

    def place_of(self, chunk: Chunk) -> Bytes | None:
        """The part of an array that the chunk fills alone; None if it has bytes of several."""
        span = chunk.span
        for place, index in self._overlapping(span):
            if place.start <= span.start and span.end <= place.end and self._targets[index]:
                return self._targets[index][0][span.start - place.start : span.end - place.start]
        return None

    def put(self, chunk: Chunk, data: Bytes, *, in_place: bool = False) -> None:
        """Copy verified bytes to their arrays. `in_place`: the first of these has them already."""
        span = chunk.span
        for place, index in self._overlapping(span):
            first, last = max(place.start, span.start), min(place.end, span.end)
            part = data[first - span.start : last - span.start]
            for target in self._targets[index][1 if in_place else 0 :]:
                np.copyto(target[first - place.start : last - place.start], part)
            # Small leaves share a chunk; a large one has its chunks for itself.
            is_chunk = last - first == span.length
            digest = chunk.digest if is_chunk else self._hashing.digest(part)
            piece = Piece(start=first - place.start, length=last - first, digest=digest)
            self.pieces[index].append(piece)

    def _overlapping(self, span: Span) -> Iterator[tuple[Span, int]]:
        at = max(0, bisect_right(self._starts, span.start) - 1)
        while at < len(self._held) and self._held[at][0].start < span.end:
            if self._held[at][0].end > span.start:
                yield self._held[at]
            at += 1
