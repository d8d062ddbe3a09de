"""Write a staged state: hash its chunks, skip those that the store already has, pack the rest.

Runs in the background, at low priority. If killed: packs without a manifest, which are never read
and which the next garbage collection deletes.
"""

import contextlib
import math
import uuid
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from typing import TypeAlias

from outlast.checkpoint.format.keys import PLAIN, Hashing
from outlast.checkpoint.format.layout import BLOCK_BYTES, Span, round_up
from outlast.checkpoint.format.manifest import PACKS, Chunk, Copy
from outlast.checkpoint.saving.staging import StagingBuffer
from outlast.checkpoint.threads import ensure_room_for_thread, lower_priority
from outlast.storage import AlreadyExists, Limits, StorageError, Store

# Large enough to be few, and small enough to be written within the limits of a slow network.
PACK_BYTES_MAX = 256 * 1024**2
# The last one may be larger by this.
_LAST_PACK_SHARE_MAX = 1.125

_USED_SHARE_MIN = 0.5

_Batch: TypeAlias = list[tuple[str, Span]]
"""The chunks of one pack, each with its digest and span."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PackedChunks:
    """The chunks of a staged state, each with its copies, and how many new bytes were written."""

    chunks: tuple[Chunk, ...]
    new_bytes: int


class PackWriter:
    """Knows which chunks the store has, and writes the others into packs."""

    def __init__(self, store: Store, attempt: int, hashing: Hashing = PLAIN) -> None:
        self._store = store
        self._hashing = hashing
        self._attempt = attempt
        self._known: dict[str, Chunk] = {}
        self._unclaimed: list[str] = []
        self._sizes: dict[str, int] = {}

    def assume_stored(self, chunks: Sequence[Chunk]) -> None:
        """Assume that the store has exactly these chunks, those of a committed checkpoint."""
        self._known = {chunk.digest: chunk for chunk in chunks}
        sizes: dict[str, int] = {}
        for chunk in chunks:
            for copy in chunk.copies:
                # The size of a pack that another process wrote is not known exactly.
                end = copy.offset + round_up(chunk.span.length, BLOCK_BYTES)
                sizes[copy.pack] = max(end, sizes.get(copy.pack, self._sizes.get(copy.pack, 0)))
        self._sizes = sizes

    def discard(self) -> None:
        """Delete what was written since the last commit: no checkpoint refers to it."""
        # If this fails, it is tried again with the next garbage.
        with contextlib.suppress(StorageError):
            self._store.delete(self._unclaimed)
            self._unclaimed.clear()

    @property
    def packs(self) -> set[str]:
        """The packs of the chunks assumed to be stored: the next checkpoint may refer to them."""
        return {copy.pack for chunk in self._known.values() for copy in chunk.copies}

    def claim(self, packs: Collection[str]) -> list[str]:
        """Keep these packs from being discarded: they belong, or may belong, to a checkpoint.

        Returns those that could have been discarded before.
        """
        claimed = [pack for pack in self._unclaimed if pack in packs]
        self._unclaimed = [pack for pack in self._unclaimed if pack not in packs]
        return claimed

    def disclaim(self, names: Collection[str]) -> None:
        """Let these objects be discarded: they belong to no checkpoint after all."""
        self._unclaimed += names

    def take_unclaimed(self) -> list[str]:
        """Packs that were written and belong to no checkpoint. The caller must delete them."""
        unclaimed, self._unclaimed = self._unclaimed, []
        return unclaimed

    def pack(
        self,
        buffer: StagingBuffer,
        spans: Sequence[Span],
        *,
        limits: Callable[[], Limits],
        during_last: Callable[[], object] | None = None,
    ) -> PackedChunks:
        """Write the new chunks among these spans. `limits` is asked before each write.

        While packs are being written, the chunks of the next one are hashed. If several are written
        at once, `during_last` is called while the last ones are. What it raises ends the writing.
        """
        digests: list[str] = []
        missing = self._missing(buffer, spans, digests)
        written: dict[str, Copy] = {}
        new_bytes = 0
        ensure_room_for_thread()
        with ThreadPoolExecutor(1, "outlast-hasher", initializer=lower_priority) as pool:
            end_of_all = spans[-1].end if spans else 0
            sizes = _pack_sizes(self._store.access.first_create_bytes)
            batches = _one_ahead(_batches(missing, sizes, end_of_all=end_of_all), pool)
            for batch, copies in self._write_all(buffer, batches, limits, during_last):
                written |= copies
                new_bytes += sum(span.length for _, span in batch)
        chunks = tuple(
            Chunk(span=span, digest=digest, copies=self._copies(digest, written))
            for span, digest in zip(spans, digests, strict=True)
        )
        return PackedChunks(chunks=chunks, new_bytes=new_bytes)

    def mirror(
        self,
        buffer: StagingBuffer,
        chunks: Sequence[Chunk],
        *,
        limits: Callable[[], Limits],
        stop: Callable[[], bool],
    ) -> tuple[Chunk, ...]:
        """Write second copies of chunks that an earlier checkpoint shares and that have only one.

        Otherwise one flipped byte in a frozen layer would damage every checkpoint that shares it. A
        copy in a pack of mostly unused chunks does not count: it would keep that pack from being
        deleted. `stop` is asked before each pack.
        """
        sparse = self._sparse(chunks)
        copies = {
            c.digest: [copy for copy in c.copies if copy.pack not in sparse]
            for c in chunks
            if c.digest in self._known
        }
        spans = {c.digest: c.span for c in chunks}
        for count in (1, 2):
            few = [(digest, spans[digest]) for digest in copies if len(copies[digest]) < count]
            for batch in _batches(few, _pack_sizes(None)):
                if stop():
                    return tuple(chunks)
                for digest, copy in self._write(buffer, batch, limits).items():
                    copies[digest].append(copy)
        return tuple(
            Chunk(span=c.span, digest=c.digest, copies=tuple(copies.get(c.digest, c.copies)))
            for c in chunks
        )

    def _sparse(self, chunks: Sequence[Chunk]) -> set[str]:
        """The packs that these chunks use only a small part of."""
        used = dict.fromkeys(self._sizes, 0)
        lengths = {copy: chunk.span.length for chunk in chunks for copy in chunk.copies}
        for copy, length in lengths.items():
            if copy.pack in used:
                used[copy.pack] += round_up(length, BLOCK_BYTES)
        return {pack for pack, size in self._sizes.items() if used[pack] < _USED_SHARE_MIN * size}

    def _copies(self, digest: str, written: dict[str, Copy]) -> tuple[Copy, ...]:
        known = self._known.get(digest)
        return known.copies if known is not None else (written[digest],)

    def _missing(
        self, buffer: StagingBuffer, spans: Sequence[Span], digests: list[str]
    ) -> Iterator[tuple[str, Span]]:
        """Hash all spans into `digests`, and yield each that the store does not have once."""
        seen: set[str] = set()
        for span in spans:
            digest = self._hashing.digest(buffer.view(span))
            digests.append(digest)
            if digest not in self._known and digest not in seen:
                seen.add(digest)
                yield digest, span

    def _write_all(
        self,
        buffer: StagingBuffer,
        batches: Iterable[_Batch],
        limits: Callable[[], Limits],
        during_last: Callable[[], object] | None,
    ) -> Iterator[tuple[_Batch, dict[str, Copy]]]:
        """Write packs, as many at once as the store is fastest with. Yields them in order."""
        at_once = self._store.access.creates_at_once
        if at_once == 1:
            for batch in batches:
                yield batch, self._write(buffer, batch, limits)
            return
        ensure_room_for_thread()
        # Even after an error, it is left only when nothing reads the buffer anymore.
        with ThreadPoolExecutor(at_once, "outlast-packer", initializer=lower_priority) as pool:
            under_way: deque[tuple[_Batch, Future[dict[str, Copy]]]] = deque()
            for batch in batches:
                under_way.append((batch, pool.submit(self._write, buffer, batch, limits)))
                if len(under_way) == at_once:
                    oldest, copies = under_way.popleft()
                    yield oldest, copies.result()
            if during_last is not None:
                during_last()
            for oldest, copies in under_way:
                yield oldest, copies.result()

    def _write(
        self, buffer: StagingBuffer, batch: _Batch, limits: Callable[[], Limits]
    ) -> dict[str, Copy]:
        """Write one pack; returns where each of its chunks is."""
        pack = f"{PACKS}{self._attempt:06d}-{uuid.uuid4().hex}.pack"
        copies: dict[str, Copy] = {}
        offset = 0
        runs: list[Span] = []
        for digest, span in batch:
            copies[digest] = Copy(pack=pack, offset=offset)
            # Complete blocks go straight from memory to disk; the padding is part of the buffer.
            padded = Span(start=span.start, length=round_up(span.length, BLOCK_BYTES))
            offset += padded.length
            if runs and runs[-1].end == padded.start:
                runs[-1] = Span(start=runs[-1].start, length=padded.end - runs[-1].start)
            else:
                runs.append(padded)
        self._unclaimed.append(pack)
        self._sizes[pack] = offset
        # The name is unique: if it exists, a server stored our bytes but reported a failure.
        with contextlib.suppress(AlreadyExists):
            self._store.create(pack, [buffer.view(run) for run in runs], limits=limits())
        return copies


def _pack_sizes(first: int | None) -> Iterator[int]:
    """How many bytes each pack may have: the first ones fewer if there is a `first` size."""
    size = PACK_BYTES_MAX if first is None else first
    while size < PACK_BYTES_MAX:
        yield size
        size *= 2
    yield from repeat(PACK_BYTES_MAX)


def _batches(
    chunks: Iterable[tuple[str, Span]], sizes: Iterator[int], *, end_of_all: float = math.inf
) -> Iterator[_Batch]:
    """The chunks in batches, each for a pack of at most the next of these sizes.

    With `end_of_all`, they are in the order of their places, and a pack takes what is left if that
    is little: a store would otherwise be asked for one more object, alone, at the end.
    """
    batch: _Batch = []
    size, size_max = 0, next(sizes)
    for digest, span in chunks:
        length = round_up(span.length, BLOCK_BYTES)
        left = end_of_all - span.start
        is_last = size + left <= _LAST_PACK_SHARE_MAX * size_max
        if batch and size + length > size_max and not is_last:
            yield batch
            batch, size, size_max = [], 0, next(sizes)
        batch.append((digest, span))
        size += length
    if batch:
        yield batch


def _one_ahead(batches: Iterator[_Batch], pool: ThreadPoolExecutor) -> Iterator[_Batch]:
    """The batches, each computed by the pool while the previous one is being used."""
    coming = pool.submit(next, batches, None)
    while (batch := coming.result()) is not None:
        coming = pool.submit(next, batches, None)
        yield batch
