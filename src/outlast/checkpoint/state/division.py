"""Divide the arrays of a state among the ranks that save it together.

What is equal on all ranks is cut into as many parts as there are ranks, so that the time, the
memory and the bytes of a save are divided too. Pure, apart from asking which arrays are equal.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from itertools import chain, compress, count
from operator import itemgetter, ne, not_
from typing import Any, NamedTuple

import numpy as np
import xxhash

from outlast._base.logs import get_logger
from outlast.checkpoint.state.jax_arrays import numbers_of
from outlast.checkpoint.state.jax_shards import flat_slice, here
from outlast.checkpoint.state.replicas import (
    Evidence,
    Replicas,
    ReplicatedArrays,
    identity_of,
)
from outlast.checkpoint.state.shards import Shard
from outlast.checkpoint.state.tree import Leaf, Tree, make_leaf

log = get_logger(__name__)

_BLOCK_BYTES = 4096
# Smaller arrays are not cut.
_SMALL_BYTES_MAX = 64 * 1024
# The share of a rank is at least this, so that a resume does not need the parts of all ranks for a
# few numbers, such as the step counters of an optimizer.
SHARE_BYTES_MIN = 64 * 1024
_LARGE_OWN_BYTES = 64 * 1024**2


@dataclass(frozen=True, kw_only=True, slots=True)
class DividedTree:
    """A state of which this rank saves the `tree`, whose leaves are parts of the arrays.

    `equal` gives the complete arrays that should be the same on all ranks; `layout` is a hash of
    their paths, dtypes and shapes.
    """

    tree: Tree
    equal: Callable[[], list[Leaf]]
    layout: str


class _Role(Enum):
    """Who saves an array."""

    EQUAL = "a part by each rank"
    FIRST = "rank 0"
    SHARD = "this rank, the part that it has"
    COPY = "another rank, which has the same part"
    OWN = "each rank for itself"


# Asking an enumeration for it takes longer than all else about an array.
_EQUAL = _Role.EQUAL


class _Fact(NamedTuple):
    """Everything that decides what this rank saves of an array."""

    path: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    role: _Role


def _fact(leaf: Leaf, role: _Role) -> _Fact:
    return _Fact(leaf.path, leaf.dtype, leaf.shape, leaf.nbytes, role)


# What of a leaf decides, with its role, what is saved of it and how that is described.
_HEAD = itemgetter(
    *(at for at, name in enumerate(Leaf._fields) if name not in ("array", "identity"))
)
_ARRAY, _IDENTITY = map(Leaf._fields.index, ("array", "identity"))
# And what its role follows from, with the arrays that are equal: whose memory it is.
_ROLE_FACTS = itemgetter(
    *map(Leaf._fields.index, ("nbytes", "identity", "shard", "is_copy", "is_replicated"))
)


class _Cut(NamedTuple):
    """The run of an array's elements that this rank saves."""

    shard: Shard
    shape: tuple[int, ...]
    nbytes: int
    skipped: int


