"""Find the newest checkpoint that verifies, and fill the state from it."""

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from outlast._base.garbage_collection import no_garbage_collection
from outlast._base.logs import get_logger
from outlast.checkpoint.errors import (
    CheckpointCorrupt,
    CheckpointError,
    NothingVerifies,
    StateMismatch,
)
from outlast.checkpoint.format.manifest import CheckpointManifest, Chunk, Copy
from outlast.checkpoint.format.root import AnyManifest
from outlast.checkpoint.restoring.binding import Binding, PartNotLoaded, bind
from outlast.checkpoint.restoring.comparison import check_restored
from outlast.checkpoint.restoring.loading import Loaded, load
from outlast.checkpoint.restoring.parts import SavedParts, Target, load_parts
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.checkpoint.state.nodes import TREE_VERSION
from outlast.checkpoint.state.tree import Tree
from outlast.errors import OutlastError
from outlast.storage import NotFound, Store

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumption:
    """What was resumed from, and which newer checkpoints were skipped, each with the reason.

    `chunks` are those that this rank has read, with only the copies that are intact. `is_recut`:
    another number of ranks has saved the checkpoint.
    """

    manifest: AnyManifest
    chunks: tuple[Chunk, ...]
    seconds: float
    passed_over: tuple[tuple[str, str], ...]
    is_recut: bool = False


class StateFiller:
    """Fills the state of one of `size` ranks from checkpoints.

    `is_elastic`: another number of ranks may have saved a checkpoint. What a rank saved for itself
    then comes from any one rank.
    """

    def __init__(
        self,
        store: Store,
        state: object,
        *,
        fresh: Tree | None = None,
        may_pickle: Collection[str] = (),
        compares: bool = True,
        rank: int = 0,
        size: int = 1,
        is_elastic: bool = False,
    ) -> None:
        self._store = store
        self._state = state
        self._fresh = fresh
        self._may_pickle = may_pickle
        self._compares = compares
        self._rank = rank
        self._size = size
        self._is_elastic = is_elastic

    def fill(self, checkpoint: AnyManifest) -> tuple[Chunk, ...]:
        """Fill the state; returns the chunks that were read, with the copies that are intact.

        Raises `StateMismatch` before a byte is copied, unless only a part that loads itself can
        tell, `RestoreMismatch` if the restored state is not what was saved, and `CheckpointCorrupt`
        if the checkpoint cannot be read. After the last two, and what a part has raised, the state
        may be partly filled and must not be used.
        """
        parts = SavedParts(self._store, checkpoint)
        manifest = parts.part(self._source(parts))
        what = f"The checkpoint of step {manifest.step} in {self._store.url}"
        if parts.count != self._size and not self._is_elastic:
            raise self._other_size(manifest, parts.count, what)
        with no_garbage_collection():
            binding = bind(
                manifest.root,
                manifest.leaves,
                self._state,
                what=what,
                fresh=self._fresh,
                may_pickle=self._may_pickle,
                tree_version=manifest.tree_version,
            )
        loaded = self._load(parts, manifest, binding)
        _finish(binding, what)
        # A tree of an earlier version lacks what is compared here.
        if self._compares and manifest.tree_version >= TREE_VERSION:
            verified = binding.targets if binding.runs_known_code else None
            with no_garbage_collection():
                check_restored(
                    manifest,
                    loaded.pieces,
                    self._state,
                    verified=verified,
                    what=what,
                    may_pickle=self._may_pickle,
                )
        return _intact(manifest.chunks, loaded.bad)

    def _source(self, parts: SavedParts) -> int:
        """The rank whose part has what is not divided."""
        return self._rank % parts.count

    def _load(self, parts: SavedParts, manifest: CheckpointManifest, binding: Binding) -> Loaded:
        is_divided = any(shard is not None for held in binding.shards for shard in held)
        if manifest.rank is None and not is_divided:
            return load(self._store, manifest, binding.targets)
        targets = [
            [
                Target(memory=memory)
                if local is None
                else Target(memory=memory, shard=local.shard, shape=local.shape)
                for memory, local in zip(*held, strict=True)
            ]
            for held in zip(binding.targets, binding.shards, strict=True)
        ]
        return load_parts(self._store, parts, self._source(parts), targets)

    def _other_size(self, manifest: CheckpointManifest, count: int, what: str) -> StateMismatch:
        own = [
            f"{leaf.path}: it belongs to a single rank"
            for leaf in manifest.leaves
            if leaf.shard is None
        ]
        return StateMismatch(
            f"{what} was saved by {count} {'rank' if count == 1 else 'ranks'}, but "
            f"{self._size} {'resumes' if self._size == 1 else 'resume'} it. The state of single "
            "ranks, such as random generators and the position in the data, cannot be divided "
            "again. Run with the same number of ranks, or pass elastic=True to continue without "
            "the same bits:",
            differences=tuple(own),
        )


