"""Ranges of consecutive items in the same state. Pure.

Items have consecutive numbers. Items that wait or are leased together are stored as ranges of these
numbers, so a chunk of a hundred costs no more than a chunk of one.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple


class ItemRange(NamedTuple):
    """The items `first` to `last`, inclusive.

    `suspects` is 0, or the number of a group that is claimed separately from all other items.
    `published` is wall time.
    """

    first: int
    last: int
    failures: int = 0
    suspects: int = 0
    published: float = 0.0


def size(ranges: Iterable[ItemRange]) -> int:
    return sum(one.last - one.first + 1 for one in ranges)


def numbers(ranges: Iterable[ItemRange]) -> Iterator[int]:
    for one in ranges:
        yield from range(one.first, one.last + 1)


def split_at(ranges: Sequence[ItemRange], count: int) -> tuple[list[ItemRange], list[ItemRange]]:
    """The first `count` items, and the rest."""
    before: list[ItemRange] = []
    for index, one in enumerate(ranges):
        length = one.last - one.first + 1
        if count < length:
            if count > 0:
                before.append(one._replace(last=one.first + count - 1))
                one = one._replace(first=one.first + count)
            return before, [one, *ranges[index + 1 :]]
        before.append(one)
        count -= length
    return before, []


def partition(
    ranges: Iterable[ItemRange], wanted: AbstractSet[int]
) -> tuple[list[ItemRange], list[ItemRange]]:
    """The wanted items, and the others."""
    inside: list[ItemRange] = []
    outside: list[ItemRange] = []
    for one in ranges:
        start = one.first
        is_inside = start in wanted
        for number in range(one.first + 1, one.last + 1):
            if (number in wanted) != is_inside:
                (inside if is_inside else outside).append(
                    one._replace(first=start, last=number - 1)
                )
                start, is_inside = number, not is_inside
        (inside if is_inside else outside).append(one._replace(first=start))
    return inside, outside
