"""Read chunks from a store and verify each: neighbors together, several reads at once.

Chunks that follow each other in a pack are read in one request, as large as the store is fastest
with. A chunk that does not verify then, or cannot be read, is read again by itself from each of its
copies. No byte is used before its chunk has verified.

Only an error about a single object makes a copy bad: `NotFound`, `TooShort` and `Unreadable`. A
store that fails altogether (the volume is gone, the server does not answer, the credentials are
refused) raises its own error, which ends the resume: an older checkpoint would only lose work.
"""

import mmap
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from outlast._base.huge_pages import aligned_memory
from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format.layout import BLOCK_BYTES, round_up
from outlast.checkpoint.format.manifest import CheckpointManifest, Chunk, Copy
from outlast.checkpoint.state.library import Bytes
from outlast.storage import NotFound, Store, TooShort, Unreadable

T = TypeVar("T")

_BAD_OBJECT = (NotFound, TooShort, Unreadable)


@dataclass(frozen=True, kw_only=True, slots=True)
class WantedChunk:
    """A chunk to read. `use` gets its verified bytes, which are those of `place` if it has one."""

    manifest: CheckpointManifest
    chunk: Chunk
    use: Callable[[Bytes], object]
    place: Bytes | None = None


def read_chunks(store: Store, wanted: Sequence[WantedChunk], bad: set[Copy]) -> None:
    """Read all, and put the copies that turned out to be bad into `bad`.

    Raises `CheckpointCorrupt` if no copy of a chunk verifies.
    """

    def use(one: WantedChunk, data: Bytes, *, is_good: bool) -> None:
        one.use(data if is_good else verified(store, one.manifest, one.chunk, data, bad))

    _read_runs(store, wanted, use)


def verify(
    store: Store, manifest: CheckpointManifest, on_chunk: Callable[[int], object]
) -> list[str]:
    """Read every byte of every copy; returns the problems. `on_chunk` gets the bytes read."""
    problems: list[str] = []

    def use(one: WantedChunk, data: Bytes, *, is_good: bool) -> None:
        try:
            if not is_good:
                verified(store, manifest, one.chunk, data)
        except CheckpointCorrupt as error:
            problems.append(str(error))
        one.use(data)

    wanted = [
        WantedChunk(
            manifest=manifest,
            chunk=Chunk(span=chunk.span, digest=chunk.digest, copies=(copy,)),
            use=(lambda data: on_chunk(len(data))) if copy is chunk.copies[-1] else _ignore,
        )
        for chunk in manifest.chunks
        for copy in chunk.copies
    ]
    _read_runs(store, wanted, use)
    return sorted(problems)


def _ignore(_: Bytes) -> None:
    """An earlier copy is not counted."""


def verified(
    store: Store,
    manifest: CheckpointManifest,
    chunk: Chunk,
    memory: Bytes,
    bad: set[Copy] | None = None,
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
        except _BAD_OBJECT as error:
            reasons.append(str(error))
            bad.add(copy)
            continue
        if manifest.hashing.digest(data) == chunk.digest:
            return data
        bad.add(copy)
        reasons.append(f"{copy.pack!r} has different bytes at {copy.offset} than were written.")
    raise CheckpointCorrupt(f"{manifest.name!r} cannot be read back: {' '.join(reasons)}")


def for_each(work: Callable[[T], object], items: Iterable[T], *, threads: int) -> None:
    """Do the work in a few threads; the first error ends it."""
    with ThreadPoolExecutor(threads, thread_name_prefix="outlast-load") as pool:
        futures = [pool.submit(work, item) for item in items]
        try:
            for future in futures:
                future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


class _Use(Protocol):
    """Called with a chunk, its bytes, and whether they verified."""

    def __call__(self, one: WantedChunk, data: Bytes, *, is_good: bool) -> None: ...


def _read_runs(store: Store, wanted: Sequence[WantedChunk], use: _Use) -> None:
    runs = _runs(wanted, store.access.read_bytes)
    buffers = _ThreadBuffers(max((_buffer_bytes(run) for run in runs), default=0))

    def read(run: Sequence[WantedChunk]) -> None:
        places = buffers.places(run)
        is_read = _is_read(store, run, places)
        for one, data in zip(run, places, strict=True):
            is_good = is_read and one.manifest.hashing.digest(data) == one.chunk.digest
            use(one, data, is_good=is_good)

    for_each(read, runs, threads=store.access.reads_at_once)


def _is_read(store: Store, run: Sequence[WantedChunk], places: Sequence[Bytes]) -> bool:
    """Read the first copies of all chunks of a run; False if that is not possible."""
    first = run[0].chunk.copies[0]
    try:
        store.read_into(first.pack, *_with_gaps(places), start=first.offset)
    except _BAD_OBJECT:
        return False
    return True


def _with_gaps(places: Sequence[Bytes]) -> Iterator[memoryview]:
    """The memory of the chunks, and of the padding between them, which nobody uses."""
    for place in places[:-1]:
        yield place.data
        yield memoryview(bytearray(-len(place) % BLOCK_BYTES))
    yield places[-1].data


def _runs(wanted: Iterable[WantedChunk], bytes_max: int) -> list[list[WantedChunk]]:
    """The chunks in the order of their packs; those that one read can fetch are together."""
    runs: list[list[WantedChunk]] = []
    pack, start, end = "", 0, 0
    for one in sorted(wanted, key=_first_copy):
        copy, length = one.chunk.copies[0], one.chunk.span.length
        is_next = copy.pack == pack and copy.offset == round_up(end, BLOCK_BYTES)
        if runs and is_next and copy.offset + length - start <= bytes_max:
            runs[-1].append(one)
        else:
            runs.append([one])
            pack, start = copy.pack, copy.offset
        end = copy.offset + length
    return runs


def _first_copy(one: WantedChunk) -> tuple[str, int]:
    copy = one.chunk.copies[0]
    return copy.pack, copy.offset


def _buffer_bytes(run: Iterable[WantedChunk]) -> int:
    lengths = (one.chunk.span.length for one in run if one.place is None)
    return sum(round_up(length, mmap.PAGESIZE) for length in lengths)


class _ThreadBuffers:
    """Memory of each thread for chunks that have no place of their own."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._own = threading.local()

    def places(self, run: Iterable[WantedChunk]) -> list[Bytes]:
        """Where the bytes of each chunk go."""
        places = []
        at = 0
        for one in run:
            if one.place is not None:
                places.append(one.place)
                continue
            places.append(self._memory()[at : at + one.chunk.span.length])
            at = round_up(at + one.chunk.span.length, mmap.PAGESIZE)
        return places

    def _memory(self) -> Bytes:
        if not hasattr(self._own, "memory"):
            self._own.memory = np.frombuffer(aligned_memory(self._size), np.uint8)
        memory: Bytes = self._own.memory
        return memory
