"""What only many calls show: all ranks get the same orders. A failure prints the seed."""

import random
from pathlib import Path

import pytest

from tests.drill.test_ranks import assert_unanimous
from tests.ranks import world_of

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800), pytest.mark.needs("torch")]


@pytest.mark.parametrize("size", [2, 3, 4])
def test_500_calls_at_random_ranks_and_moments_are_unanimous(size: int, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print("seed:", seed)

    with world_of(size, tmp_path, "trials", "--seed", str(seed), "--trials", "500") as world:
        assert world.codes() == [0] * size, world.output

        assert_unanimous(world, size, trials=500)
