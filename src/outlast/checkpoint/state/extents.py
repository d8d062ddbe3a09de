"""Which arrays share memory. Pure: compares addresses."""

import bisect
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

Extent: TypeAlias = tuple[str, int, int]
"""The memory that an array uses: the device, the first address, and the end."""


def overlapping(extents: Collection[Extent | None]) -> Iterator[list[tuple[int, int, int]]]:
    """The groups of arrays that share memory, as start, end and index of each."""
    in_order = sorted(
        (*extent, index) for index, extent in enumerate(extents) if extent is not None
    )
    group: list[tuple[int, int, int]] = []
    group_end: tuple[str, int] = ("", 0)
    for device, start, end, index in in_order:
        if group and (device != group_end[0] or start >= group_end[1]):
            if len(group) > 1:
                yield group
            group = []
        group_end = (device, max(end, group_end[1]) if group else end)
        group.append((start, end, index))
    if len(group) > 1:
        yield group


def are_apart(apart: Sequence[Extent], others: Iterable[Extent | None]) -> bool:
    """Whether no two arrays share memory. `apart` are in order, and known to share none."""
    rest = sorted(extent for extent in others if extent is not None)
    return not any(_is_in(extent, apart) for extent in rest) and not any(
        before[0] == after[0] and before[2] > after[1] for before, after in pairwise(rest)
    )


def _is_in(extent: Extent, apart: Sequence[Extent]) -> bool:
    device, start, end = extent
    # The last that begins before the end of this one. Those before it end earlier.
    at = bisect.bisect_left(apart, (device, end)) - 1
    return at >= 0 and apart[at][0] == device and apart[at][2] > start
