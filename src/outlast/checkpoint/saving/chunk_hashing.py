"""Hash the chunks of a staged state, in a thread at low priority, and choose those to write.

Hashing leads and writing follows: the store gets no chunk that it already has. Where a chunk was
new in the last save, it is expected to be new again and is hashed while it is being written, so
that the disk does not wait for a processor. A wrong guess costs a write, never a wrong byte: what a
checkpoint refers to is always decided by the hashes.
"""

from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, repeat
from typing import TypeAlias

from outlast.checkpoint.format.keys import Hashing
from outlast.checkpoint.format.layout import BLOCK_BYTES, CHUNK_BYTES, Span, round_up
from outlast.checkpoint.saving.staging import StagingBuffer
from outlast.checkpoint.threads import ensure_room_for_thread, lower_priority

# Of the chunks that are expected to be new, one in 16 is hashed first, to see whether it is.
_GUESSES_PER_CHECK = 16

Batch: TypeAlias = list[Span]
"""The chunks of one pack."""


class ChunkHasher:
    """Hashes the chunks of one save, which may still be copied meanwhile.

    `known` are the digests that the store has, and `guessed` the chunks expected not to be among
    them.
    """

    def __init__(
        self,
        buffer: StagingBuffer,
        hashing: Hashing,
        *,
        known: Container[str],
        guessed: Container[Span] = (),
    ) -> None:
        self._buffer = buffer
        self._hashing = hashing
        self._known = known
        self._guessed = guessed
        self._digests: dict[int, str] = {}

    def digest_of(self, span: Span) -> str:
        """The digest of a chunk, after all batches."""
        return self._digests[span.start]

    def batches(self, spans: Sequence[Span], sizes: Iterator[int]) -> Generator[Batch, None, None]:
        """The chunks to write, for packs of at most these sizes.

        While one is being used, the next one is prepared. Raises `CopyFailed` if a copy fails. To
        be closed: only then does nothing read the buffer anymore.
        """
        ensure_room_for_thread()
        with ThreadPoolExecutor(1, "outlast-hasher", initializer=lower_priority) as pool:
            found = batched(self._missing(spans), sizes)
            late: list[Future[None]] = []
            coming = pool.submit(next, found, None)
            while (batch := coming.result()) is not None:
                coming = pool.submit(next, found, None)
                late.append(pool.submit(self._hash_rest, batch))
                yield batch
            for future in late:
                future.result()

    def _missing(self, spans: Sequence[Span]) -> Iterator[Span]:
        """Each chunk that the store does not have once, or that is expected to be such a chunk."""
        seen: set[str] = set()
        guesses = 0
        is_guessing = True
        for span in spans:
            self._buffer.wait_for(span)
            is_guessed = is_guessing and span in self._guessed
            guesses += is_guessed
            if is_guessed and guesses % _GUESSES_PER_CHECK != 1:
                yield span
                continue
            digest = self._hash(span)
            if digest not in self._known and digest not in seen:
                seen.add(digest)
                yield span
            elif is_guessed:
                is_guessing = False

    def _hash_rest(self, batch: Batch) -> None:
        for span in batch:
            if span.start not in self._digests:
                self._hash(span)

    def _hash(self, span: Span) -> str:
        digest = self._digests[span.start] = self._hashing.digest(self._buffer.view(span))
        return digest


def batched(spans: Iterable[Span], sizes: Iterator[int]) -> Iterator[Batch]:
    """The chunks in batches, each for a pack of at most the next of these sizes."""
    batch: Batch = []
    size, size_max = 0, next(sizes)
    for span in spans:
        batch.append(span)
        size += round_up(span.length, BLOCK_BYTES)
        # At once, because the next chunk may not be copied yet.
        if size + CHUNK_BYTES > size_max:
            yield batch
            batch, size, size_max = [], 0, next(sizes)
    if batch:
        yield batch


def growing(first: Iterable[int], then: int) -> Iterator[int]:
    """These sizes first, and then always the last one."""
    return chain(first, repeat(then))
