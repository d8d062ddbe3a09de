"""Which bytes of one part of an array are bytes of another part of the same array.

Pure. Every part, whether a box or a run of elements, is a list of runs in the C order of the entire
array, so that any part can be filled from any others.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """Elements that are adjacent in the array and in a part of it."""

    start: int
    """Where the run begins in the array."""
    at: int
    """Where it begins in the part."""
    length: int


@dataclass(frozen=True, slots=True)
class CommonRun:
    """Elements that are adjacent in both of two parts: where they begin in each."""

    source: int
    target: int
    length: int


def box_runs(
    global_shape: Sequence[int], offsets: Sequence[int], shape: Sequence[int]
) -> list[Run]:
    """The runs of a box, in order."""
    if math.prod(shape) == 0:
        return []
    # The axes behind the last one that is cut are contiguous.
    cut = max((axis for axis, size in enumerate(shape) if size != global_shape[axis]), default=0)
    strides = [math.prod(global_shape[axis + 1 :]) for axis in range(len(global_shape))]
    inner = math.prod(shape[cut:])
    first = sum(offset * stride for offset, stride in zip(offsets, strides, strict=True))
    starts = [first]
    for axis in range(cut):
        starts = [start + index * strides[axis] for start in starts for index in range(shape[axis])]
    return [Run(start, number * inner, inner) for number, start in enumerate(starts)]


def flat_runs(offset: int, length: int) -> list[Run]:
    """The run of a flat part."""
    return [Run(offset, 0, length)] if length else []


def common_runs(source: Sequence[Run], target: Sequence[Run]) -> Iterator[CommonRun]:
    """The elements that both parts have. The runs of each part are in order."""
    one = other = 0
    while one < len(source) and other < len(target):
        a, b = source[one], target[other]
        start = max(a.start, b.start)
        end = min(a.start + a.length, b.start + b.length)
        if start < end:
            yield CommonRun(a.at + start - a.start, b.at + start - b.start, end - start)
        if a.start + a.length <= b.start + b.length:
            one += 1
        else:
            other += 1


def overlap(parts: Sequence[Sequence[Run]]) -> bool:
    """Whether two of these parts of one array have an element in common."""
    runs = sorted((run.start, run.length) for part in parts for run in part)
    ends = (start + length for start, length in runs)
    return any(end > start for end, (start, _) in zip(ends, runs[1:], strict=False))
