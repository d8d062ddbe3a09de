"""Compare a restored state with the checkpoint it came from, before anything uses it.

Loading runs code of other libraries and of the program: an optimizer casts, a `load_state_dict`
skips a key, two names turn out to be one array. So the state that a step would start from is
captured again and compared: paths, classes, dtypes, order, what is shared, and every byte, by the
hashes in the manifest. Bytes are hashed once more only where code that we do not know has run: an
array that is still the memory in which its bytes were verified has them.
"""

import json
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import RestoreMismatch
from outlast.checkpoint.format.keys import Hashing
from outlast.checkpoint.format.layout import SMALL_BYTES_MAX
from outlast.checkpoint.format.manifest import CheckpointManifest
from outlast.checkpoint.restoring.chunk_reading import for_each
from outlast.checkpoint.restoring.fitting import is_same, places
from outlast.checkpoint.restoring.loading import Piece
from outlast.checkpoint.restoring.memory import MemoryMap, UnchangedMemory
from outlast.checkpoint.state.library import Bytes
from outlast.checkpoint.state.nodes import References, TreeNode, kind_of, opened, path_of
from outlast.checkpoint.state.traits import described
from outlast.checkpoint.state.tree import Leaf, Tree, capture

log = get_logger(__name__)

# Our own parts, which the loop does not compute with.
_OURS = frozenset({"position", "progress"})
_LEFT_OUT = frozenset({"memory", "view", "frozen", "placements", "mesh_axes"})
_LEFT_OUT_IN_OBJECTS = _LEFT_OUT | {"order", "weak"}
_HASHING_THREADS = min(8, os.cpu_count() or 1)


def check_restored(
    manifest: CheckpointManifest,
    pieces: Mapping[int, Sequence[Piece]],
    state: object,
    *,
    verified: Sequence[Sequence[Bytes]] | None = None,
    what: str,
    may_pickle: Collection[str] = (),
) -> None:
    """Raise `RestoreMismatch` with every path at which the state is not what was saved.

    `pieces[i]` are the hashes of leaf i, as the verified bytes had them. `verified[i]` is memory
    that nothing has changed since it was given the bytes of leaf i; None if that is not certain.
    """
    live = capture(state, may_pickle=may_pickle)
    comparing = _Comparing(manifest, live)
    differences = list(comparing.all())
    pairs = comparing.pairs()
    if verified is not None:
        unchanged = UnchangedMemory(verified, live)
        pairs = [(index, leaf) for index, leaf in pairs if not unchanged.holds(index, leaf)]
    differences += _changed_bytes(pairs, pieces, manifest.hashing)
    if comparing.refrozen:
        log.warning(
            "In %s, different parameters require a gradient than when the checkpoint was saved. "
            "requires_grad is not part of the state: set it again after a resume.",
            ", ".join(comparing.refrozen),
        )
    if differences:
        raise RestoreMismatch(
            f"{what} was restored, but the state differs from what was saved in "
            f"{places(differences)}:",
            differences=tuple(differences),
        )


