"""Ranks that are killed at chosen points, as forks: the others end, and no bit changes."""

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.faults.kill_points import JOIN, Kill
from tests.rank_kills import STORE, KillingGround, kill_until_finished, killing_ground

pytestmark = pytest.mark.needs("torch")


@pytest.fixture(scope="module")
def ground() -> Iterator[KillingGround]:
    with killing_ground() as found:
        yield found


@pytest.mark.parametrize(("kind", "size", "seed"), [("ddp", 3, 1), ("fsdp", 4, 2)])
def test_a_training_that_is_killed_again_and_again_ends_with_the_same_bits(
    kind: str, size: int, seed: int, ground: KillingGround, tmp_path: Path
) -> None:
    kill_until_finished(ground, kind, size, tmp_path, seed, lives_max=3)

    assert ground.total


def test_a_rank_that_dies_before_it_opens_the_run_is_missed(
    ground: KillingGround, tmp_path: Path
) -> None:
    options = {"kill": asdict(Kill(rank=1, point=JOIN)), "store_rank": STORE}

    life = ground.live("ddp", 2, tmp_path, options, {"OUTLAST_JOIN_SECONDS": "1"})

    assert life.codes == [75, -9], life.text()
    assert "rank 1 has not opened the run for" in life.programs[0].text()


def test_a_store_that_is_gone_does_not_keep_a_rank_that_connects(
    ground: KillingGround, tmp_path: Path
) -> None:
    kill = asdict(Kill(rank=0, point=JOIN))

    life = ground.live("ddp", 2, tmp_path, {"kill": kill, "opens_after_kill": True})

    assert life.codes == [-9, 75], life.text()
    assert "The store between the ranks at 127.0.0.1:" in life.programs[1].text()


def test_a_rank_with_shards_reads_only_the_parts_that_it_needs(
    ground: KillingGround, tmp_path: Path
) -> None:
    first = ground.live("fsdp", 4, tmp_path, {"signal_at": [2, 3], "signal": "SIGTERM"})
    assert first.codes == [75] * 4, first.text()

    resumed = ground.live("fsdp", 4, tmp_path, {"counts_parts": True})

    assert resumed.codes == [0] * 4, resumed.text()
    for rank in range(4):
        before_training = resumed.programs[rank].text().split("ready")[0]
        read = {line[-10:-5] for line in before_training.splitlines() if "part " in line}
        # Its own, and that of rank 0 with the step counters of the optimizer.
        assert read == {"00000", f"{rank:05d}"}, resumed.text()
