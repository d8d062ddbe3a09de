"""Loops over epochs in real processes, evicted and killed at random moments."""

import random
import signal
from pathlib import Path

import pytest

from tests.faults.lives import life

pytest.importorskip("torch")

from tests.faults.epochs import BATCHES, EPOCHS, train

# An epoch has two moments for each batch and four others.
MOMENTS = EPOCHS * (2 * BATCHES + 4)
CODES = {signal.SIGTERM: 75, signal.SIGKILL: 137}


@pytest.mark.parametrize("_number", range(3))
def test_signals_at_random_moments_change_no_bit(_number: int, tmp_path: Path) -> None:
    seed = random.Random().randrange(2**32)
    rng = random.Random(seed)
    calm, result = tmp_path / "calm", tmp_path / "result"
    with life(train, str(tmp_path / "calm-run"), calm, None, 0, seed, log=tmp_path / "log") as one:
        assert one.wait() == 0, one.output

    lives = 0
    while not result.exists():
        number = rng.choice(list(CODES))
        # At some point a life must reach the end.
        ends_at = rng.randrange(MOMENTS) if lives < 6 else None
        arguments = (str(tmp_path / "run"), result, ends_at, number, seed)
        with life(train, *arguments, log=tmp_path / f"log-{lives}") as one:
            assert one.wait() in (0, CODES[number]), f"seed {seed}\n{one.output}"
        lives += 1

    assert result.read_text() == calm.read_text(), f"seed {seed}"
