"""A thousand kills of ranks at every point of a save, of a resume and of their start."""

import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.kill_points import ANY_RANK, RANK_0
from tests.rank_kills import KINDS, KillingGround, kill_until_finished, killing_ground

pytestmark = [pytest.mark.soak, pytest.mark.timeout(0), pytest.mark.needs("torch")]

KILLS = 1000
SIZES = (2, 3, 4)
# Most of a life is waiting.
AT_ONCE = 8


def test_a_thousand_kills_leave_nothing_torn_and_change_no_bit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with killing_ground() as ground:
        for kind, size in itertools.product(KINDS, SIZES):
            ground.expected(kind, size, tmp_path)
        seeds = _Seeds(ground)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for done in [pool.submit(_work, ground, tmp_path, seeds) for _ in range(AT_ONCE)]:
                done.result()

    with capsys.disabled():
        print(_summary(ground))
    assert ground.total >= KILLS
    assert [point for point in (*ANY_RANK, *RANK_0) if not ground.passed(point)] == []
    assert all(ground.kills[f"{kind}, {size} ranks"] for kind in KINDS for size in SIZES)


class _Seeds:
    """New seeds until there were enough kills, or a training went wrong."""

    def __init__(self, ground: KillingGround) -> None:
        self._ground = ground
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self.has_failed = False

    def __iter__(self) -> Iterator[int]:
        while self._ground.total < KILLS and not self.has_failed:
            with self._lock:
                number = next(self._numbers)
            yield number


def _work(ground: KillingGround, folder: Path, seeds: _Seeds) -> None:
    for seed in seeds:
        # Every kind with every size in turn.
        kind, size = KINDS[seed % 2], SIZES[seed // 2 % 3]
        try:
            kill_until_finished(ground, kind, size, folder, seed)
        except BaseException:
            seeds.has_failed = True
            raise


def _summary(ground: KillingGround) -> str:
    lines = [f"{ground.total} kills in {ground.lives} lives, {ground.finished} of them finished"]
    lines += [f"{count:6} {what}" for what, count in sorted(ground.kills.items())]
    lines += [f"{count:6} {where}" for where, count in sorted(ground.points.items())]
    return "\n".join(["", *lines])
