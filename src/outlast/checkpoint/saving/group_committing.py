"""Commit a state that several ranks have written: the parts first, then one root by rank 0.

If killed at any moment, on any rank: without the root, the previous checkpoint stays the newest,
and packs and parts are left for garbage collection. With it, the checkpoint is complete.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import CheckpointError, Fenced
from outlast.checkpoint.format.encoding import encode
from outlast.checkpoint.format.envelope import digest_of
from outlast.checkpoint.format.manifest import CheckpointManifest
from outlast.checkpoint.format.root import PartEntry, RootManifest, encode_root
from outlast.checkpoint.ranks import RankGroup
from outlast.checkpoint.saving.committing import CommittedSave, Committer, saved_leaf
from outlast.checkpoint.saving.packing import PackedChunks
from outlast.checkpoint.saving.writing import StagedState, StateWriter
from outlast.checkpoint.state.division import DividedTree, hashes_of
from outlast.errors import OutlastError
from outlast.storage import AccessDenied, StorageError, StoreFull, create_or_confirm

log = get_logger(__name__)

_Rows: TypeAlias = list[list[Any]]
"""The path, the size and the saved elements of each divided array."""

# The replicas are compared at the first save and then at every 50th.
_COMPARED_EVERY = 50


class GroupCommitter(Committer):
    """Commits the checkpoints of one attempt together with other ranks.

    Every rank calls `begin` for the same saves in the same order.
    """

    def join(self, group: RankGroup, world_id: str) -> None:
        self._ranks = group
        self._world_id = world_id
        self._save = -1
        self._is_reported = False
        self._facts: dict[str, object] = {}
        self._equal_paths: list[str] = []
        # How many elements of each array this rank saves, and in which save it last said so.
        self._rows: _Rows = []
        self._rows_sent: tuple[_Rows, int] = ([], -1)
        self._rows_known: dict[tuple[int, int], _Rows] = {}

    @property
    def is_first(self) -> bool:
        return self._ranks.rank == 0

    def begin(self) -> None:
        """Start a save, in the loop's thread. If it cannot be finished, call `fail`."""
        self._save += 1
        self._facts = {}
        self._is_reported = False

    def describe(self, divided: DividedTree) -> None:
        """Note what is saved, while the state is consistent."""
        self._facts["layout"] = divided.layout
        if self._save % _COMPARED_EVERY == 0:
            equal = divided.equal()
            self._equal_paths = [leaf.path for leaf in equal]
            self._facts["hashes"] = hashes_of(equal)

    def fail(self, error: BaseException) -> None:
        """Let the other ranks know that this one cannot save, so that they need not wait."""
        if self._is_reported:
            return
        self._is_reported = True
        facts = {
            "error": str(error) or type(error).__name__,
            "is_full": isinstance(error, StoreFull),
        }
        try:
            self._ranks.publish(self._key("done", self._ranks.rank), facts)
        except CheckpointError as lost:
            log.warning("Could not report the failed save to the other ranks: %s", lost)

    def check_ahead(self) -> None:
        """Nothing: rank 0 checks when all ranks have written their parts."""

    def commit(
        self, staged: StagedState, packed: PackedChunks, writer: StateWriter
    ) -> CommittedSave:
        self._rows = [
            [leaf.path, leaf.shard.elements, math.prod(leaf.shape)]
            for leaf in staged.tree.leaves
            if leaf.shard is not None
        ]
        # Second copies are written now, because a part cannot be replaced once it is committed.
        chunks = packed.chunks
        if staged.wave_bytes_max is None and not self._limits.hurried:
            chunks = writer.mirror(chunks)
        part = self._part(staged, PackedChunks(chunks=chunks, new_bytes=packed.new_bytes))
        data = encode(part)
        create_or_confirm(self._store, part.name, data, limits=self._limits())
        # From now on a root may name them at any time.
        claimed = self._packs.claim(part.packs)
        try:
            self._is_reported = True
            self._ranks.publish(self._key("done", self._ranks.rank), self._done(part, data))
            self._rows_sent = (self._rows, self._rows_save)
            if self._ranks.rank == 0:
                return self._commit_root(part)
            return self._await_root(part)
        except _NotCommitted as error:
            self._packs.disclaim([*claimed, part.name])
            raise error.reason from error

    def clean_up(self, saved: CommittedSave, writer: StateWriter, *, in_waves: bool) -> None:
        """Delete garbage, on rank 0. The checkpoint is durable even if this fails."""
        self._packs.assume_stored(saved.manifest.chunks)
        if self._ranks.rank == 0:
            self._unchecked.append(saved.checkpoint)
            self._collect_garbage(list)

    def _part(self, staged: StagedState, packed: PackedChunks) -> CheckpointManifest:
        return CheckpointManifest(
            step=staged.step,
            attempt=self._attempt,
            number=self._save,
            save_id=digest_of(f"{self._world_id}/{self._attempt}/{self._save}".encode()),
            parent=None,
            created=datetime.now(UTC),
            root=staged.tree.root,
            leaves=tuple(saved_leaf(leaf, leaf.shard) for leaf in staged.tree.leaves),
            places=staged.layout.places,
            chunks=packed.chunks,
            new_bytes=packed.new_bytes,
            hashing=self._hashing,
            run_id=self._run_id,
            world_size=self._ranks.size,
            rank=self._ranks.rank,
        )

    @property
    def _rows_save(self) -> int:
        """The save whose message has the rows of this one. They rarely change."""
        rows, save = self._rows_sent
        return save if save >= 0 and rows == self._rows else self._save

    def _done(self, part: CheckpointManifest, data: bytes) -> dict[str, object]:
        is_new = self._rows_save == self._save
        return {
            **self._facts,
            "rows_in": self._rows_save,
            **({"rows": self._rows} if is_new else {}),
            "step": part.step,
            "length": len(data),
            "digest": digest_of(data),
            "packs": sorted(part.packs),
            "size_bytes": part.size_bytes,
            "new_bytes": part.new_bytes,
        }

    def _commit_root(self, part: CheckpointManifest) -> CommittedSave:
        """On rank 0: wait for all parts, and create the root unless a newer attempt has started."""
        key = self._key("commit")
        try:
            done = self._ranks.gather(self._key("done"), self._limits().total_seconds_max)
            self._check(done)
            self.check_fence()
            root = self._root(part, done)
        except (OutlastError, StorageError) as error:
            self._ranks.publish(key, _refusal(error))
            raise _NotCommitted(error) from error
        try:
            root = self._create_root(root)
        except StorageError as error:
            # It may exist nevertheless: the others must keep what they wrote for it.
            self._ranks.publish(key, {"error": str(error), "is_doubtful": True})
            raise
        self._ranks.publish(key, {"name": root.name})
        return CommittedSave(
            manifest=part, checkpoint=root, size_bytes=root.size_bytes, new_bytes=root.new_bytes
        )

    def _await_root(self, part: CheckpointManifest) -> CommittedSave:
        found = self._ranks.read(self._key("commit"), self._limits().total_seconds_max)
        if "error" in found:
            error = _as_error(found, part.step)
            if found.get("is_doubtful"):
                raise error
            raise _NotCommitted(error)
        return CommittedSave(
            manifest=part, checkpoint=part, size_bytes=part.size_bytes, new_bytes=part.new_bytes
        )

    def _root(self, part: CheckpointManifest, done: Sequence[dict[str, Any]]) -> RootManifest:
        return RootManifest(
            step=part.step,
            attempt=self._attempt,
            save=self._save,
            save_id=part.save_id,
            parent=self._parent,
            created=datetime.now(UTC),
            parts=tuple(PartEntry(length=one["length"], digest=one["digest"]) for one in done),
            data_packs=tuple(sorted({pack for one in done for pack in one["packs"]})),
            size_bytes=sum(one["size_bytes"] for one in done),
            new_bytes=sum(one["new_bytes"] for one in done),
            hashing=self._hashing,
            run_id=self._run_id,
        )

    def _create_root(self, root: RootManifest) -> RootManifest:
        root = self._numbered(root)
        try:
            create_or_confirm(self._store, root.name, encode_root(root), limits=self._limits())
        except (StoreFull, AccessDenied):
            raise
        except StorageError:
            # It may exist nevertheless, or still be created, and then it needs its packs.
            self._doubtful.append(root)
            raise
        self._parent = root.name
        return root

    def _check(self, done: Sequence[dict[str, Any]]) -> None:
        """Raise `CheckpointError` if the parts are not those of one state."""
        for rank, one in enumerate(done):
            if "error" in one:
                if one.get("is_full"):
                    raise StoreFull(f"Rank {rank} could not save: {one['error']}")
                raise CheckpointError(f"Rank {rank} could not save: {one['error']}")
        steps = {rank: one["step"] for rank, one in enumerate(done)}
        if len(set(steps.values())) > 1:
            raise CheckpointError(
                "The ranks are at different steps: "
                + ", ".join(f"rank {rank} at {step}" for rank, step in steps.items())
                + ".",
                hint="Give every rank the same number of batches, for example with "
                "DistributedSampler(drop_last=True).",
            )
        layouts = Counter(one["layout"] for one in done)
        if len(layouts) > 1:
            usual = layouts.most_common(1)[0][0]
            odd = [rank for rank, one in enumerate(done) if one["layout"] != usual]
            raise CheckpointError(
                f"The arrays that should be equal on all ranks have other names, dtypes or shapes "
                f"on rank {', '.join(map(str, odd))}.",
                hint="Build the same state on all ranks.",
            )
        _check_cover([self._rows_of(rank, one) for rank, one in enumerate(done)])
        self._compare_replicas(done)

    def _rows_of(self, rank: int, done: dict[str, Any]) -> "_Rows":
        """How many elements of each array a rank has saved. Its messages do not repeat that."""
        key = (rank, done["rows_in"])
        if "rows" in done:
            self._rows_known = {k: v for k, v in self._rows_known.items() if k[0] != rank}
            self._rows_known[key] = done["rows"]
        elif key not in self._rows_known:
            limit = self._limits().total_seconds_max
            found = self._ranks.read(f"done/{done['rows_in']}/{rank}", limit)
            self._rows_known[key] = found["rows"]
        return self._rows_known[key]

    def _compare_replicas(self, done: Sequence[dict[str, Any]]) -> None:
        """Log which replicated arrays differ between the ranks."""
        if not all("hashes" in one for one in done):
            return
        columns = zip(*(one["hashes"] for one in done), strict=True)
        for path, hashes in zip(self._equal_paths, columns, strict=True):
            counts = Counter(hashes)
            if len(counts) > 1:
                usual = counts.most_common(1)[0][0]
                odd = [str(rank) for rank, found in enumerate(hashes) if found != usual]
                log.error(
                    "The replicas have diverged: %s on rank %s is not what it is on the other "
                    "ranks. Each rank saves a part of it, so no rank has the state that is saved. "
                    "Causes are a missing broadcast or synchronization, or faulty hardware.",
                    path,
                    ", ".join(odd),
                )

    def _key(self, what: str, rank: int | None = None) -> str:
        key = f"{what}/{self._save}"
        return key if rank is None else f"{key}/{rank}"


