"""Which checkpoints and packs of a run to keep, and which to delete.

`Retention` and `CheckpointInventory` are pure. Manifests are deleted before packs, so a checkpoint
that is still listed has all its bytes. If killed: some garbage stays until the next collection.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format.manifest import (
    PACKS,
    PARTS,
    CheckpointOrder,
    attempt_of_pack,
    order_of,
)
from outlast.checkpoint.runs.catalog import manifest_names, newest_first, read_manifest
from outlast.checkpoint.threads import lower_priority
from outlast.storage import NotFound, Store

log = get_logger(__name__)

_READERS_MAX = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """Keep the last few checkpoints and, permanently, those at multiples of `keep_every` steps."""

    keep_last: int = 3
    keep_every: int | None = None

    def __post_init__(self) -> None:
        if self.keep_last < 1:
            raise ValueError(f"keep_last must be at least 1, got {self.keep_last}.")
        if self.keep_every is not None and self.keep_every < 1:
            raise ValueError(f"keep_every must be at least 1, got {self.keep_every}.")

    def to_delete(self, names: Iterable[str]) -> list[str]:
        """Which of these manifests to delete. The newest is always kept."""
        ordered = newest_first(names)
        return [name for name in ordered[self.keep_last :] if not self.is_milestone(name)]

    def is_milestone(self, name: str) -> bool:
        return self.keep_every is not None and _order(name)[1] % self.keep_every == 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Garbage:
    """Objects to delete: manifests first, so that no listed checkpoint lacks bytes."""

    manifests: tuple[str, ...]
    packs: tuple[str, ...]


class CheckpointInventory:
    """The checkpoints of a run, the packs that each needs, and which of them may be deleted.

    Packs and checkpoints of attempts after `attempt` are never deleted: more may be on their way.
    A running attempt gives the checkpoint that it has `resumed` from: what the attempt before it
    may still refer to, if it is alive, is kept as well. Not thread-safe.
    """

    def __init__(self, attempt: int, resumed: CheckpointOrder | None) -> None:
        self._attempt = attempt
        self._resumed = resumed
        self._needs: dict[str, frozenset[str] | None] = {}
        self._packs: set[str] = set()

    def add(self, name: str, packs: Iterable[str] | None) -> None:
        """Add a checkpoint and the packs it needs; None if its manifest cannot be read."""
        self._needs[name] = None if packs is None else frozenset(packs)

    def add_packs(self, packs: Iterable[str]) -> None:
        """Add packs that exist, needed or not."""
        self._packs.update(filter(self._may_delete, packs))

    def remove(self, names: Iterable[str]) -> None:
        """Note that these checkpoints are gone."""
        for name in names:
            self.add_packs(self._needs.pop(name, None) or ())

    def remove_packs(self, packs: Iterable[str]) -> None:
        """Note that these packs are gone."""
        self._packs.difference_update(packs)

    @property
    def checkpoints(self) -> list[str]:
        """All checkpoints of this attempt and those before it, newest first."""
        return newest_first(name for name in self._needs if _order(name)[0] <= self._attempt)

    def expired(self, retention: Retention) -> list[str]:
        """The checkpoints that the retention does not keep."""
        return [n for n in retention.to_delete(self.checkpoints) if not self._is_recent(n)]

    def unneeded_packs(self) -> list[str]:
        """Packs that no checkpoint needs; none if a manifest is unreadable: it may need any."""
        return sorted(self._packs - self._needed())

    def freed_by(self, name: str) -> set[str]:
        """The packs that only this checkpoint needs."""
        others = (other for other in self._needs if other != name)
        return set(self._needs[name] or ()) - self._needed(others)

    def _needed(self, names: Iterable[str] | None = None) -> set[str]:
        needed: set[str] = set()
        for name in self._needs if names is None else names:
            packs = self._needs[name]
            if packs is None:
                return self._packs | {pack for some in self._needs.values() for pack in some or ()}
            needed |= packs
        return needed

    def _is_recent(self, name: str) -> bool:
        """Whether another attempt saved this since the checkpoint that was resumed from."""
        order = _order(name)
        return self._resumed is not None and order[0] != self._attempt and order >= self._resumed

    def _may_delete(self, pack: str) -> bool:
        number = attempt_of_pack(pack)
        if number is None or number > self._attempt:
            return False
        return self._resumed is None or number == self._attempt or number < self._resumed[0]


class InventoryStopped(Exception):
    """Taking the inventory was stopped."""


def take_inventory(
    store: Store,
    retention: Retention,
    attempt: int,
    *,
    resumed: CheckpointOrder | None = None,
    without_own: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> CheckpointInventory:
    """List the store, and read the manifest of every checkpoint to keep, a few at a time.

    `without_own` leaves out what `attempt` itself has saved: it knows that better than a listing,
    which also shows what is being written at the moment. `stop` is asked before each read; once it
    is true, `InventoryStopped` is raised.
    """
    inventory = CheckpointInventory(attempt, resumed)
    names = [n for n in manifest_names(store) if not (without_own and _order(n)[0] == attempt)]
    for name in names:
        # What an expired checkpoint needs is never asked.
        inventory.add(name, ())
    expired = set(inventory.expired(retention))
    kept = [name for name in names if name not in expired]

    def read(name: str) -> set[str] | None:
        if stop():
            raise InventoryStopped
        try:
            return read_manifest(store, name).packs
        except NotFound:
            # It was deleted since it was listed.
            return set()
        except CheckpointCorrupt as error:
            log.warning("Keeping all packs, because a checkpoint cannot be read. %s", error)
            return None

    with ThreadPoolExecutor(_READERS_MAX, "outlast-inventory", initializer=lower_priority) as pool:
        for name, packs in zip(kept, pool.map(read, kept), strict=True):
            inventory.add(name, packs)
    there = [entry.name for folder in (PACKS, PARTS) for entry in store.list(folder)]
    inventory.add_packs(p for p in there if not (without_own and attempt_of_pack(p) == attempt))
    return inventory


def find_garbage(
    store: Store,
    retention: Retention,
    attempt: int,
    *,
    resumed: CheckpointOrder | None = None,
) -> Garbage:
    """Decide what to delete, for an attempt that is not saving. See `CheckpointInventory`."""
    inventory = take_inventory(store, retention, attempt, resumed=resumed)
    expired = inventory.expired(retention)
    inventory.remove(expired)
    return Garbage(manifests=tuple(expired), packs=tuple(inventory.unneeded_packs()))


def delete_garbage(store: Store, garbage: Garbage) -> None:
    """Delete the manifests, then the packs."""
    store.delete(garbage.manifests)
    store.delete(garbage.packs)


def _order(name: str) -> CheckpointOrder:
    order = order_of(name)
    assert order is not None, "Only manifests have an order."
    return order
