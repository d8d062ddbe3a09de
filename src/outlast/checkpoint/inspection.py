"""Look into the checkpoints of a run: list, verify, compare, export. Changes nothing there."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from outlast.checkpoint.arrays import Bytes
from outlast.checkpoint.catalogue import manifest_names, read_manifest
from outlast.checkpoint.errors import CheckpointCorrupt, CheckpointError
from outlast.checkpoint.format import Manifest, digest_of
from outlast.checkpoint.layout import Span
from outlast.checkpoint.loading import load, verified, verify
from outlast.storage import NotFound, Store

_STATE = "state."


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
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
) -> Iterator[Summary]:
    """The checkpoints, newest first. A manifest that cannot be read is always a problem."""
    for name in manifest_names(store):
        try:
            manifest = read_manifest(store, name)
        except NotFound:
            continue
        except CheckpointCorrupt as error:
            yield Summary(name=name, problems=(str(error),))
            continue
        yield Summary(
            name=name,
            step=manifest.step,
            attempt=manifest.attempt,
            created=manifest.created,
            size_bytes=manifest.size_bytes,
            new_bytes=manifest.new_bytes,
            problems=tuple(verify(store, manifest, on_bytes)) if reads_all else None,
        )


def find(store: Store, step: int) -> Manifest:
    """The newest checkpoint of this step. Raises `CheckpointError` with the steps there are."""
    steps = []
    for name in manifest_names(store):
        manifest = read_manifest(store, name)
        if manifest.step == step:
            return manifest
        steps.append(manifest.step)
    raise CheckpointError(
        f"There is no checkpoint of step {step} in {store.url}.",
        hint=f"There are checkpoints of the steps {', '.join(map(str, sorted(steps))) or 'none'}.",
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """What became of the arrays from one checkpoint to the other."""

    changed: tuple[str, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    same: int


def compare(store: Store, before: Manifest, after: Manifest) -> Difference:
    """Which arrays differ, by their hashes; only small arrays are read."""
    old, new = _prints(store, before), _prints(store, after)
    shared = old.keys() & new.keys()
    changed = sorted(path for path in shared if old[path] != new[path])
    return Difference(
        changed=tuple(changed),
        added=tuple(sorted(new.keys() - old.keys())),
        removed=tuple(sorted(old.keys() - new.keys())),
        same=len(shared) - len(changed),
    )


def arrays_of(store: Store, manifest: Manifest) -> dict[str, tuple[str, tuple[int, ...], Bytes]]:
    """The user's arrays by path: dtype, shape and verified bytes."""
    targets = [(np.empty(leaf.nbytes, np.uint8),) for leaf in manifest.leaves]
    load(store, manifest, targets)
    return {
        leaf.path.removeprefix(_STATE): (leaf.dtype, leaf.shape, target)
        for leaf, (target,) in zip(manifest.leaves, targets, strict=True)
        if leaf.path.startswith(_STATE)
    }


def _prints(store: Store, manifest: Manifest) -> dict[str, object]:
    """Something for each of the user's arrays that is equal where the array is."""
    prints: dict[str, object] = {}
    small: dict[int, Bytes] = {}
    for leaf, place in zip(manifest.leaves, manifest.places, strict=True):
        if not leaf.path.startswith(_STATE):
            continue
        described = (leaf.dtype, leaf.shape)
        chunks = [c for c in manifest.chunks if _overlap(c.span, place)]
        if len(chunks) == 1 and chunks[0].span.length > place.length:
            chunk = chunks[0]
            if chunk.span.start not in small:
                memory = np.empty(chunk.span.length, np.uint8)
                small[chunk.span.start] = verified(store, manifest.name, chunk, memory)
            at = place.start - chunk.span.start
            data = small[chunk.span.start][at : at + place.length]
            prints[leaf.path.removeprefix(_STATE)] = (described, digest_of(data))
        else:
            digests = tuple(chunk.digest for chunk in chunks)
            prints[leaf.path.removeprefix(_STATE)] = (described, digests)
    return prints


def _overlap(one: Span, other: Span) -> bool:
    return other.length > 0 and one.start < other.end and other.start < one.end
