"""Read a checkpoint's bytes back into the places where they belong, verifying each chunk first.

A byte enters a live array only after its chunk has verified. A copy that is missing or wrong is
passed over for the next copy.
"""

import logging
import mmap
import os
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from outlast.checkpoint.arrays import Bytes
from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format import Chunk, Copy, Manifest, digest_of
from outlast.checkpoint.layout import Span
from outlast.storage import NotFound, Store, TooShort

log = logging.getLogger(__name__)

_THREADS = min(8, 2 * (os.cpu_count() or 1))


def load(store: Store, manifest: Manifest, targets: Sequence[Sequence[Bytes]]) -> set[Copy]:
    """Fill `targets[i]` with the bytes of leaf i; returns the copies that turned out to be bad.

    Raises `CheckpointCorrupt` if no copy of a chunk verifies.

    If it raises or is killed: the targets hold a mixture, and must not be used.
    """
    scatter = _Scatter(manifest.places, targets)
    buffers = threading.local()
    bad: set[Copy] = set()
    size = max((chunk.span.length for chunk in manifest.chunks), default=0)

    def load_one(chunk: Chunk) -> None:
        if not hasattr(buffers, "memory"):
            # Mapped, because direct I/O wants memory that starts on a page.
            buffers.memory = np.frombuffer(mmap.mmap(-1, size), np.uint8)
        scatter.put(chunk.span, verified(store, manifest.name, chunk, buffers.memory, bad))

    for_each(load_one, manifest.chunks)
    if bad:
        packs = ", ".join(sorted({copy.pack for copy in bad}))
        log.error("%s was read from second copies, as these are damaged: %s", manifest.name, packs)
    return bad


def verify(store: Store, manifest: Manifest, on_chunk: Callable[[int], object]) -> list[str]:
    """Read every byte of every copy; says what is wrong. `on_chunk` is told of progress."""
    problems: list[str] = []

    def check(chunk: Chunk) -> None:
        memory = np.empty(chunk.span.length, np.uint8)
        for number in range(len(chunk.copies)):
            alone = Chunk(span=chunk.span, digest=chunk.digest, copies=chunk.copies[number:][:1])
            try:
                verified(store, manifest.name, alone, memory)
            except CheckpointCorrupt as error:
                problems.append(str(error))
        on_chunk(chunk.span.length)

    for_each(check, manifest.chunks)
    return sorted(problems)


def verified(
    store: Store, name: str, chunk: Chunk, memory: Bytes, bad: set[Copy] | None = None
) -> Bytes:
    """The bytes of a chunk, read into `memory`, from the first copy that verifies.

    Copies that do not are put into `bad`, if it is given.
    """
    data = memory[: chunk.span.length]
    reasons = []
    bad = set() if bad is None else bad
    for copy in chunk.copies:
        try:
            store.read_into(copy.pack, data.data, start=copy.offset)
        except (NotFound, TooShort) as error:
            reasons.append(str(error))
            bad.add(copy)
            continue
        if digest_of(data) == chunk.digest:
            return data
        bad.add(copy)
        reasons.append(f"{copy.pack!r} holds other bytes at {copy.offset} than were written.")
    raise CheckpointCorrupt(f"{name!r} cannot be read back: {' '.join(reasons)}")


def for_each(work: Callable[[Chunk], object], chunks: Sequence[Chunk]) -> None:
    """Do the work in a few threads; the first error ends it."""
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="outlast-load") as pool:
        futures = [pool.submit(work, chunk) for chunk in chunks]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


class _Scatter:
    """Which leaves a chunk's bytes belong to."""

    def __init__(self, places: Sequence[Span], targets: Sequence[Sequence[Bytes]]) -> None:
        held = [(place, index) for index, place in enumerate(places) if place.length]
        self._held = sorted(held, key=lambda item: item[0].start)
        self._starts = [place.start for place, _ in self._held]
        self._targets = targets

    def put(self, span: Span, data: Bytes) -> None:
        for place, index in self._overlapping(span):
            first, last = max(place.start, span.start), min(place.end, span.end)
            part = data[first - span.start : last - span.start]
            for target in self._targets[index]:
                np.copyto(target[first - place.start : last - place.start], part)

    def _overlapping(self, span: Span) -> Iterator[tuple[Span, int]]:
        at = max(0, bisect_right(self._starts, span.start) - 1)
        while at < len(self._held) and self._held[at][0].start < span.end:
            if self._held[at][0].end > span.start:
                yield self._held[at]
            at += 1
