"""Read the bytes of a checkpoint that several ranks have saved, for one rank of any world.

What a rank saved for itself comes from its own part. An array that was divided among the ranks is
put together from the parts that have some of it, so that the number of ranks may change. Which ones
these are is not known, so the likely ones are read first, and none after the last that is needed.
As always, no byte is used before its chunk has verified.
"""

import math
import threading
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format.boxes import Run, box_runs, common_runs, flat_runs, overlap
from outlast.checkpoint.format.dtype_sizes import item_bytes
from outlast.checkpoint.format.manifest import CheckpointManifest, Chunk, Copy, SavedLeaf
from outlast.checkpoint.format.root import AnyManifest, read_part
from outlast.checkpoint.restoring.chunk_reading import WantedChunk, read_chunks, verify
from outlast.checkpoint.restoring.loading import Loaded, Piece
from outlast.checkpoint.state.division import SHARE_BYTES_MIN
from outlast.checkpoint.state.library import Bytes
from outlast.checkpoint.state.shards import Shard
from outlast.storage import Store


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """Memory for an array, or for the `shard` of it that is on this rank."""

    memory: Bytes
    shard: Shard | None = None
    shape: tuple[int, ...] = ()
    """The shape of a shard's own part."""


class SavedParts:
    """The parts of a checkpoint, each read once, when it is needed."""

    def __init__(self, store: Store, checkpoint: AnyManifest) -> None:
        self._store = store
        self._checkpoint = checkpoint
        self._parts: dict[int, CheckpointManifest] = {}

    @property
    def count(self) -> int:
        return self._checkpoint.world_size

    def part(self, rank: int) -> CheckpointManifest:
        """What this rank has saved. Raises `CheckpointCorrupt`."""
        if isinstance(self._checkpoint, CheckpointManifest):
            return self._checkpoint
        if rank not in self._parts:
            self._parts[rank] = read_part(self._store, self._checkpoint, rank)
        return self._parts[rank]


def load_parts(
    store: Store, parts: SavedParts, rank: int, targets: Sequence[Sequence[Target]]
) -> Loaded:
    """Fill `targets[i]` with the bytes of leaf i of the part of `rank`.

    Raises `CheckpointCorrupt` if the parts do not have every byte exactly once, or if no copy of a
    chunk verifies. If it raises or is killed: the targets are partly filled and must not be used.
    """
    plan = _CopyPlan(parts, rank)
    for index, held in enumerate(targets):
        plan.add(index, held)
    return plan.run(store)


def verify_checkpoint(
    store: Store,
    checkpoint: AnyManifest,
    on_chunk: Callable[[int], object] = lambda _: None,
) -> list[str]:
    """Read every byte of every copy, of all parts; returns the problems."""
    parts = SavedParts(store, checkpoint)
    problems: list[str] = []
    for rank in range(parts.count):
        try:
            part = parts.part(rank)
        except CheckpointCorrupt as error:
            problems.append(str(error))
        else:
            problems += verify(store, part, on_chunk)
    return problems


@dataclass(frozen=True, slots=True)
class _Segment:
    """Bytes of a part's image that belong to an array: where they are in both."""

    start: int
    length: int
    leaf: int
    memory: Bytes
    at: int
    is_first: bool

    def cut(self, start: int, end: int) -> "_Segment":
        first = max(start, self.start)
        return replace(
            self,
            start=first,
            length=min(end, self.start + self.length) - first,
            at=self.at + first - self.start,
        )


