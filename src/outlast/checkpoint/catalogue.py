"""The checkpoints that a store holds, and which of them to keep.

`Retention` is pure. `remove` deletes manifests before packs, so that a checkpoint that is still
listed has all its bytes. If killed: some garbage stays, and goes at the next time.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from outlast.checkpoint.errors import CheckpointCorrupt
from outlast.checkpoint.format import (
    MANIFESTS,
    PACKS,
    Manifest,
    Order,
    attempt_of_pack,
    decode,
    order_of,
)
from outlast.storage import ROUTINE, Limits, NotFound, Store

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Retention:
    """Keep the last few checkpoints, and those of every so many steps for ever."""

    keep_last: int = 3
    keep_every: int | None = None

    def __post_init__(self) -> None:
        if self.keep_last < 1:
            raise ValueError(f"keep_last is {self.keep_last}, but the newest is always kept.")
        if self.keep_every is not None and self.keep_every < 1:
            raise ValueError(f"keep_every is {self.keep_every}, but it counts steps from 1.")

    def to_delete(self, names: Iterable[str]) -> list[str]:
        """Which of these manifests go. The newest never does."""
        ordered = newest_first(names)
        return [name for name in ordered[self.keep_last :] if not self._is_milestone(name)]

    def _is_milestone(self, name: str) -> bool:
        order = order_of(name)
        assert order is not None, "Only manifests are ordered."
        return self.keep_every is not None and order[1] % self.keep_every == 0


def newest_first(names: Iterable[str]) -> list[str]:
    """The manifests among these names, the newest attempt's newest step first."""
    ordered = [(order, name) for name in names if (order := order_of(name)) is not None]
    return [name for _, name in sorted(ordered, reverse=True)]


def manifest_names(store: Store, *, limits: Limits = ROUTINE) -> list[str]:
    """The names of all checkpoints, newest first."""
    return newest_first(entry.name for entry in store.list(MANIFESTS, limits=limits))


def read_manifest(store: Store, name: str, *, limits: Limits = ROUTINE) -> Manifest:
    """A checkpoint's manifest. Raises `CheckpointCorrupt` if it is not what was written."""
    manifest = decode(name, store.read(name, limits=limits))
    if manifest.name != name:
        raise CheckpointCorrupt(f"{name!r} holds the manifest of {manifest.name!r}.")
    return manifest


@dataclass(frozen=True, kw_only=True, slots=True)
class Garbage:
    """What may be deleted: checkpoints by their manifests, and packs that no other one names."""

    manifests: tuple[str, ...]
    packs: tuple[str, ...]


def find_garbage(
    store: Store,
    retention: Retention,
    attempt: int,
    *,
    resumed: Order | None = None,
    spared: Collection[str] = (),
) -> Garbage:
    """Decide what is not to be kept.

    Packs of attempts after `attempt` are never touched: their manifest may be on its way. An
    attempt that is running says what it has `resumed` from: what the attempt before it may still
    be about to refer to, should it be alive, stays as well. `spared` packs stay though no manifest
    names them yet.
    """
    names = manifest_names(store)
    doomed = [n for n in retention.to_delete(names) if not _is_recent(n, attempt, resumed)]
    needed = _packs_of(store, [name for name in names if name not in doomed])
    packs: list[str] = []
    if needed is not None:
        needed |= set(spared)
        packs = [entry.name for entry in store.list(PACKS) if entry.name not in needed]
    return Garbage(
        manifests=tuple(doomed),
        packs=tuple(pack for pack in packs if _is_garbage(pack, attempt, resumed)),
    )


def remove(store: Store, garbage: Garbage, *, stop: Callable[[], bool] = lambda: False) -> None:
    """Delete garbage. `stop` is asked before each pack."""
    store.delete(garbage.manifests)
    store.delete(pack for pack in garbage.packs if not stop())


def _is_recent(name: str, attempt: int, resumed: Order | None) -> bool:
    """Whether another attempt than ours saved this since the checkpoint we resumed from."""
    order = order_of(name)
    assert order is not None, "Only manifests are ordered."
    return resumed is not None and order[0] != attempt and order >= resumed


def _is_garbage(pack: str, attempt: int, resumed: Order | None) -> bool:
    number = attempt_of_pack(pack)
    if number is None or number > attempt:
        return False
    return resumed is None or number == attempt or number < resumed[0]


def _packs_of(store: Store, names: Sequence[str]) -> set[str] | None:
    """The packs that these checkpoints need; None if one cannot be read, so nothing is certain."""
    needed: set[str] = set()
    for name in names:
        try:
            needed |= read_manifest(store, name).packs
        except NotFound:
            continue
        except CheckpointCorrupt as error:
            log.warning("No packs are deleted while a checkpoint cannot be read. %s", error)
            return None
    return needed
