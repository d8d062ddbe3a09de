"""Inspect the checkpoints of a run: list, verify, compare, export. Changes nothing."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError
from outlast.checkpoint.format.dtype_sizes import item_bytes
from outlast.checkpoint.format.envelope import digest_of
from outlast.checkpoint.format.layout import Span
from outlast.checkpoint.format.manifest import CheckpointManifest, Chunk, SavedLeaf, order_of
from outlast.checkpoint.format.root import AnyManifest
from outlast.checkpoint.restoring.chunk_reading import verified
from outlast.checkpoint.restoring.parts import (
    SavedParts,
    Target,
    load_parts,
    verify_checkpoint,
)
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.checkpoint.state.library import Bytes
from outlast.storage import NotFound, Store

_STATE = "state."


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointSummary:
    """A checkpoint as a listing shows it. `problems` is None where nothing was verified."""

    name: str
    step: int | None = None
    attempt: int | None = None
    created: datetime | None = None
    size_bytes: int = 0
    new_bytes: int = 0
    problems: tuple[str, ...] | None = None


def summaries(
    store: Store, *, reads_all: bool, on_bytes: Callable[[int], object] = lambda _: None
) -> Iterator[CheckpointSummary]:
    """The checkpoints, newest first. A manifest that cannot be read is always a problem."""
    for name in manifest_names(store):
        try:
            manifest = read_manifest(store, name)
        except NotFound:
            continue
        except CheckpointCorrupt as error:
            yield CheckpointSummary(name=name, problems=(str(error),))
            continue
        yield CheckpointSummary(
            name=name,
            step=manifest.step,
            attempt=manifest.attempt,
            created=manifest.created,
            size_bytes=manifest.size_bytes,
            new_bytes=manifest.new_bytes,
            problems=tuple(verify_checkpoint(store, manifest, on_bytes)) if reads_all else None,
        )


def find(store: Store, step: int) -> AnyManifest:
    """The newest checkpoint of this step. Raises `CheckpointError` with the steps there are.

    Raises `CheckpointCorrupt` if it cannot be read: what an older attempt saved of the same step is
    not what was asked for.
    """
    steps = {
        order[1]: name for name in reversed(manifest_names(store)) if (order := order_of(name))
    }
    if step in steps:
        return read_manifest(store, steps[step])
    raise CheckpointError(
        f"There is no checkpoint of step {step} in {store.url}.",
        hint=f"Available steps: {', '.join(map(str, sorted(steps))) or 'none'}.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckpointDifference:
    """How the arrays of two checkpoints differ."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    same: int


def compare(
    store: Store,
    before: AnyManifest,
    after: AnyManifest,
) -> CheckpointDifference:
    """Which arrays differ, by their hashes; only small arrays are read.

    Raises `CheckpointError` if their keys differ: then equal arrays have different hashes.
    """
    if before.hashing != after.hashing:
        raise CheckpointError(
            f"{before.name!r} and {after.name!r} were signed with different keys, so their hashes "
            "cannot be compared.",
            hint="Export both with --export and compare the files.",
        )
    old, new = _all_hashes_of(store, before), _all_hashes_of(store, after)
    shared = old.keys() & new.keys()
    changed = sorted(path for path in shared if old[path] != new[path])
    return CheckpointDifference(
        changed=tuple(changed),
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        same=len(shared) - len(changed),
    )


def arrays_of(
    store: Store, checkpoint: AnyManifest
) -> dict[str, tuple[str, tuple[int, ...], Bytes]]:
    """The user's arrays by path: dtype, shape and verified bytes.

    Of several ranks, divided arrays are put together, and the rest is that of rank 0.
    Raises `CheckpointError` if two arrays have one path, or if they do not fit into memory.
    """
    parts = SavedParts(store, checkpoint)
    manifest = parts.part(0)
    _check_paths(manifest)
    sizes = [_array_bytes(leaf) for leaf in manifest.leaves]
    try:
        # Zeros, so that a byte that is never filled reveals nothing of this process.
        targets = [[Target(memory=np.zeros(size, np.uint8))] for size in sizes]
    except MemoryError as error:
        raise CheckpointError(
            f"The arrays of {checkpoint.name!r} do not fit into memory: "
            f"they take {sum(sizes):,} bytes."
        ) from error
    load_parts(store, parts, 0, targets)
    return {
        leaf.path.removeprefix(_STATE): (leaf.dtype, leaf.kind[2], target.memory)
        for leaf, (target,) in zip(manifest.leaves, targets, strict=True)
        if leaf.path.startswith(_STATE)
    }


def _array_bytes(leaf: SavedLeaf) -> int:
    return math.prod(leaf.kind[2]) * item_bytes(leaf.library, leaf.dtype)


def _all_hashes_of(store: Store, checkpoint: AnyManifest) -> dict[str, object]:
    """Something for each of the user's arrays that is equal where the array is, on all ranks."""
    parts = SavedParts(store, checkpoint)
    found = [_hashes_of(store, parts.part(rank)) for rank in range(parts.count)]
    return {path: [one.get(path) for one in found] for one in found for path in one}


def _check_paths(manifest: CheckpointManifest) -> None:
    """Keys with dots can give two arrays one path: then neither can be named without the other."""
    seen: set[str] = set()
    for leaf in manifest.leaves:
        if leaf.path in seen:
            raise CheckpointError(
                f"Two arrays of {manifest.name!r} have the path {leaf.path!r}.",
                hint="Rename a key of the state: one with a dot reads like a nested one.",
            )
        seen.add(leaf.path)


def _hashes_of(store: Store, manifest: CheckpointManifest) -> dict[str, object]:
    """Something for each of the user's arrays that is equal where the array is."""
    _check_paths(manifest)
    ordered = sorted(manifest.chunks, key=lambda chunk: chunk.span.start)
    ends = [chunk.span.end for chunk in ordered]
    hashes: dict[str, object] = {}
    small: dict[int, Bytes] = {}
    for leaf, place in zip(manifest.leaves, manifest.places, strict=True):
        if not leaf.path.startswith(_STATE):
            continue
        described = (leaf.dtype, leaf.shape, leaf.shard)
        chunks = _overlapping(ordered, ends, place)
        if len(chunks) == 1 and chunks[0].span.length > place.length:
            chunk = chunks[0]
            if chunk.span.start not in small:
                memory = np.empty(chunk.span.length, np.uint8)
                small[chunk.span.start] = verified(store, manifest, chunk, memory)
            at = place.start - chunk.span.start
            data = small[chunk.span.start][at : at + place.length]
            hashes[leaf.path.removeprefix(_STATE)] = (described, digest_of(data))
        else:
            digests = tuple(chunk.digest for chunk in chunks)
            hashes[leaf.path.removeprefix(_STATE)] = (described, digests)
    return hashes


def _overlapping(ordered: Sequence[Chunk], ends: Sequence[int], place: Span) -> list[Chunk]:
    """The chunks that hold bytes of a place. Chunks do not overlap, so their ends are in order."""
    if not place.length:
        return []
    first = last = bisect_right(ends, place.start)
    while last < len(ordered) and ordered[last].span.start < place.end:
        last += 1
    return list(ordered[first:last])
