"""Divide the arrays of a state among the ranks that save it together.

What is equal on all ranks is cut into as many parts as there are ranks, so that the time, the
memory and the bytes of a save are divided too. Pure, apart from asking which arrays are equal.
"""

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xxhash

from outlast._base.logs import get_logger
from outlast.checkpoint.state.jax_arrays import numbers_of
from outlast.checkpoint.state.jax_shards import flat_slice, here
from outlast.checkpoint.state.replicas import ReplicatedArrays
from outlast.checkpoint.state.shards import Shard
from outlast.checkpoint.state.tree import Leaf, Tree

log = get_logger(__name__)

# A multiple of every item size.
_BLOCK_BYTES = 4096
# Smaller arrays are not cut.
_SMALL_BYTES_MAX = 64 * 1024
_LARGE_OWN_BYTES = 64 * 1024**2


@dataclass(frozen=True, kw_only=True, slots=True)
class DividedTree:
    """A state of which this rank saves the `tree`, whose leaves are parts of the arrays.

    `equal` are the complete arrays that should be the same on all ranks; `layout` is a hash of
    their paths, dtypes and shapes.
    """

    tree: Tree
    equal: tuple[Leaf, ...]
    layout: str


class Division:
    """Which part of which array this rank saves."""

    def __init__(self, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size
        self._replicas = ReplicatedArrays()
        self._has_warned = False

    def prepare(self) -> None:
        """Look for the modules that keep their parameters equal. Takes a moment."""
        self._replicas.find_parallel_modules()

    def divide(self, tree: Tree, state: object) -> DividedTree:
        """The part of the tree that this rank saves, in a state that is now as the tree is."""
        equal, first = self._replicas.of_state(state)
        whole = [
            leaf
            for leaf in tree.leaves
            if leaf.is_replicated or (leaf.shard is None and leaf.identity in equal)
        ]
        parts = dict(zip(map(id, whole), self._flat_parts(whole), strict=True))
        leaves = tuple(
            parts[id(leaf)] if id(leaf) in parts else self._part(leaf, first)
            for leaf in tree.leaves
        )
        self._warn_of_large(leaves)
        return DividedTree(
            tree=replace(tree, leaves=leaves), equal=tuple(whole), layout=_layout(whole)
        )

    def _flat_parts(self, leaves: Sequence[Leaf]) -> list[Leaf]:
        """This rank's part of each array, so that every rank has about as many bytes."""
        total = sum(leaf.nbytes for leaf in leaves)
        parts: list[Leaf] = []
        start = 0
        for leaf in leaves:
            first, last = (
                self._cut(leaf, start, total, rank) for rank in (self._rank, self._rank + 1)
            )
            parts.append(_flat_part(leaf, first, last))
            start += leaf.nbytes
        return parts

    def _cut(self, leaf: Leaf, start: int, total: int, rank: int) -> int:
        """Up to which byte of an array the ranks before this one save it."""
        cut = rank * total // self._size - start
        if leaf.nbytes <= _SMALL_BYTES_MAX:
            # All of it belongs to the rank in whose share it begins.
            return leaf.nbytes if cut > 0 or rank == self._size else 0
        if cut >= leaf.nbytes or rank == self._size:
            return leaf.nbytes
        return max(0, cut) // _BLOCK_BYTES * _BLOCK_BYTES

    def _part(self, leaf: Leaf, first: Collection[object]) -> Leaf:
        if leaf.shard is None and leaf.identity in first:
            return _flat_part(leaf, 0, leaf.nbytes if self._rank == 0 else 0)
        if leaf.shard is not None and leaf.is_copy:
            return _nothing_of(leaf)
        if leaf.shard is not None:
            return replace(leaf, shape=leaf.local_shape)
        return leaf

    def _warn_of_large(self, leaves: Sequence[Leaf]) -> None:
        large = [leaf for leaf in leaves if leaf.shard is None and leaf.nbytes > _LARGE_OWN_BYTES]
        if large and not self._has_warned:
            self._has_warned = True
            log.warning(
                "Each of the %d ranks saves its own copy of %s (%d MB), because nothing says that "
                "it is equal on all ranks. If it is, wrap it in outlast.replicated(...).",
                self._size,
                ", ".join(leaf.path for leaf in large[:3]) + (", ..." if len(large) > 3 else ""),
                sum(leaf.nbytes for leaf in large) // 10**6,
            )


def hashes_of(leaves: Sequence[Leaf]) -> list[str]:
    """A hash of each complete array."""
    return [_hash_of(leaf) for leaf in leaves]


def _hash_of(leaf: Leaf) -> str:
    memory = leaf.library.memory(leaf.array)
    if memory is None:
        memory = np.empty(leaf.nbytes, np.uint8)
        if leaf.nbytes:
            leaf.library.copy_out(leaf.array, memory)
    return xxhash.xxh3_64_hexdigest(memory.data)


def _flat_part(leaf: Leaf, first: int, last: int) -> Leaf:
    """The bytes of an array from `first` to `last`."""
    elements = _elements(leaf)
    item = leaf.nbytes // elements if elements else 1
    start, stop = first // item, last // item
    return replace(
        leaf,
        shape=(stop - start,),
        nbytes=last - first,
        array=_run_of(leaf, start, stop),
        shard=Shard(global_shape=leaf.shape, offsets=(start,), is_flat=True),
    )


def _run_of(leaf: Leaf, start: int, stop: int) -> Any:
    """A run of the elements of an array, in C order."""
    if leaf.library.name == "jax":
        if start == stop:
            return None
        numbers = here(numbers_of(leaf.array))
        return numbers if stop - start == numbers.size else flat_slice(numbers, start, stop)
    flat = leaf.array if leaf.library.name != "torch" else leaf.array.detach()
    return flat.reshape(-1)[start:stop]


def _nothing_of(leaf: Leaf) -> Leaf:
    """An empty part of a distributed array."""
    assert leaf.shard is not None, "Only a distributed array has copies."
    return replace(
        leaf,
        shape=(0,),
        nbytes=0,
        array=None,
        shard=Shard(global_shape=leaf.shard.global_shape, offsets=(0,), is_flat=True),
    )


def _elements(leaf: Leaf) -> int:
    return int(np.prod(leaf.shape, dtype=np.int64))


def _layout(leaves: Sequence[Leaf]) -> str:
    rows: list[Any] = [[leaf.path, leaf.dtype, list(leaf.shape)] for leaf in leaves]
    return xxhash.xxh3_128_hexdigest(json.dumps(rows).encode())
