"""Parts of arrays: whichever way an array was cut, any other part of it can be filled."""

import random

import numpy as np
import pytest

from outlast.checkpoint.format.boxes import Run, box_runs, common_runs, flat_runs, overlap


def cut(rng: random.Random, size: int, pieces: int) -> list[tuple[int, int]]:
    """Where each piece of an axis begins and ends. Some may be empty."""
    edges = sorted(rng.randint(0, size) for _ in range(pieces - 1))
    return list(zip([0, *edges], [*edges, size], strict=True))


def runs_and_values(
    rng: random.Random, array: "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"
) -> list[tuple[list[Run], "np.ndarray[tuple[int, ...], np.dtype[np.int64]]"]]:
    """The array in random parts, each with its elements."""
    if rng.random() < 0.3:
        flat = array.reshape(-1)
        return [
            (flat_runs(first, last - first), flat[first:last])
            for first, last in cut(rng, flat.size, rng.randint(1, 4))
        ]
    axis = rng.randrange(array.ndim)
    found: list[tuple[list[Run], np.ndarray[tuple[int, ...], np.dtype[np.int64]]]] = []
    for first, last in cut(rng, array.shape[axis], rng.randint(1, 4)):
        box = np.take(array, range(first, last), axis)
        offsets = [first if number == axis else 0 for number in range(array.ndim)]
        found.append((box_runs(array.shape, offsets, box.shape), box.reshape(-1)))
    return found


@pytest.mark.parametrize("seed", range(200))
def test_any_part_can_be_filled_from_any_others(seed: int) -> None:
    rng = random.Random(seed)
    shape = [rng.randint(1, 5) for _ in range(rng.randint(1, 4))]
    array = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    sources = runs_and_values(rng, array)

    assert not overlap([runs for runs, _ in sources])
    for wanted, expected in runs_and_values(rng, array):
        found = np.full(expected.size, -1)
        for runs, values in sources:
            for run in common_runs(runs, wanted):
                found[run.target : run.target + run.length] = values[
                    run.source : run.source + run.length
                ]
        assert found.tolist() == expected.tolist()


def test_parts_that_overlap_are_noticed() -> None:
    whole = box_runs((4, 4), (0, 0), (4, 4))

    assert overlap([whole, box_runs((4, 4), (3, 3), (1, 1))])
    assert overlap([flat_runs(0, 9), box_runs((4, 4), (2, 0), (2, 4))])
    assert not overlap([flat_runs(0, 8), box_runs((4, 4), (2, 0), (2, 4))])
    assert not overlap([whole, box_runs((4, 4), (0, 0), (0, 4)), flat_runs(7, 0)])