def resume_newest(store: Store, filler: StateFiller) -> Resumption | None:
    """Fill the state from the newest checkpoint that verifies; None if there is none at all.

    Raises like `StateFiller.fill`, and `NothingVerifies` if there are checkpoints but none can be
    read back.
    """
    began = time.monotonic()
    skipped = SkippedCheckpoints(store)
    while (name := skipped.next_name()) is not None:
        try:
            found = resume_from(read_manifest(store, name), filler)
        except (CheckpointCorrupt, NotFound) as error:
            skipped.add(name, error)
            continue
        return replace(found, seconds=time.monotonic() - began, passed_over=skipped.reasons)
    skipped.raise_if_any()
    return None


def resume_from(manifest: AnyManifest, filler: StateFiller) -> Resumption:
    """Fill the state of a single process. Raises like `StateFiller.fill`."""
    began = time.monotonic()
    chunks = filler.fill(manifest)
    return Resumption(
        manifest=manifest,
        chunks=chunks,
        seconds=time.monotonic() - began,
        passed_over=(),
        is_recut=manifest.world_size != 1,
    )


class SkippedCheckpoints:
    """The checkpoints that could not be read, newest first, each with the reason."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._reasons: list[tuple[str, str]] = []
        self._hints: set[str | None] = set()

    @property
    def reasons(self) -> tuple[tuple[str, str], ...]:
        return tuple(self._reasons)

    def next_name(self) -> str | None:
        """The newest checkpoint not tried yet.

        Listed afresh: an attempt that is still alive may have put a newer one in the place of
        another.
        """
        tried = {name for name, _ in self._reasons}
        return next((name for name in manifest_names(self._store) if name not in tried), None)

    def add(self, name: str, error: OutlastError) -> None:
        self._reasons.append((name, str(error)))
        self._hints.add(error.hint)
        log.error("Skipped the checkpoint %s: %s", name, error)

    def raise_if_any(self) -> None:
        """Raise `NothingVerifies` if there were checkpoints at all."""
        if self._reasons:
            raise NothingVerifies(
                f"None of the {len(self._reasons)} checkpoints in {self._store.url} can be read "
                "back. " + " ".join(reason for _, reason in self._reasons[:3]),
                # One reason for all, such as a key that is missing, has one remedy.
                hint=(self._hints.pop() if len(self._hints) == 1 else None)
                or "Restore the files, or start over under another URL.",
            )


def _finish(binding: Binding, what: str) -> None:
    """Hand the restored parts to the objects that load them, which may raise anything."""
    try:
        binding.finish()
    except Exception as error:
        cause, where = error, "the state"
        if isinstance(error, PartNotLoaded) and isinstance(error.__cause__, Exception):
            cause, where = error.__cause__, error.path
        if isinstance(cause, StateMismatch):
            # It says what differs.
            raise cause from None
        raise CheckpointError(
            f"{what} could not be loaded into {where}: {type(cause).__name__}: {cause}",
            hint="The state is incomplete: restart the program. Check that the same kind of object "
            "is there, and that its load_state_dict accepts what its state_dict returned.",
        ) from cause


def _intact(chunks: Sequence[Chunk], bad: Collection[Copy]) -> tuple[Chunk, ...]:
    if not bad:
        return tuple(chunks)
    return tuple(
        replace(chunk, copies=tuple(copy for copy in chunk.copies if copy not in bad))
        for chunk in chunks
    )
