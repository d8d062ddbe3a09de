"""Delete in the background what no checkpoint needs any more. No save waits for it.

A round deletes only what was garbage when a commit requested it, so anything written meanwhile is
safe. The store is listed and read once per attempt. After that, the attempt knows what the store
contains, so a round costs the same no matter how many checkpoints are kept. If killed: some garbage
stays, and the next attempt deletes it.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format.root import AnyManifest
from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import read_manifest
from outlast.checkpoint.runs.inventory import (
    CheckpointInventory,
    InventoryStopped,
    Retention,
    take_inventory,
)
from outlast.checkpoint.threads import start_thread
from outlast.storage import NotFound, StorageError, Store

if TYPE_CHECKING:
    from outlast.checkpoint.format.manifest import CheckpointOrder

log = get_logger(__name__)

_BATCH = 100


class GarbageCollector:
    """Deletes the garbage of a run for one attempt. `stop` is asked before each batch and read."""

    def __init__(
        self, store: Store, retention: Retention, attempt: int, *, stop: Callable[[], bool]
    ) -> None:
        self._store = store
        self._retention = retention
        self._attempt = attempt
        self._stop = stop
        self.resumed: CheckpointOrder = (0, 0, 0)
        """The checkpoint that this attempt resumed from."""
        self.deleted = 0
        """How many objects have been deleted so far."""
        self._inventory: CheckpointInventory | None = None
        self._verified: set[str] = set()
        self._committed: list[AnyManifest] = []
        self._doubtful: list[AnyManifest] = []
        self._obsolete: set[str] = set()
        self._requested = False
        self._thread: threading.Thread | None = None
        # The first guards the requests; the second is held during a round.
        self._notes_lock = threading.Lock()
        self._round_lock = threading.Lock()

    def collect(
        self,
        committed: Iterable[AnyManifest] = (),
        *,
        doubtful: Iterable[AnyManifest] = (),
        obsolete: Iterable[str] = (),
    ) -> None:
        """Start a round, now that these checkpoints exist and these objects are obsolete.

        The caller has verified after the commit that no newer attempt had started: one that starts
        later resumes from one of these checkpoints. Whether `doubtful` ones were committed is not
        known. If a round is in progress, another one follows.
        """
        with self._notes_lock:
            self._committed += committed
            self._doubtful += doubtful
            self._obsolete.update(obsolete)
            self._requested = True
            if self._thread is None or not self._thread.is_alive():
                self._thread = start_thread(self._run, "outlast-garbage")

    def wait(self) -> None:
        """Wait until everything requested is deleted."""
        if (thread := self._thread) is not None:
            thread.join()

    def delete_oldest(self, in_use: Collection[str]) -> str | None:
        """Delete the oldest checkpoint that can be spared, to make room; returns its name, if any.

        Milestones, the newest checkpoint, the newest one that reads back and the packs `in_use` are
        kept. If killed: a manifest is deleted before its packs, and the newest checkpoint that
        reads back still exists.
        """
        with self._round_lock:
            try:
                inventory = self._current()
            except InventoryStopped:
                return None
            verified = next((n for n in inventory.checkpoints if self._reads_back(n)), None)
            if verified is None:
                return None
            for name in reversed(inventory.checkpoints[1:]):
                packs = inventory.freed_by(name).difference(in_use)
                if packs and name != verified and not self._retention.is_milestone(name):
                    self._delete([name])
                    inventory.remove([name])
                    self._delete(packs)
                    inventory.remove_packs(packs)
                    return name
        return None

    def _run(self) -> None:
        while self._is_requested():
            try:
                with self._round_lock:
                    self._round()
            except StorageError as error:
                log.warning("Old checkpoints could not be deleted: %s", error)
            except InventoryStopped:
                pass

    def _is_requested(self) -> bool:
        with self._notes_lock:
            if not self._requested or self._stop():
                self._thread = None
                return False
            self._requested = False
            return True

    def _round(self) -> None:
        self._delete_obsolete()
        if self._inventory is None and not self._committed:
            # Only after a commit is it certain what may be deleted.
            return
        inventory = self._current()
        expired = inventory.expired(self._retention)
        self._delete(expired)
        inventory.remove(expired)
        for packs in _batches(inventory.unneeded_packs()):
            if self._stop():
                return
            self._delete(packs)
            inventory.remove_packs(packs)

    def _delete_obsolete(self) -> None:
        with self._notes_lock:
            obsolete = sorted(self._obsolete)
        for names in _batches(obsolete):
            if self._stop():
                return
            self._delete(names)
            with self._notes_lock:
                self._obsolete.difference_update(names)

    def _current(self) -> CheckpointInventory:
        """What the store contains, including everything requested since the last round."""
        if self._inventory is None:
            self._inventory = take_inventory(
                self._store,
                self._retention,
                self._attempt,
                resumed=self.resumed,
                without_own=True,
                stop=self._stop,
            )
        with self._notes_lock:
            committed, self._committed = self._committed, []
            doubtful, self._doubtful = self._doubtful, []
        for manifest in (*committed, *(m for m in doubtful if self._exists(m))):
            self._inventory.add(manifest.name, manifest.packs)
        return self._inventory

    def _exists(self, manifest: AnyManifest) -> bool:
        """Whether a doubtful commit took effect. If not, its packs are left to later attempts."""
        try:
            return read_manifest(self._store, manifest.name).save_id == manifest.save_id
        except (NotFound, CheckpointCorrupt):
            return False
        except StorageError:
            with self._notes_lock:
                self._doubtful.append(manifest)
            return False

    def _reads_back(self, name: str) -> bool:
        if name not in self._verified:
            try:
                found = read_manifest(self._store, name)
                problems = verify_checkpoint(self._store, found)
            except (NotFound, CheckpointCorrupt):
                return False
            if problems:
                return False
            self._verified.add(name)
        return True

    def _delete(self, names: Iterable[str]) -> None:
        wanted = list(names)
        self._store.delete(wanted)
        self.deleted += len(wanted)


def _batches(names: Sequence[str]) -> Iterator[Sequence[str]]:
    return (names[start : start + _BATCH] for start in range(0, len(names), _BATCH))