class Division:
    """Which part of which array this rank saves.

    Between two saves, a state rarely changes in more than its values. Who saves an array, and where
    to cut it, are computed again only if a fact differs that they follow from.
    """

    def __init__(self, rank: int, size: int) -> None:
        self._rank = rank
        self._size = size
        self._replicas = ReplicatedArrays()
        self._has_warned = False
        self._evidence: Evidence | None = None
        self._addresses: frozenset[int] = frozenset()
        self._role_facts: list[Any] = []
        self._heads: list[Any] = []
        self._roles: list[_Role] = []
        self._parts: list[tuple[Any, ...]] | None = None
        self._cuts: list[_Cut | None] = []
        self._layout = _layout([])

    def prepare(self) -> None:
        """Look for the modules that keep their parameters equal. Takes a moment."""
        self._replicas.find_parallel_modules()

    def warn_of_order(self) -> None:
        """Say if a run that was resumed cannot have the bits of one that was not interrupted."""
        if self._rank == 0 and self._size > 2 and self._replicas.reorders_sums:
            log.warning(
                "DistributedDataParallel adds gradients in another order in the first step of a "
                "process. On %d ranks, a resumed run can therefore differ in the last bits from an "
                "uninterrupted one. To prevent that, pass find_unused_parameters=True to it.",
                self._size,
            )

    def divide(self, tree: Tree, state: object) -> DividedTree:
        """The part of the tree that this rank saves, in a state that is now as the tree is."""
        roles = self._roles_of(tree, state)
        # Compared without any work in Python, because there are thousands.
        heads = list(map(_HEAD, tree.leaves))
        is_new = heads != self._heads or roles != self._roles
        if is_new:
            facts = list(map(_fact, tree.leaves, roles))
            self._cuts = self._cut(facts)
            self._layout = _layout([fact for fact in facts if fact.role is _Role.EQUAL])
            self._heads, self._roles = heads, roles
        leaves = self._parts_of(tree.leaves, is_new=is_new)
        if is_new:
            self._warn_of_large(leaves)
        return DividedTree(
            tree=replace(tree, leaves=leaves),
            equal=lambda: [
                leaf for leaf, role in zip(tree.leaves, roles, strict=True) if role is _EQUAL
            ],
            layout=self._layout,
        )

    def _parts_of(self, leaves: Sequence[Leaf], *, is_new: bool) -> tuple[Leaf, ...]:
        """What this rank saves of each array."""
        if not is_new and self._parts is not None:
            # Field by field, without any work in Python.
            fields: list[Any] = list(self._parts)
            for number in (_ARRAY, _IDENTITY):
                fields[number] = map(itemgetter(number), leaves)
            return tuple(map(make_leaf, zip(*fields, strict=True)))
        parts = tuple(map(_part, leaves, self._roles, self._cuts))
        self._parts = None
        if all(part.array is leaf.array for part, leaf in zip(parts, leaves, strict=True)):
            self._parts = list(zip(*(part._replace(array=None) for part in parts), strict=True))
        return parts

    def _roles_of(self, tree: Tree, state: object) -> list[_Role]:
        facts = list(map(_ROLE_FACTS, tree.leaves))
        evidence = self._replicas.evidence(state)
        if evidence == self._evidence and self._are_as_before(tree.leaves, facts):
            return self._roles
        replicas = self._replicas.of_state(state, tree.leaves)
        self._evidence, self._addresses = evidence, frozenset(evidence.addresses)
        self._role_facts = facts
        return [_role(leaf, replicas) for leaf in tree.leaves]

    def _are_as_before(self, leaves: Sequence[Leaf], facts: Sequence[Any]) -> bool:
        """Whether every array has the same role, as long as the evidence is the same."""
        if len(facts) != len(self._role_facts):
            return False
        changed = compress(count(), map(ne, facts, self._role_facts))
        # An array without bytes is named by its object, and another can have that name later.
        empty = compress(count(), map(not_, map(itemgetter(0), facts)))
        # States of random generators, for example, are in new memory each time.
        return all(
            self._roles[number] is _Role.OWN and self._is_own(leaves[number])
            for number in chain(changed, empty)
        )

    def _is_own(self, leaf: Leaf) -> bool:
        """Whether the evidence alone shows that an array is not a replica."""
        assert self._evidence is not None, "It is compared first."
        if not self._evidence.is_complete or leaf.is_replicated or leaf.shard is not None:
            return False
        if leaf.library.name != "torch":
            return True
        found = leaf.library.location(leaf.array)
        return bool(leaf.nbytes) and found is not None and found[0] not in self._addresses

    def _cut(self, facts: Sequence[_Fact]) -> list[_Cut | None]:
        """This rank's part of each array, so that every rank has about as many bytes."""
        total = sum(fact.nbytes for fact in facts if fact.role is _Role.EQUAL)
        cuts: list[_Cut | None] = []
        start = 0
        for fact in facts:
            if fact.role is _Role.EQUAL:
                first, last = (
                    self._end(fact, start, total, rank) for rank in (self._rank, self._rank + 1)
                )
                cuts.append(_run_of(fact, first, last))
                start += fact.nbytes
            elif fact.role is _Role.FIRST:
                cuts.append(_run_of(fact, 0, fact.nbytes if self._rank == 0 else 0))
            else:
                cuts.append(None)
        return cuts

    def _end(self, fact: _Fact, start: int, total: int, rank: int) -> int:
        """Up to which byte of an array the ranks before this one save it."""
        end = max(rank * total // self._size, rank * SHARE_BYTES_MIN) - start
        if fact.nbytes <= _SMALL_BYTES_MAX:
            # All of it belongs to the rank in whose share it begins.
            return fact.nbytes if end > 0 or rank == self._size else 0
        if end >= fact.nbytes or rank == self._size:
            return fact.nbytes
        # No element is cut in two.
        block = math.lcm(_BLOCK_BYTES, _item_bytes(fact))
        return max(0, end) // block * block

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


def _role(leaf: Leaf, replicas: Replicas) -> _Role:
    if leaf.is_replicated:
        return _EQUAL
    if leaf.shard is not None:
        return _Role.COPY if leaf.is_copy else _Role.SHARD
    if id(leaf.array) in replicas.kept:
        return _EQUAL
    identity = leaf.identity if leaf.nbytes else identity_of(leaf.library, leaf.array)
    if identity in replicas.equal:
        return _EQUAL
    return _Role.FIRST if identity in replicas.first else _Role.OWN


def _run_of(fact: _Fact, first: int, last: int) -> _Cut:
    """The bytes of an array from `first` to `last`."""
    item = _item_bytes(fact)
    start, stop = first // item, last // item
    shard = Shard(global_shape=fact.shape, offsets=(start,), is_flat=True)
    return _Cut(shard, (stop - start,), last - first, first)


def _item_bytes(fact: _Fact) -> int:
    return fact.nbytes // (math.prod(fact.shape) or 1) or 1


def _part(leaf: Leaf, role: _Role, cut: _Cut | None) -> Leaf:
    """What this rank saves of an array."""
    if cut is not None:
        return _cut_out(leaf, cut)
    if role is _Role.SHARD:
        return leaf._replace(shape=leaf.local_shape)
    return _nothing_of(leaf) if role is _Role.COPY else leaf


def _cut_out(leaf: Leaf, cut: _Cut) -> Leaf:
    if leaf.library.name != "jax":
        # Not by `_replace`, which takes five times as long, for each of thousands.
        path, library, dtype, _, _, is_writable, array, _, is_copy, shape, name, is_equal, _ = leaf
        shard, part_shape, nbytes, skipped = cut
        facts = (path, library, dtype, part_shape, nbytes, is_writable, array, shard)
        return make_leaf((*facts, is_copy, shape, name, is_equal, skipped))
    # An array of JAX has no address, so that its part has to be an array as well.
    part = _jax_part(leaf.array, cut) if cut.nbytes else None
    return leaf._replace(shape=cut.shape, nbytes=cut.nbytes, shard=cut.shard, array=part)


def _jax_part(array: Any, cut: _Cut) -> Any:
    numbers = here(numbers_of(array))
    start, length = cut.shard.offsets[0], cut.shape[0]
    return numbers if length == numbers.size else flat_slice(numbers, start, start + length)


def _nothing_of(leaf: Leaf) -> Leaf:
    """An empty part of a distributed array."""
    assert leaf.shard is not None, "Only a distributed array has copies."
    return leaf._replace(
        shape=(0,),
        nbytes=0,
        array=None,
        shard=Shard(global_shape=leaf.shard.global_shape, offsets=(0,), is_flat=True),
    )


def _layout(facts: Sequence[_Fact]) -> str:
    rows: list[Any] = [[fact.path, fact.dtype, list(fact.shape)] for fact in facts]
    return xxhash.xxh3_128_hexdigest(json.dumps(rows).encode())
