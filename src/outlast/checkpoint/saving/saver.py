"""One save after the other: stage in the loop's thread, write and commit in the background.

The writer thread runs at low priority. If killed at any moment: the previous checkpoint stays the
newest, and packs without a manifest are left for garbage collection.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from outlast._base.garbage_collection import no_garbage_collection
from outlast._base.logs import get_logger
from outlast.checkpoint.format.keys import saving_hashing
from outlast.checkpoint.format.layout import Layout, lay_out
from outlast.checkpoint.format.manifest import CheckpointManifest, Chunk
from outlast.checkpoint.format.root import AnyManifest
from outlast.checkpoint.ranks import RankGroup
from outlast.checkpoint.runs.inventory import Retention
from outlast.checkpoint.saving.committing import CommittedSave, Committer
from outlast.checkpoint.saving.copying import copying_threads
from outlast.checkpoint.saving.garbage import GarbageCollector
from outlast.checkpoint.saving.group_committing import GroupCommitter
from outlast.checkpoint.saving.memory import is_lack_of_memory
from outlast.checkpoint.saving.packing import PackWriter
from outlast.checkpoint.saving.staging import StagingArea
from outlast.checkpoint.saving.writing import SaveLimits, StagedState, StateWriter
from outlast.checkpoint.state.blocks import CaptureMemory
from outlast.checkpoint.state.division import DividedTree, Division
from outlast.checkpoint.state.tree import Tree, capture
from outlast.checkpoint.threads import BackgroundThread, start_thread
from outlast.storage import Limits, StorageError, Store, StoreFull

log = get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveReport:
    """A committed save: what it took and what it wrote.

    The `manifest` is the part of this process, and the sizes are those of the entire checkpoint.
    `unchanged`: the user's state was identical to the previous save. `final`: it was made after a
    notice.
    """

    manifest: CheckpointManifest
    stall_seconds: float
    durable_seconds: float
    size_bytes: int
    new_bytes: int
    unchanged: bool
    final: bool


class Saver:
    """Saves one state into one run.

    `memory_bytes_max`, or else most of the free memory, bounds the staged copy: a larger state is
    staged and written in parts, and the loop waits meanwhile.

    Callbacks run in the writer thread. `after_commit` gets each committed save. `after_failure` is
    called as soon as there is an error that `wait` will raise. When the store is full, an old
    checkpoint may be deleted to make room: `after_giving_up` gets the step to save, the name of the
    deleted manifest and the error.

    With a `group`, the ranks save together: each calls `save` for the same steps.
    """

    def __init__(
        self,
        store: Store,
        state: object,
        attempt: int,
        *,
        retention: Retention,
        memory_bytes_max: int | None,
        may_pickle: Collection[str],
        run_id: str | None = None,
        group: RankGroup | None = None,
        world_id: str = "",
        after_commit: Callable[[SaveReport], object],
        after_failure: Callable[[], object],
        after_giving_up: Callable[[int, str, StorageError], object],
    ) -> None:
        self._state = state
        self._may_pickle = may_pickle
        self._after_commit = after_commit
        self._after_failure = after_failure
        self._after_giving_up = after_giving_up
        self._memory = CaptureMemory()
        self._layout = lay_out(())
        self._limits = SaveLimits()
        self._staging = StagingArea(memory_bytes_max, threads=copying_threads(group))
        # Read once, so that a manifest and its chunks have the same key if the key file changes.
        hashing = saving_hashing()
        self._packs = PackWriter(store, attempt, hashing)
        self._writer = StateWriter(self._staging.buffer, self._packs, self._limits)
        self._collector = GarbageCollector(
            store, retention, attempt, stop=lambda: self._limits.hurried
        )
        self._division: Division | None = None
        self._group_committer: GroupCommitter | None = None
        kind = Committer if group is None else GroupCommitter
        self._committer = kind(
            store,
            attempt,
            hashing=hashing,
            run_id=run_id,
            packs=self._packs,
            collector=self._collector,
            limits=self._limits,
        )
        if group is not None and isinstance(self._committer, GroupCommitter):
            self._group_committer = self._committer
            self._group_committer.join(group, world_id)
            self._division = Division(group.rank, group.size)
            self._division.prepare()
        self._thread = BackgroundThread("outlast-saver")
        self._error: BaseException | None = None
        self._settled = threading.Event()
        self._settled.set()
        self.pending_step: int | None = None
        """The step whose state is staged but not yet durable."""
        self.committed_step = 0
        """The newest step whose state is durable; 0 without one."""

    @property
    def busy(self) -> bool:
        """Whether something is being written in the background."""
        return self._thread.is_busy

    @property
    def is_warming(self) -> bool:
        """Whether memory for the next save is still being made ready."""
        return self._staging.is_warming

    def start_from(self, manifest: AnyManifest, chunks: Sequence[Chunk]) -> None:
        """Continue after the checkpoint that was resumed from: the store has these chunks."""
        self._packs.assume_stored(chunks)
        self._committer.start_from(manifest.name)
        self._collector.resumed = manifest.order
        self.committed_step = manifest.step
        if self._division is not None:
            self._division.warn_of_order()

    def discard(self, names: Sequence[str]) -> None:
        """Delete objects that are no longer needed, in the background."""
        self._collector.collect(obsolete=names)

    def hurry(self, limits: Callable[[], Limits]) -> None:
        """From now on, ask `limits` before each call to the store, and skip all housekeeping."""
        self._limits.hurry(limits)

    def look_for_newer(self) -> None:
        """Check in the background whether a newer attempt has started; if so, `wait` raises."""
        if not self.busy:
            with _skipped_without_memory():
                self._start(self._committer.check_fence)

    def size_now(self) -> int:
        """The maximum number of bytes that a save would write."""
        return sum(leaf.nbytes for leaf in self._divided().tree.leaves)

    def warm_up(self) -> None:
        """Prepare memory for the current state in the background, so that no save waits for it."""
        self._staging.stop_warming()
        if self.busy:
            return
        size = self._laid_out(self._divided().tree).size_bytes
        with _skipped_without_memory():
            self._staging.warm_up(size, self._start_warming)

    def save(self, step: int) -> float:
        """Stage the state and have it written; returns for how many seconds the loop waited.

        Waits for an earlier save that is still being written, and raises its error.
        """
        try:
            self.wait()
        except BaseException as error:
            self.skip(error)
            raise
        # Only now, because the previous save was still in progress.
        if self._group_committer is not None:
            self._group_committer.begin()
        with no_garbage_collection():
            staged = self._staged(step)
        self.pending_step = step
        self._settled.clear()
        if staged.wave_bytes_max is None:
            self._start(lambda: self._save_staged(staged))
            return staged.stall_seconds
        try:
            self._save_staged(staged)
        finally:
            self._settle()
        return time.monotonic() - staged.started

    def skip(self, error: BaseException) -> None:
        """Do not take part in a save of the group, because of the error of the previous one."""
        if self._group_committer is not None:
            self._group_committer.begin()
            self._group_committer.fail(error)

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until nothing is in progress, and raise its error; False on a timeout."""
        if not self._thread.wait(timeout_seconds):
            return False
        self._raise_error()
        return True

    def wait_durable(self, timeout_seconds: float | None = None) -> bool:
        """Wait until the staged state is durable, and raise its error; False on a timeout."""
        if not self._settled.wait(timeout_seconds):
            return False
        self._raise_error()
        return True

    def close(self) -> None:
        """Release threads and memory, after a write in progress has ended."""
        self._staging.stop_warming()
        self._thread.close()
        self._collector.wait()
        self._staging.close()

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _divided(self) -> DividedTree:
        """The state, or the part of it that this rank saves."""
        tree = capture(self._state, may_pickle=self._may_pickle, memory=self._memory)
        if self._division is None:
            return DividedTree(tree=tree, equal=list, layout="")
        return self._division.divide(tree, self._state)

    @property
    def _may_delete(self) -> bool:
        """Whether this process deletes old checkpoints: of a group, only rank 0 does."""
        return self._group_committer is None or self._group_committer.is_first

    def _fail_group(self, error: BaseException) -> None:
        if self._group_committer is not None:
            self._group_committer.fail(error)

    def _laid_out(self, tree: Tree) -> Layout:
        sizes = [leaf.nbytes for leaf in tree.leaves]
        if sizes != [place.length for place in self._layout.places]:
            self._layout = lay_out(sizes)
        return self._layout

    def _staged(self, step: int) -> StagedState:
        """The state, copied if it fits into memory. If that fails, no other rank waits for it."""
        try:
            self._staging.stop_warming()
            if step < self.committed_step:
                raise ValueError(
                    f"Cannot save step {step}: step {self.committed_step} is already saved."
                )
            return self._stage(step)
        except BaseException as error:
            self._fail_group(error)
            raise

    def _stage(self, step: int) -> StagedState:
        started = time.monotonic()
        divided = self._divided()
        if self._group_committer is not None:
            self._group_committer.describe(divided)
        tree = divided.tree
        layout = self._laid_out(tree)
        bound = self._staging.obtain(layout)
        fits = layout.size_bytes <= bound
        if fits:
            leaves = list(zip(tree.leaves, layout.places, strict=True))
            self._staging.buffer.fill(leaves, layout.size_bytes)
        return StagedState(
            step=step,
            tree=tree,
            layout=layout,
            stall_seconds=time.monotonic() - started,
            started=started,
            wave_bytes_max=None if fits else bound,
        )

    def _start(self, work: Callable[[], object]) -> None:
        """Do this work in the background. An error is kept for `wait`."""

        def job() -> None:
            try:
                self._keep_error(work)
            finally:
                self._settle()

        try:
            self._thread.do(job)
        except BaseException:
            self._settle()
            raise

    def _settle(self) -> None:
        self.pending_step = None
        self._settled.set()

    def _start_warming(self, work: Callable[[], object], name: str) -> threading.Thread:
        # At low priority, it would not be done before the first save on a busy machine, and
        # the loop would wait for longer than this takes from it now.
        return start_thread(lambda: self._keep_error(work), name, low_priority=False)

    def _keep_error(self, work: Callable[[], object]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error
            self._after_failure()

    def _save_staged(self, staged: StagedState) -> None:
        try:
            saved = self._write_and_commit(staged)
        except StoreFull as error:
            # The ranks of a group save again together, with the next save.
            if not self._make_room(staged.step, error) or self._group_committer is not None:
                raise
            saved = self._write_and_commit(staged)
        self.pending_step, self.committed_step = None, staged.step
        self._after_commit(
            SaveReport(
                manifest=saved.manifest,
                stall_seconds=staged.stall_seconds,
                durable_seconds=time.monotonic() - staged.started,
                size_bytes=saved.size_bytes,
                new_bytes=saved.new_bytes,
                unchanged=self._writer.is_unchanged(staged, saved.manifest),
                final=self._limits.hurried,
            )
        )
        self._settled.set()
        in_waves = staged.wave_bytes_max is not None
        self._committer.clean_up(saved, self._writer, in_waves=in_waves)
        if not self._limits.hurried:
            with _skipped_without_memory():
                self._staging.collapse(self._start_warming)

    def _write_and_commit(self, staged: StagedState) -> CommittedSave:
        """Two steps: nothing is visible until everything is written."""
        try:
            packed = self._writer.write(staged, self._committer.check_ahead)
            return self._committer.commit(staged, packed, self._writer)
        except Exception as error:
            self._fail_group(error)
            if not self._limits.hurried:
                # Part of a state would only use up space that the next save needs.
                self._packs.discard()
            raise

    def _make_room(self, step: int, error: StoreFull) -> bool:
        """Delete the oldest checkpoint for a newer one; False if none can be spared.

        If killed: the newest checkpoint that reads back still exists.
        """
        self._packs.discard()
        if not self._may_delete:
            return False
        self._committer.check_fence()
        deleted = self._collector.deleted
        self._collector.wait()
        if self._collector.deleted > deleted:
            # Either this was enough, or the next save makes more room.
            return True
        name = self._collector.delete_oldest(self._packs.packs)
        if name is None:
            return False
        log.warning(
            "No space for the checkpoint of step %d, so the oldest checkpoint was deleted: %s. "
            "Saving step %d again. Free some space, or lower keep_last. %s",
            step,
            name,
            step,
            error,
        )
        self._after_giving_up(step, name, error)
        return True


@contextlib.contextmanager
def _skipped_without_memory() -> Iterator[None]:
    """For background work that can be skipped if no thread can be started."""
    try:
        yield
    except Exception as error:
        if not is_lack_of_memory(error):
            raise
        log.debug("A background task was skipped: %s", error)
