"""Commit a written state by creating its manifest, then clean up after it.

If killed: the previous checkpoint stays the newest, or the new one is complete.
"""

import math
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from outlast._base.logs import get_logger
from outlast.checkpoint.format.encoding import encode
from outlast.checkpoint.format.keys import Hashing
from outlast.checkpoint.format.manifest import CheckpointManifest, SavedLeaf
from outlast.checkpoint.format.root import AnyManifest, RootManifest
from outlast.checkpoint.runs import fence
from outlast.checkpoint.runs.catalog import COMMITTED, mark_committed
from outlast.checkpoint.saving.garbage import GarbageCollector
from outlast.checkpoint.saving.memory import is_lack_of_memory
from outlast.checkpoint.saving.packing import PackedChunks, PackWriter
from outlast.checkpoint.saving.writing import SaveLimits, StagedState, StateWriter
from outlast.checkpoint.state.shards import Shard
from outlast.checkpoint.state.tree import Leaf
from outlast.storage import AccessDenied, StorageError, Store, StoreFull, create_or_confirm

log = get_logger(__name__)

_CHECK_VALID_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class CommittedSave:
    """A checkpoint that exists, and the part of it that this process has written.

    For one process both are the same. The sizes are those of the entire checkpoint.
    """

    manifest: CheckpointManifest
    checkpoint: AnyManifest
    size_bytes: int
    new_bytes: int


_AnyManifest = TypeVar("_AnyManifest", CheckpointManifest, RootManifest)


class Committer:
    """Commits the checkpoints of one attempt, and requests garbage collection after each."""

    def __init__(
        self,
        store: Store,
        attempt: int,
        *,
        hashing: Hashing,
        run_id: str | None,
        packs: PackWriter,
        collector: GarbageCollector,
        limits: SaveLimits,
    ) -> None:
        self._store = store
        self._attempt = attempt
        self._hashing = hashing
        self._run_id = run_id
        self._packs = packs
        self._collector = collector
        self._limits = limits
        # Committed, or perhaps committed, without a check for newer attempts since.
        self._unchecked: list[AnyManifest] = []
        self._doubtful: list[AnyManifest] = []
        self._parent: str | None = None
        self._number = (-1, 0)
        self._is_marked = False
        self._checked_at = -math.inf

    def start_from(self, name: str) -> None:
        """Use the checkpoint that was resumed from as the parent of the next one."""
        self._parent = name

    def check_fence(self) -> None:
        """Raise `Fenced` if a newer attempt has started."""
        fence.check(self._store, self._attempt, limits=self._limits())

    def check_ahead(self) -> None:
        """Check for a newer attempt while the last packs are being written, which saves time.

        A newer attempt may start between any check and the commit. It resumes from what it found.
        """
        began = time.monotonic()
        self.check_fence()
        self._checked_at = began

    def commit(
        self, staged: StagedState, packed: PackedChunks, writer: StateWriter
    ) -> CommittedSave:
        """Make a written state the newest checkpoint. Raises `Fenced` if a newer attempt exists."""
        if time.monotonic() > self._checked_at + _CHECK_VALID_SECONDS:
            self.check_fence()
        manifest = self._create(
            CheckpointManifest(
                step=staged.step,
                attempt=self._attempt,
                save_id=uuid.uuid4().hex,
                parent=self._parent,
                created=datetime.now(UTC),
                root=staged.tree.root,
                leaves=tuple(saved_leaf(leaf) for leaf in staged.tree.leaves),
                places=staged.layout.places,
                chunks=packed.chunks,
                new_bytes=packed.new_bytes,
                hashing=self._hashing,
                run_id=self._run_id,
            )
        )
        return CommittedSave(
            manifest=manifest,
            checkpoint=manifest,
            size_bytes=manifest.size_bytes,
            new_bytes=manifest.new_bytes,
        )

    def clean_up(self, saved: CommittedSave, writer: StateWriter, *, in_waves: bool) -> None:
        """Write second copies and delete garbage. The checkpoint is durable even if this fails."""
        manifest = kept = saved.manifest
        self._unchecked.append(manifest)

        def mirror() -> list[str]:
            nonlocal kept
            if not in_waves:
                kept = self._unchecked[-1] = self._mirrored(manifest, writer)
            return [manifest.name] if kept is not manifest else []

        try:
            self._collect_garbage(mirror)
        finally:
            self._packs.assume_stored(kept.chunks)

    def _collect_garbage(self, replace_last: Callable[[], list[str]]) -> None:
        """Delete what is no longer needed, after replacing the last checkpoint if necessary."""
        try:
            if self._limits.hurried:
                return
            # Checked after the commit: an attempt that starts later resumes from this checkpoint,
            # and does not need anything that is deleted now.
            self.check_fence()
            self._mark()
            replaced = replace_last()
            if not self._limits.hurried:
                self._collect(replaced)
        except Exception as error:
            if not (isinstance(error, StorageError) or is_lack_of_memory(error)):
                raise
            log.warning("Old checkpoints could not be deleted: %s", error)

    def _create(self, manifest: CheckpointManifest) -> CheckpointManifest:
        """Create the manifest under a name that this attempt has not tried before."""
        manifest = self._numbered(manifest)
        try:
            create_or_confirm(self._store, manifest.name, encode(manifest), limits=self._limits())
        except (StoreFull, AccessDenied):
            raise
        except StorageError:
            # It may exist nevertheless, or still be created, and then it needs its packs.
            self._packs.claim(manifest.packs)
            self._doubtful.append(manifest)
            raise
        self._packs.claim(manifest.packs)
        self._parent = manifest.name
        return manifest

    def _numbered(self, manifest: _AnyManifest) -> _AnyManifest:
        last_step, last_number = self._number
        number = last_number + 1 if manifest.step == last_step else 0
        self._number = (manifest.step, number)
        return replace(manifest, number=number)

    def _mark(self) -> None:
        if self._is_marked:
            return
        try:
            mark_committed(self._store, limits=self._limits())
        except StorageError as error:
            log.warning("Could not write %s; the next save tries again. %s", COMMITTED, error)
        else:
            self._is_marked = True

    def _collect(self, replaced: Sequence[str]) -> None:
        self._collector.collect(
            self._unchecked,
            doubtful=self._doubtful,
            obsolete=[*replaced, *self._packs.take_unclaimed()],
        )
        self._unchecked, self._doubtful = [], []

    def _mirrored(self, manifest: CheckpointManifest, writer: StateWriter) -> CheckpointManifest:
        """Commit the checkpoint again, with second copies of what it shares with older ones.

        If killed: one or both of the two exist, and the newer one is preferred.
        """
        try:
            chunks = writer.mirror(manifest.chunks)
            if chunks == manifest.chunks:
                return manifest
            return self._create(replace(manifest, chunks=chunks, save_id=uuid.uuid4().hex))
        except StorageError as error:
            log.warning(
                "Could not write second copies for the checkpoint of step %d, which is complete "
                "without them. The next save tries again. %s",
                manifest.step,
                error,
            )
            return manifest


def saved_leaf(leaf: Leaf, shard: Shard | None = None) -> SavedLeaf:
    """A leaf as the manifest describes it. A single process has all of every array."""
    return SavedLeaf(
        path=leaf.path,
        library=leaf.library.name,
        dtype=leaf.dtype,
        shape=leaf.shape,
        nbytes=leaf.nbytes,
        shard=shard,
    )