class _CopyPlan:
    """Which bytes of which part go where."""

    def __init__(self, parts: SavedParts, rank: int) -> None:
        self._parts = parts
        self._rank = rank
        self._own = parts.part(rank)
        self._indices: dict[int, dict[tuple[str, int], int]] = {}
        self._keys = _keys(self._own.leaves)
        self._items = [item_bytes(leaf.library, leaf.dtype) for leaf in self._own.leaves]
        # Where each of the arrays that are equal on all ranks begins among all of them.
        self._shared_at: list[int] = []
        self._shared_bytes = 0
        for leaf, item in zip(self._own.leaves, self._items, strict=True):
            self._shared_at.append(self._shared_bytes)
            if leaf.shard is not None and leaf.shard.is_flat:
                self._shared_bytes += leaf.shard.elements * item
        self._segments: dict[int, list[_Segment]] = defaultdict(list)
        self._pieces: dict[int, list[Piece]] = {}
        self._lock = threading.Lock()

    def add(self, index: int, targets: Sequence[Target]) -> None:
        """Plan to fill the targets of one leaf."""
        self._pieces[index] = []
        leaf = self._own.leaves[index]
        item = self._items[index]
        for number, target in enumerate(targets):
            wanted = _target_runs(target, leaf)
            missing = sum(run.length for run in wanted)
            if missing * item != len(target.memory):
                raise self._corrupt(leaf, f"has another size than the {len(target.memory)} bytes")
            sources: list[list[Run]] = []
            for rank, place, source in self._sources(index, leaf, wanted):
                sources.append(source)
                for run in common_runs(source, wanted):
                    missing -= run.length
                    self._segments[rank].append(
                        _Segment(
                            place + run.source * item,
                            run.length * item,
                            index,
                            target.memory,
                            run.target * item,
                            is_first=number == 0,
                        )
                    )
                if missing == 0:
                    # The rest is somewhere else: that no part overlaps was checked at the commit.
                    break
            if missing or overlap(sources):
                raise self._corrupt(leaf, "does not have every element exactly once")

    def run(self, store: Store) -> Loaded:
        bad: set[Copy] = set()
        wanted = [self._wanted(*job) for rank in sorted(self._segments) for job in self._jobs(rank)]
        read_chunks(store, wanted, bad)
        return Loaded(bad=bad, pieces=self._pieces)

    def _wanted(
        self, manifest: CheckpointManifest, chunk: Chunk, segments: list[_Segment]
    ) -> WantedChunk:
        only = segments[0]
        if len(segments) == 1 and only.length == chunk.span.length:
            return WantedChunk(
                manifest=manifest,
                chunk=chunk,
                use=lambda _: self._note(only, chunk.digest),
                place=only.memory[only.at : only.at + only.length],
            )

        def copy(data: Bytes) -> None:
            for segment in segments:
                first = segment.start - chunk.span.start
                part = data[first : first + segment.length]
                np.copyto(segment.memory[segment.at : segment.at + segment.length], part)
                if segment.is_first:
                    is_chunk = segment.length == chunk.span.length
                    digest = chunk.digest if is_chunk else manifest.hashing.digest(part)
                    self._note(segment, digest)

        return WantedChunk(manifest=manifest, chunk=chunk, use=copy)

    def _note(self, segment: _Segment, digest: str) -> None:
        if segment.is_first:
            piece = Piece(start=segment.at, length=segment.length, digest=digest)
            with self._lock:
                self._pieces[segment.leaf].append(piece)

    def _jobs(self, rank: int) -> Iterator[tuple[CheckpointManifest, Chunk, list[_Segment]]]:
        """The chunks of a part that are needed, with what is needed of each."""
        manifest = self._parts.part(rank)
        chunks = sorted(manifest.chunks, key=lambda chunk: chunk.span.start)
        starts = [chunk.span.start for chunk in chunks]
        needed: dict[int, list[_Segment]] = defaultdict(list)
        for segment in self._segments[rank]:
            end = segment.start + segment.length
            covered = segment.start
            number = max(0, bisect_right(starts, segment.start) - 1)
            while number < len(chunks) and starts[number] <= covered < end:
                span = chunks[number].span
                if span.end > covered:
                    needed[number].append(segment.cut(covered, span.end))
                    covered = min(end, span.end)
                number += 1
            if covered < end:
                raise CheckpointCorrupt(f"{manifest.name!r}: some of its bytes are in no chunk.")
        for number in sorted(needed):
            yield manifest, chunks[number], needed[number]

    def _sources(
        self, index: int, leaf: SavedLeaf, wanted: Sequence[Run]
    ) -> Iterator[tuple[int, int, list[Run]]]:
        """The parts of an array: who has each, where it begins in the image, and its runs."""
        if leaf.shard is None:
            yield self._rank, self._own.places[index].start, flat_runs(0, _elements(leaf))
            return
        for rank in self._ranks_to_ask(index, leaf.shard, wanted):
            part = self._parts.part(rank)
            found = self._index_in(rank, part).get(self._keys[index])
            if found is None:
                raise self._corrupt(leaf, f"is not in the part of rank {rank}")
            other = part.leaves[found]
            if other.kind != leaf.kind or other.shard is None:
                raise self._corrupt(leaf, f"is not the same array in the part of rank {rank}")
            yield rank, part.places[found].start, _runs(other.shard, other.shape)

    def _ranks_to_ask(self, index: int, shard: Shard, wanted: Sequence[Run]) -> Iterator[int]:
        """All ranks, those first that are likely to have what is wanted."""
        yield self._rank
        count = self._parts.count
        first = wanted[0].start if wanted else 0
        if shard.is_flat:
            share = max(self._shared_bytes / count, SHARE_BYTES_MIN)
            guess = int((self._shared_at[index] + first * self._items[index]) / share)
            likely: Iterable[int] = (guess,)
        else:
            # If several groups of ranks have copies, the first group has saved them.
            groups = (n for n in range(count, 0, -1) if count % n == 0)
            guess = first * count // max(1, shard.elements)
            likely = (*self._indices, guess, *(self._rank % n for n in groups))
        guess = min(guess, count - 1)
        asked = {self._rank}
        for rank in (*likely, *range(guess, count), *range(guess)):
            if rank not in asked and rank < count:
                asked.add(rank)
                yield rank

    def _index_in(self, rank: int, part: CheckpointManifest) -> dict[tuple[str, int], int]:
        if rank not in self._indices:
            keys = _keys(part.leaves)
            self._indices[rank] = {key: index for index, key in enumerate(keys)}
        return self._indices[rank]

    def _corrupt(self, leaf: SavedLeaf, what: str) -> CheckpointCorrupt:
        return CheckpointCorrupt(f"{self._own.name!r}: the array {leaf.path!r} {what}.")


def _keys(leaves: Sequence[SavedLeaf]) -> list[tuple[str, int]]:
    """A name for each leaf that is the same in every part. Two leaves may have one path."""
    seen: Counter[str] = Counter()
    keys: list[tuple[str, int]] = []
    for leaf in leaves:
        keys.append((leaf.path, seen[leaf.path]))
        seen[leaf.path] += 1
    return keys


def _runs(shard: Shard, shape: tuple[int, ...]) -> list[Run]:
    if shard.is_flat:
        return flat_runs(shard.offsets[0], shape[0])
    return box_runs(shard.global_shape, shard.offsets, shape)


def _target_runs(target: Target, leaf: SavedLeaf) -> list[Run]:
    if target.shard is None:
        return flat_runs(0, _elements(leaf))
    return _runs(target.shard, target.shape)


def _elements(leaf: SavedLeaf) -> int:
    return math.prod(leaf.kind[2])
