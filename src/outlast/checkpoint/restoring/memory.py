"""Which arrays of a state share memory, and which still have the memory they were given."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from outlast.checkpoint.format.manifest import SavedLeaf
from outlast.checkpoint.restoring.known_code import is_known
from outlast.checkpoint.state.library import Bytes
from outlast.checkpoint.state.nodes import TreeNode, kind_of, walk
from outlast.checkpoint.state.tree import Leaf, Tree


class MemoryMap:
    """Compares the `memory` of each saved array with that of the one in its place."""

    def __init__(self, root: TreeNode, leaves: Sequence[SavedLeaf], fresh: Tree) -> None:
        self._leaves = leaves
        self._fresh = fresh
        self._fresh_places = _places(fresh)
        # The other ends of views as earlier versions noted them; None if the tree has no such.
        views = [traits["view"][0] for traits, _ in _arrays(root) if "view" in traits]
        self._viewed = frozenset(views) if views else None

    def misfits(
        self,
        index: int,
        saved: Mapping[str, Any],
        fresh: TreeNode,
        fresh_traits: Mapping[str, Any],
        path: str,
    ) -> Iterator[str]:
        if self._viewed is not None:
            yield from self._old_misfits(index, saved, fresh, fresh_traits, path)
            return
        before, now = saved.get("memory"), fresh_traits.get("memory")
        if before == now:
            return
        if before is not None:
            yield _was_a_view(path, before[0])
        elif now is not None:
            yield _is_a_view(path, now[0])

    def _old_misfits(
        self,
        index: int,
        saved: Mapping[str, Any],
        fresh: TreeNode,
        fresh_traits: Mapping[str, Any],
        path: str,
    ) -> Iterator[str]:
        assert self._viewed is not None, "Only asked for trees with views."
        if "view" in saved:
            other, distance = saved["view"]
            own = self._place(fresh)
            base = self._fresh_places.get(other)
            if own is None or base is None or own != (base[0], base[1] + distance):
                yield _was_a_view(path, other)
        elif "memory" in fresh_traits and self._leaves[index].path not in self._viewed:
            yield _is_a_view(path, fresh_traits["memory"][0])

    def _place(self, fresh: TreeNode) -> tuple[str, int] | None:
        if kind_of(fresh) != "a":
            return None
        return self._fresh_places.get(self._fresh.leaves[fresh["a"]].path)


class UnchangedMemory:
    """Whether an array of a restored state is the very memory in which its bytes were verified.

    Not if it shares memory with another array, which may have been filled after it, and not if it
    is of a class that the program defines, which may do anything.
    """

    def __init__(self, verified: Sequence[Sequence[Bytes]], live: Tree) -> None:
        self._extents = [{_extent(one) for one in held} for held in verified]
        self._sharing = _places(live)

    def holds(self, index: int, leaf: Leaf) -> bool:
        if leaf.path in self._sharing or not is_known("a", leaf.array):
            return False
        memory = leaf.library.memory(leaf.array)
        return memory is not None and _extent(memory) in self._extents[index]


def _extent(memory: Bytes) -> tuple[int, int]:
    return memory.__array_interface__["data"][0], memory.nbytes


def _places(tree: Tree) -> dict[str, tuple[str, int]]:
    """The place of each array that shares memory: the largest in it, and the distance from that."""
    found: dict[str, tuple[str, int]] = {}
    for traits, node in _arrays(tree.root):
        if "memory" in traits:
            base, distance = traits["memory"]
            found[tree.leaves[node["a"]].path] = (base, distance)
            found[base] = (base, 0)
    return found


def _arrays(root: TreeNode) -> Iterator[tuple[Mapping[str, Any], TreeNode]]:
    return ((traits, node) for _, traits, node, kind in walk(root) if kind == "a")


def _was_a_view(path: str, other: str) -> str:
    return f"{path}: it shared memory with {other} when it was saved, but does not here"


def _is_a_view(path: str, other: str) -> str:
    return f"{path}: it shares memory with {other} here, but did not when it was saved"
