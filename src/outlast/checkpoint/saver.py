"""One save after the other: stage in the loop's thread, write in the background.

The writer thread runs at low priority and commits a manifest last. If killed at any moment: the
previous checkpoint stays the newest, and packs without a manifest are left for garbage collection.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from outlast.checkpoint import fence
from outlast.checkpoint.binding import SavedLeaf
from outlast.checkpoint.catalogue import Garbage, Retention, find_garbage
from outlast.checkpoint.errors import Fenced
from outlast.checkpoint.format import Chunk, Manifest, Order, digest_of, encode
from outlast.checkpoint.layout import (
    CHUNK_BYTES,
    SMALL_BYTES_MAX,
    Layout,
    Span,
    lay_out,
    waves,
)
from outlast.checkpoint.memory import available_bytes
from outlast.checkpoint.packing import Packed, Packer
from outlast.checkpoint.priority import lower_priority
from outlast.checkpoint.staging import Stage
from outlast.checkpoint.sweeping import Sweeper
from outlast.checkpoint.tree import Leaf, Tree, capture
from outlast.storage import ROUTINE, Limits, StorageError, Store, create_or_confirm

log = logging.getLogger(__name__)

_MEMORY_SHARE_MAX = 0.8


@dataclass(frozen=True, kw_only=True, slots=True)
class SaveReport:
    """A committed save: what it took and what it wrote.

    `unchanged`: the user's state was the same, to the bit, as in the save before. `final`: it was
    made in a hurry.
    """

    manifest: Manifest
    stall_seconds: float
    durable_seconds: float
    unchanged: bool
    final: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class _Staged:
    step: int
    tree: Tree
    layout: Layout
    stall_seconds: float
    started: float


class Saver:
    """Saves one state into one run.

    `memory_bytes_max`, or else most of what is free, bounds the staged copy: a larger state is
    staged and written in waves, and the loop waits meanwhile.

    `after_commit` is called in the thread that writes; `after_failure` too, as soon as something
    went wrong there that `wait` will raise.
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
        after_commit: Callable[[SaveReport], object],
        after_failure: Callable[[], object],
    ) -> None:
        self._store = store
        self._state = state
        self._attempt = attempt
        self._retention = retention
        self._memory_bytes_max = memory_bytes_max
        self._may_pickle = may_pickle
        self._after_commit = after_commit
        self._after_failure = after_failure
        self._stage = Stage()
        self._layout = lay_out(())
        self._packer = Packer(store, attempt)
        self._sweeper = Sweeper(store, stop=lambda: self._hurried)
        self._parent: str | None = None
        self._resumed: Order = (0, 0, 0)
        self._limits: Callable[[], Limits] = lambda: ROUTINE
        self._hurried = False
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._settled = threading.Event()
        self._settled.set()
        self._print: tuple[int, str] | None = None
        self._warned_of_waves = False
        self._number = (-1, 0)
        self.pending_step: int | None = None
        """The step whose state is staged but not yet durable."""
        self.committed_step = 0
        """The newest step whose state is durable; 0 without one."""

    @property
    def busy(self) -> bool:
        """Whether something is being written or made ready behind the loop."""
        return self._thread is not None and self._thread.is_alive()

    def start_from(self, manifest: Manifest) -> None:
        """Take the checkpoint that was resumed from as what the store holds."""
        self._packer.learn(manifest.chunks)
        self._parent = manifest.name
        self._resumed = manifest.order
        self.committed_step = manifest.step

    def hurry(self, limits: Callable[[], Limits]) -> None:
        """From now on, ask this for the limits of every call, and leave all housekeeping."""
        self._limits = limits
        self._hurried = True

    def look_for_newer(self) -> None:
        """Find out in the background whether a newer attempt has begun: then `wait` raises."""
        if not self.busy:
            self._start(lambda: fence.check(self._store, self._attempt, limits=self._limits()))

    def size_now(self) -> int:
        """The bytes that a save would have to write at most."""
        return sum(leaf.nbytes for leaf in self._capture().leaves)

    def warm_up(self) -> None:
        """Have memory for the state as it is now, in the background: no save waits for it."""
        if self.busy:
            return
        size = self._laid_out(self._capture()).size_bytes
        if self._stage.size_bytes < size <= self._bound(size):
            self._start(lambda: self._stage.reserve(size))

    def save(self, step: int) -> float:
        """Stage the state and have it written; returns the seconds for which the loop stood still.

        Waits for a save that is still being written. Raises what went wrong with that one.
        """
        self.wait()
        if step < self.committed_step:
            raise ValueError(f"Step {step} is before {self.committed_step}, which is saved.")
        started = time.monotonic()
        tree = self._capture()
        layout = self._laid_out(tree)
        bound = self._bound(layout.size_bytes)
        fits = layout.size_bytes <= bound
        if fits:
            self._stage.fill(list(zip(tree.leaves, layout.places, strict=True)), layout.size_bytes)
        stall_seconds = time.monotonic() - started
        staged = _Staged(
            step=step,
            tree=tree,
            layout=layout,
            stall_seconds=stall_seconds,
            started=started,
        )
        self.pending_step = step
        self._settled.clear()
        if fits:
            self._start(lambda: self._write(staged))
            return stall_seconds
        try:
            self._write(staged, wave_bytes_max=bound)
        finally:
            self.pending_step = None
            self._settled.set()
        return time.monotonic() - started

    def wait(self, timeout_seconds: float | None = None) -> bool:
        """Wait until nothing is going on behind, and raise what went wrong; False on a timeout."""
        if self._thread is not None:
            self._thread.join(timeout_seconds)
            if self._thread.is_alive():
                return False
            self._thread = None
        self._raise_error()
        return True

    def wait_durable(self, timeout_seconds: float | None = None) -> bool:
        """Wait until what was staged is durable, and raise what went wrong; False on a timeout."""
        if not self._settled.wait(timeout_seconds):
            return False
        self._raise_error()
        return True

    def close(self) -> None:
        """Let go of threads and memory. A write under way is waited for."""
        if self._thread is not None:
            self._thread.join()
        self._sweeper.close()
        self._stage.close()

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _capture(self) -> Tree:
        return capture(self._state, may_pickle=self._may_pickle)

    def _laid_out(self, tree: Tree) -> Layout:
        sizes = [leaf.nbytes for leaf in tree.leaves]
        if sizes != [place.length for place in self._layout.places]:
            self._layout = lay_out(sizes)
        return self._layout

    def _bound(self, size_bytes: int) -> int:
        """How much of a state of this size may be staged at once."""
        if self._memory_bytes_max is not None:
            return self._memory_bytes_max
        held = self._stage.size_bytes
        if size_bytes <= held or (free := available_bytes()) is None:
            return size_bytes
        bound = max(held, int(_MEMORY_SHARE_MAX * (free + held)))
        if bound < size_bytes and not self._warned_of_waves:
            self._warned_of_waves = True
            log.warning(
                "A copy of the state needs %d MB, and %d MB may be taken: it is saved in waves, "
                "and the loop waits meanwhile. Give the process more memory to avoid it.",
                size_bytes // 10**6,
                bound // 10**6,
            )
        return bound

    def _start(self, work: Callable[[], object]) -> None:
        def run() -> None:
            lower_priority()
            try:
                work()
            except BaseException as error:
                self._error = error
                self._after_failure()
            finally:
                self.pending_step = None
                self._settled.set()

        self._thread = threading.Thread(target=run, name="outlast-saver", daemon=True)
        self._thread.start()

    def _write(self, staged: _Staged, *, wave_bytes_max: int | None = None) -> None:
        in_waves = wave_bytes_max is not None
        try:
            if wave_bytes_max is None:
                packed = self._pack(staged.layout.chunks)
            else:
                packed = self._pack_in_waves(staged, wave_bytes_max)
            fence.check(self._store, self._attempt, limits=self._limits())
        except (StorageError, Fenced):
            if not self._hurried:
                # Half a state would only take up the room that the next save needs.
                self._packer.discard()
            raise
        manifest = self._commit(self._described(staged, packed))
        self.pending_step, self.committed_step = None, staged.step
        # Of waves, only the last is still in memory to look at.
        unchanged = not in_waves and self._is_unchanged(staged, manifest)
        self._after_commit(
            SaveReport(
                manifest=manifest,
                stall_seconds=staged.stall_seconds,
                durable_seconds=time.monotonic() - staged.started,
                unchanged=unchanged,
                final=self._hurried,
            )
        )
        self._settled.set()
        self._keep_house(manifest, in_waves=in_waves)

    def _described(self, staged: _Staged, packed: Packed) -> Manifest:
        return Manifest(
            step=staged.step,
            attempt=self._attempt,
            save_id=uuid.uuid4().hex,
            parent=self._parent,
            created=datetime.now(UTC),
            root=staged.tree.root,
            leaves=tuple(_saved(leaf) for leaf in staged.tree.leaves),
            places=staged.layout.places,
            chunks=packed.chunks,
            new_bytes=packed.new_bytes,
        )

    def _commit(self, manifest: Manifest) -> Manifest:
        """Give the manifest a name that no save of ours has tried before, and create it."""
        last_step, last_number = self._number
        number = last_number + 1 if manifest.step == last_step else 0
        self._number = (manifest.step, number)
        manifest = replace(manifest, number=number)
        create_or_confirm(self._store, manifest.name, encode(manifest), limits=self._limits())
        self._parent = manifest.name
        return manifest

    def _keep_house(self, manifest: Manifest, *, in_waves: bool) -> None:
        """Second copies and garbage. The checkpoint stands, whatever fails here."""
        try:
            if self._hurried:
                return
            # Asked after the commit: whoever starts later resumes from this checkpoint, and what
            # goes now is nothing to them.
            fence.check(self._store, self._attempt, limits=self._limits())
            if not in_waves:
                manifest = self._mirrored(manifest)
            if not self._sweeper.busy and not self._hurried:
                self._sweeper.start(self._garbage(manifest))
        except StorageError as error:
            log.warning("Old checkpoints could not be cleaned up: %s", error)
        finally:
            self._packer.learn(manifest.chunks)

    def _garbage(self, manifest: Manifest) -> Garbage:
        return find_garbage(
            self._store,
            self._retention,
            self._attempt,
            resumed=self._resumed,
            spared=manifest.packs,
        )

    def _mirrored(self, manifest: Manifest) -> Manifest:
        """The checkpoint with second copies of what it shares with older ones, committed anew.

        If killed: both or either of the two are there, and the newer one is preferred.
        """
        chunks = self._packer.mirror(
            self._stage, manifest.chunks, limits=self._limits, stop=lambda: self._hurried
        )
        if chunks == manifest.chunks:
            return manifest
        better = self._commit(replace(manifest, chunks=chunks, save_id=uuid.uuid4().hex))
        self._store.delete([manifest.name])
        return better

    def _is_unchanged(self, staged: _Staged, manifest: Manifest) -> bool:
        """Whether the user's part of the state, random generators left out, is as it was."""
        digests = {chunk.span.start: chunk.digest for chunk in manifest.chunks}
        prints = [repr([item for key, item in manifest.root["d"] if key == "state"])]
        for leaf, place in zip(staged.tree.leaves, staged.layout.places, strict=True):
            if not leaf.path.startswith("state") or not place.length:
                continue
            if place.length > SMALL_BYTES_MAX:
                prints += [digests[at] for at in range(place.start, place.end, CHUNK_BYTES)]
            else:
                # Small arrays share a chunk with the random generators, which always change.
                prints.append(digest_of(self._stage.view(place)))
        before, self._print = self._print, (staged.step, digest_of("".join(prints).encode()))
        return before is not None and before[0] != staged.step and before[1] == self._print[1]

    def _pack(self, spans: Sequence[Span]) -> Packed:
        return self._packer.pack(self._stage, spans, limits=self._limits)

    def _pack_in_waves(self, staged: _Staged, bytes_max: int) -> Packed:
        """Stage and write whole arrays, as many at a time as the memory allows."""
        chunks: list[Chunk] = []
        new_bytes = 0
        for wave in waves(staged.layout, bytes_max):
            inside = [
                (leaf, place.moved(-wave.start))
                for leaf, place in zip(staged.tree.leaves, staged.layout.places, strict=True)
                if place.length and wave.start <= place.start < wave.end
            ]
            self._stage.fill(inside, wave.length)
            spans = [span for span in staged.layout.chunks if wave.start <= span.start < wave.end]
            packed = self._pack([span.moved(-wave.start) for span in spans])
            # The staged bytes are gone after this wave, so second copies cannot wait.
            mirrored = self._packer.mirror(
                self._stage, packed.chunks, limits=self._limits, stop=lambda: self._hurried
            )
            chunks += [replace(chunk, span=chunk.span.moved(wave.start)) for chunk in mirrored]
            new_bytes += packed.new_bytes
        return Packed(chunks=tuple(chunks), new_bytes=new_bytes)


def _saved(leaf: Leaf) -> SavedLeaf:
    return SavedLeaf(
        path=leaf.path,
        library=leaf.library.name,
        dtype=leaf.dtype,
        shape=leaf.shape,
        nbytes=leaf.nbytes,
    )
