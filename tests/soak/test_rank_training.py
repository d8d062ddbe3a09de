"""Many kills of ranks at every point of a save."""

import random
from pathlib import Path

import pytest

from tests.drill.test_rank_training import KINDS, live_until_killed, results

LIVES = 50


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("round_number", range(10))
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_kills_leave_nothing_torn_and_change_no_bit(
    kind: str, round_number: int, tmp_path: Path
) -> None:
    expected = results(kind, tmp_path / "calm", 2)
    chance = random.Random(round_number)

    for life in range(LIVES):
        folder = tmp_path / f"killed-{life // 5}"
        if not live_until_killed(kind, folder, chance, range(8, 130)):
            assert results(kind, folder, 2) == expected
