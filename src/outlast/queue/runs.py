"""Runs of neighbouring items that share one fate. Pure.

Items have consecutive numbers. Those that wait or are leased together are kept as ranges of these
numbers, so that a chunk of a hundred costs what a chunk of one does.
"""

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple


class Run(NamedTuple):
    """The items `first` to `last`, both included.

    `suspects` is 0, or names a group that is claimed apart from others. `published` is wall time.
    """

    first: int
    last: int
    failures: int = 0
    suspects: int = 0
    published: float = 0.0


def size(runs: Iterable[Run]) -> int:
    return sum(run.last - run.first + 1 for run in runs)


def numbers(runs: Iterable[Run]) -> Iterator[int]:
    for run in runs:
        yield from range(run.first, run.last + 1)


def cut(runs: Sequence[Run], count: int) -> tuple[list[Run], list[Run]]:
    """The first `count` items, and the rest."""
    before: list[Run] = []
    for index, run in enumerate(runs):
        length = run.last - run.first + 1
        if count < length:
            if count > 0:
                before.append(run._replace(last=run.first + count - 1))
                run = run._replace(first=run.first + count)
            return before, [run, *runs[index + 1 :]]
        before.append(run)
        count -= length
    return before, []


def picked(runs: Iterable[Run], wanted: AbstractSet[int]) -> tuple[list[Run], list[Run]]:
    """The wanted items, and the others."""
    inside: list[Run] = []
    outside: list[Run] = []
    for run in runs:
        start = run.first
        is_inside = start in wanted
        for number in range(run.first + 1, run.last + 1):
            if (number in wanted) != is_inside:
                (inside if is_inside else outside).append(
                    run._replace(first=start, last=number - 1)
                )
                start, is_inside = number, not is_inside
        (inside if is_inside else outside).append(run._replace(first=start))
    return inside, outside