@dataclass
class _NotCommitted(Exception):
    """No root was created, and none will be: what was written for it is garbage."""

    reason: Exception


def _check_cover(rows_of_ranks: Sequence[_Rows]) -> None:
    """Every element of each divided array is in exactly one part."""
    sizes: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for rows in rows_of_ranks:
        for path, elements, saved in rows:
            sizes[path] += elements
            counts[path] += saved
    size = len(rows_of_ranks)
    wrong = [path for path, total in sizes.items() if counts[path] * size != total]
    if wrong:
        raise CheckpointError(
            f"The ranks do not have every element of {', '.join(sorted(wrong)[:5])} exactly once.",
            hint="Distribute an array over all ranks of the run, on one mesh.",
        )


def _refusal(error: Exception) -> dict[str, object]:
    facts: dict[str, object] = {"error": str(error)}
    if isinstance(error, Fenced):
        facts["newer_attempt"] = error.newer_attempt
    return facts


def _as_error(found: dict[str, Any], step: int) -> CheckpointError:
    if isinstance(found.get("newer_attempt"), int):
        return Fenced(
            found["error"],
            hint="Two programs share one run URL. Give each its own URL, or run only one.",
            newer_attempt=found["newer_attempt"],
        )
    return CheckpointError(f"Step {step} was not committed: {found['error']}")
