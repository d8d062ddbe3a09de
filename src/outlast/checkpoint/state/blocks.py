"""Blocks of tensors that are as they were when the state was last captured.

Most of a state are the tensors of modules and optimizers, in one dict or in dicts in a dict. From
one save to the next, only their values change. What a capture made of such a block is used again if
everything that it follows from is equal: the keys, the facts of each tensor, its place in the tree,
and that nothing in it is elsewhere in the state. No tensor is kept alive.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

from outlast.checkpoint.state.extents import Extent, are_apart
from outlast.checkpoint.state.torch_arrays import facts_of, plain_classes

_KEYS = frozenset({str, int})
_PARTS = frozenset({dict})
# Fewer arrays are captured as fast without.
_ARRAYS_MIN = 8


class TensorBlock(NamedTuple):
    """A dict of plain tensors, or of dicts of them (`parts`), as it is now."""

    keys: list[str | int]
    lengths: list[int]
    parts: list[dict[str | int, Any]]
    arrays: list[Any]
    facts: list[tuple[object, ...]]

    @property
    def distinct(self) -> int:
        """How many there are of the arrays, if tied ones count once."""
        return len({(start, *form[:3]) for _, _, start, *form in self.facts})


def block_of(thing: Mapping[Any, Any]) -> TensorBlock | None:
    """The block that a dict is; None if there is anything else in it."""
    if "torch" not in sys.modules:
        return None
    arrays, parts, keys = list(thing.values()), list[Any](), list(thing)
    if set(map(type, arrays)) == _PARTS:
        parts = arrays
        arrays = list(chain.from_iterable(part.values() for part in parts))
        keys += chain.from_iterable(parts)
    # Keys of other classes may be equal and yet written differently, such as True and 1.
    if not _KEYS.issuperset(map(type, keys)):
        return None
    if len(arrays) < _ARRAYS_MIN or not plain_classes().issuperset(map(type, arrays)):
        return None
    try:
        facts = facts_of(arrays)
    except RuntimeError:  # the capture reports which of them cannot be saved
        return None
    return TensorBlock(keys, list(map(len, parts)), parts, arrays, facts)


@dataclass(frozen=True, kw_only=True, slots=True)
class CapturedBlock:
    """What a capture made of a block, and its `place` in the tree.

    That is its depth, and how many leaves and shared containers came before it.
    """

    keys: list[str | int]
    lengths: list[int]
    facts: list[tuple[object, ...]]
    place: tuple[int, int, int]
    node: dict[str, Any]
    owners: list[int]
    """Which of the arrays are leaves: of tied ones, only the first is."""
    columns: list[tuple[Any, ...]]
    """The leaves, field by field. Their arrays are left out."""
    index: dict[object, int]
    """The number of each leaf, by its identity."""
    extents: list[Extent]

    @classmethod
    def of(
        cls,
        block: TensorBlock,
        place: tuple[int, int, int],
        node: dict[str, Any],
        leaves: Sequence[Any],
        extents: Sequence[Extent | None],
    ) -> "CapturedBlock | None":
        """A block that was captured as this; None if it has arrays without bytes in memory."""
        used = [extent for extent in extents if extent is not None and extent[0] == "cpu"]
        if len(used) < len(leaves):
            # They are named by their objects, or copied by their library.
            return None
        first = {id(array): at for at, array in reversed([*enumerate(block.arrays)])}
        columns = list(zip(*(leaf._replace(array=None) for leaf in leaves), strict=True))
        identities = [leaf.identity for leaf in leaves]
        return cls(
            keys=block.keys,
            lengths=block.lengths,
            facts=block.facts,
            place=place,
            node=node,
            owners=[first[id(leaf.array)] for leaf in leaves],
            columns=columns,
            index=dict(zip(identities, range(place[1], place[1] + len(leaves)), strict=True)),
            extents=used,
        )

    def is_of(self, block: TensorBlock, place: tuple[int, int, int]) -> bool:
        """Whether a capture would make the same of this block at this place."""
        return (
            self.place == place
            and self.facts == block.facts
            and self.keys == block.keys
            and self.lengths == block.lengths
        )

    def leaves_of(self, block: TensorBlock, array_field: int) -> Iterator[tuple[Any, ...]]:
        """The fields of each leaf, with the arrays of this block."""
        arrays = [block.arrays[number] for number in self.owners]
        before, after = self.columns[:array_field], self.columns[array_field + 1 :]
        return zip(*before, arrays, *after, strict=True)


class CaptureMemory:
    """The blocks of the last capture, by their paths. No two of their arrays share memory."""

    def __init__(self) -> None:
        self.blocks: dict[str, CapturedBlock] = {}
        self._extents: list[Extent] = []

    def keep(self, blocks: dict[str, CapturedBlock]) -> None:
        """Remember these blocks, whose arrays do not share memory."""
        self.blocks = blocks
        self._extents = sorted(chain.from_iterable(one.extents for one in blocks.values()))

    def are_apart(
        self, blocks: Mapping[str, CapturedBlock], extents: Sequence[Extent | None]
    ) -> bool:
        """Whether these are the same blocks, and no array of the state shares memory.

        `extents` are of all leaves, those in the blocks among them.
        """
        if len(blocks) != len(self.blocks):
            return False
        others: list[Extent | None] = []
        at = 0
        for path, block in blocks.items():
            if self.blocks.get(path) is not block:
                return False
            others += extents[at : block.place[1]]
            at = block.place[1] + len(block.owners)
        others += extents[at:]
        return are_apart(self._extents, others)
