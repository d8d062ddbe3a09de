"""Write a staged image: hash its chunks, leave out what the store already holds, pack the rest.

Runs in the background, at low priority. If killed: packs without a manifest, which nobody reads and
the next garbage collection removes.
"""

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeAlias

from outlast.checkpoint.format import PACKS, Chunk, Copy, digest_of
from outlast.checkpoint.layout import BLOCK_BYTES, Span, round_up
from outlast.checkpoint.priority import lower_priority
from outlast.checkpoint.staging import Stage
from outlast.storage import AlreadyExists, Limits, StorageError, Store

# Large enough to be few, and small enough that one is written within the limits of a slow network.
PACK_BYTES_MAX = 256 * 1024**2

_Batch: TypeAlias = list[tuple[str, Span]]
"""Chunks of one pack: the digest and the place of each."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Packed:
    """The chunks of an image, each with its copies, and how many bytes were written for them."""

    chunks: tuple[Chunk, ...]
    new_bytes: int


class Packer:
    """Knows which chunks the store holds, and writes the others."""

    def __init__(self, store: Store, attempt: int) -> None:
        self._store = store
        self._attempt = attempt
        self._known: dict[str, Chunk] = {}
        self._unclaimed: list[str] = []

    def learn(self, chunks: Sequence[Chunk]) -> None:
        """Take these chunks, of a committed checkpoint, as all that the store holds."""
        self._known = {chunk.digest: chunk for chunk in chunks}
        self._unclaimed.clear()

    def discard(self) -> None:
        """Remove what was written since the last commit: no checkpoint will name it."""
        unclaimed, self._unclaimed = self._unclaimed, []
        # What cannot be removed now goes with the next garbage collection.
        with contextlib.suppress(StorageError):
            self._store.delete(unclaimed)

    def pack(self, stage: Stage, spans: Sequence[Span], *, limits: Callable[[], Limits]) -> Packed:
        """Write what is new among these spans of the stage. `limits` is asked before each write.

        While one pack is being written, the chunks of the next are hashed.
        """
        digests: list[str] = []
        missing = self._missing(stage, spans, digests)
        written: dict[str, Copy] = {}
        new_bytes = 0
        with ThreadPoolExecutor(1, "outlast-hasher", initializer=lower_priority) as pool:
            for batch in _one_ahead(_batches(missing), pool):
                written |= self._write(stage, batch, limits())
                new_bytes += sum(span.length for _, span in batch)
        chunks = tuple(
            Chunk(span=span, digest=digest, copies=self._copies(digest, written))
            for span, digest in zip(spans, digests, strict=True)
        )
        return Packed(chunks=chunks, new_bytes=new_bytes)

    def mirror(
        self,
        stage: Stage,
        chunks: Sequence[Chunk],
        *,
        limits: Callable[[], Limits],
        stop: Callable[[], bool],
    ) -> tuple[Chunk, ...]:
        """Write second copies of those chunks that are older than this image and have one only.

        Otherwise one flipped byte in a frozen layer would spoil every checkpoint that shares it.
        `stop` is asked before each pack.
        """
        single = {
            c.digest: c.span for c in chunks if len(c.copies) == 1 and c.digest in self._known
        }
        written: dict[str, Copy] = {}
        for batch in _batches(single.items()):
            if stop():
                break
            written |= self._write(stage, batch, limits())
        return tuple(
            Chunk(span=c.span, digest=c.digest, copies=(*c.copies, written[c.digest]))
            if c.digest in written
            else c
            for c in chunks
        )

    def _copies(self, digest: str, written: dict[str, Copy]) -> tuple[Copy, ...]:
        known = self._known.get(digest)
        return known.copies if known is not None else (written[digest],)

    def _missing(
        self, stage: Stage, spans: Sequence[Span], digests: list[str]
    ) -> Iterator[tuple[str, Span]]:
        """Hash span by span, into `digests`, and give those that the store does not hold, once."""
        seen: set[str] = set()
        for span in spans:
            digest = digest_of(stage.view(span))
            digests.append(digest)
            if digest not in self._known and digest not in seen:
                seen.add(digest)
                yield digest, span

    def _write(self, stage: Stage, batch: _Batch, limits: Limits) -> dict[str, Copy]:
        """Write one pack; where each of its chunks lies."""
        pack = f"{PACKS}{self._attempt:06d}-{uuid.uuid4().hex}.pack"
        copies: dict[str, Copy] = {}
        offset = 0
        runs: list[Span] = []
        for digest, span in batch:
            copies[digest] = Copy(pack=pack, offset=offset)
            # Whole blocks go straight from memory to the disk; the gap belongs to the stage.
            padded = Span(start=span.start, length=round_up(span.length, BLOCK_BYTES))
            offset += padded.length
            if runs and runs[-1].end == padded.start:
                runs[-1] = Span(start=runs[-1].start, length=padded.end - runs[-1].start)
            else:
                runs.append(padded)
        self._unclaimed.append(pack)
        # Nobody else has this name: if it is taken, a server kept our bytes but answered otherwise.
        with contextlib.suppress(AlreadyExists):
            self._store.create(pack, [stage.view(run) for run in runs], limits=limits)
        return copies


def _batches(chunks: Iterable[tuple[str, Span]]) -> Iterator[_Batch]:
    """The chunks in batches that make packs of a bounded size."""
    batch: _Batch = []
    size = 0
    for digest, span in chunks:
        length = round_up(span.length, BLOCK_BYTES)
        if batch and size + length > PACK_BYTES_MAX:
            yield batch
            batch, size = [], 0
        batch.append((digest, span))
        size += length
    if batch:
        yield batch


def _one_ahead(batches: Iterator[_Batch], pool: ThreadPoolExecutor) -> Iterator[_Batch]:
    """The batches, each found by the pool while the one before is being used."""
    coming = pool.submit(next, batches, None)
    while (batch := coming.result()) is not None:
        coming = pool.submit(next, batches, None)
        yield batch