class _Comparing:
    """Walks both trees. `pairs` are the arrays that are to have the same bytes."""

    def __init__(self, manifest: CheckpointManifest, live: Tree) -> None:
        self._saved_root = manifest.root
        self._saved_leaves = manifest.leaves
        self._live = live
        self._arrays = _Pairing()
        self._shared = _Pairing()
        self._references = References(manifest.root)
        self._live_references = References(live.root)
        self._memory = MemoryMap(manifest.root, manifest.leaves, live)
        self.refrozen: list[str] = []

    def all(self) -> Iterator[str]:
        live = dict(map(tuple, self._live.root["d"]))
        for key, node in self._saved_root["d"]:
            if key not in _OURS:
                yield from self._part(node, live.get(key), key, in_object=False)

    def pairs(self) -> list[tuple[int, Leaf]]:
        return [(saved, self._live.leaves[live]) for saved, live in self._arrays.forth.items()]

    def _part(
        self, saved: TreeNode, live: TreeNode, path: str, *, in_object: bool
    ) -> Iterator[str]:
        number = self._references.number_of(saved)
        live_number = self._live_references.number_of(live)
        if (number is None) != (live_number is None):
            yield f"{path}: {_short(saved)} became {_short(live)}"
            return
        if number is not None and live_number is not None:
            is_known = number in self._shared.forth
            if not self._shared.fits(number, live_number):
                yield f"{path}: it is shared with different parts of the state than before"
                return
            if is_known:
                return
        saved, live = self._references.resolved(saved), self._live_references.resolved(live)
        yield from self._content(saved, live, path, live_number, in_object=in_object)

    def _content(
        self, saved: TreeNode, live: TreeNode, path: str, number: int | None, *, in_object: bool
    ) -> Iterator[str]:
        traits, saved = opened(saved)
        now, live = opened(live)
        if _compared(traits, in_object=in_object) != _compared(now, in_object=in_object):
            yield f"{path}: {described(traits)} became {described(now)}"
        if traits.get("frozen") != now.get("frozen"):
            self.refrozen.append(path)
        kind, found = kind_of(saved), kind_of(live)
        if kind != found and {kind, found} != {"o", "m"}:
            yield f"{path}: {_short(saved)} became {_short(live)}"
        elif kind in ("o", "m", "v"):
            body = live[found]
            # The order of attributes, and of a module's parts, means nothing.
            if found == "m" or number in self._live.attribute_objects:
                body = _in_order_of(saved[kind], body)
            yield from self._part(saved[kind], body, path, in_object=True)
        elif kind in ("j", "jo"):
            yield from self._pytree(saved[kind], live[kind], path, in_object=in_object)
        elif kind in ("d", "l", "t"):
            yield from self._container(kind, saved[kind], live[kind], path, in_object=in_object)
        elif kind == "a":
            yield from self._memory.misfits(saved["a"], traits, live, now, path)
            yield from self._array(saved["a"], live["a"], path)
        # Two pickles of the same thing need not be the same bytes.
        elif kind != "p" and not is_same(saved, live):
            yield f"{path}: {_short(saved)} became {_short(live)}"

    def _container(
        self, kind: str, saved: Any, live: Any, path: str, *, in_object: bool
    ) -> Iterator[str]:
        if kind == "d":
            keys, now = [key for key, _ in saved], [key for key, _ in live]
            if not is_same(keys, now):
                yield f"{path}: its keys {_short(keys)} became {_short(now)}"
                return
            names = [key if isinstance(key, str | int) else _short(key) for key in keys]
            saved, live = [node for _, node in saved], [node for _, node in live]
        else:
            names = list(range(len(saved)))
            if len(saved) != len(live):
                yield f"{path}: {len(saved)} items became {len(live)}"
                return
        for name, node, other in zip(names, saved, live, strict=True):
            yield from self._part(node, other, path_of(path, name), in_object=in_object)

    def _pytree(
        self, saved: list[Any], live: list[Any], path: str, *, in_object: bool
    ) -> Iterator[str]:
        keys, now = ([key for key, _ in children] for _, _, children in (saved, live))
        if not is_same([*saved[:2], keys], [*live[:2], now]):
            yield f"{path}: {_short([*saved[:2], keys])} became {_short([*live[:2], now])}"
            return
        for (key, node), (_, other) in zip(saved[2], live[2], strict=True):
            yield from self._part(node, other, path_of(path, key), in_object=in_object)

    def _array(self, saved: int, live: int, path: str) -> Iterator[str]:
        before, now = self._saved_leaves[saved], self._live.leaves[live]
        kind = (now.library.name, now.dtype, now.shape)
        if before.kind != kind:
            yield (
                f"{path}: {before.dtype} {list(before.shape)} became {now.dtype} {list(now.shape)}"
            )
            return
        if now.is_writable and not self._arrays.fits(saved, live):
            yield f"{path}: it shares memory with different arrays than before"
        self._arrays.forth.setdefault(saved, live)


class _Pairing:
    """Which saved part is which live one: each is one of the other."""

    def __init__(self) -> None:
        self.forth: dict[int, int] = {}
        self._back: dict[int, int] = {}

    def fits(self, saved: int, live: int) -> bool:
        return (
            self.forth.setdefault(saved, live) == live
            and self._back.setdefault(live, saved) == saved
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class _Check:
    """One run of bytes of a live array, and the hash it should have."""

    path: str
    data: Bytes
    digest: str


def _changed_bytes(
    pairs: Sequence[tuple[int, Leaf]], pieces: Mapping[int, Sequence[Piece]], hashing: Hashing
) -> list[str]:
    changed: set[str] = set()

    def check(one: _Check) -> None:
        if hashing.digest(one.data) != one.digest:
            changed.add(one.path)

    large: list[_Check] = []
    for index, leaf in pairs:
        if not leaf.nbytes:
            continue
        memory = leaf.library.memory(leaf.array)
        if memory is not None and leaf.nbytes > SMALL_BYTES_MAX:
            large += _checks(leaf.path, memory, pieces[index])
            continue
        if memory is None:
            memory = np.empty(leaf.nbytes, np.uint8)
            leaf.library.copy_out(leaf.array, memory)
        # Handing a small one to another thread takes longer than hashing it.
        for one in _checks(leaf.path, memory, pieces[index]):
            check(one)
    for_each(check, large, threads=_HASHING_THREADS)
    return [f"{path}: its bytes differ from those that were saved" for path in sorted(changed)]


def _checks(path: str, data: Bytes, pieces: Sequence[Piece]) -> list[_Check]:
    return [
        _Check(path=path, data=data[piece.start : piece.start + piece.length], digest=piece.digest)
        for piece in pieces
    ]


def _in_order_of(saved: TreeNode, live: TreeNode) -> TreeNode:
    """The state_dict of an object with its keys in the order in which they were saved."""
    _, body = opened(saved)
    _, found = opened(live)
    if kind_of(body) == "d" and kind_of(found) == "d":
        order = {json.dumps(key): number for number, (key, _) in enumerate(body["d"])}
        found["d"].sort(key=lambda item: order.get(json.dumps(item[0]), len(order)))
    return live


def _compared(traits: Mapping[str, object], *, in_object: bool) -> dict[str, object]:
    """The traits that must be equal.

    How arrays share memory is compared apart. How those of an object lie in it is its own choice,
    and so is whether their types are weak.
    """
    if not traits:
        return {}
    left_out = _LEFT_OUT_IN_OBJECTS if in_object else _LEFT_OUT
    return {key: found for key, found in traits.items() if key not in left_out}


def _short(node: TreeNode) -> str:
    text = json.dumps(node)
    return text if len(text) <= 80 else f"{text[:77]}..."
