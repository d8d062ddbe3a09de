"""Runs killed at 200 random instants. A failure prints the seed that repeats it."""

import random
import signal
from pathlib import Path

import pytest

from outlast.checkpoint.restoring.parts import verify_checkpoint
from outlast.checkpoint.runs.catalog import manifest_names, read_manifest
from outlast.storage import open_store
from tests.faults.lives import life

pytest.importorskip("torch")

from tests.faults.training import Plan, train

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]

KILLS = 200
LIVES_MAX = 25


@pytest.mark.parametrize("seed", [1, 2])
def test_200_kills_at_random_instants_leave_every_run_bit_identical(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    calm = Plan(url=str(tmp_path / "calm"), result=tmp_path / "expected", pause_seconds=0.0)
    with life(train, calm, log=tmp_path / "log") as one:
        assert one.wait() == 0, one.output
    kills = runs = 0

    while kills < KILLS:
        runs += 1
        plan = Plan(url=str(tmp_path / f"run-{runs}"), result=tmp_path / f"result-{runs}")
        killed = _killed_until_done(plan, chance, tmp_path / f"log-{runs}")
        kills += killed
        expected = calm.result.read_text()
        assert plan.result.read_text() == expected, f"seed {seed}, run {runs}, {killed} kills"

    print(f"seed {seed}: {kills} kills in {runs} runs")


def _killed_until_done(plan: Plan, chance: random.Random, log: Path) -> int:
    """Kill the run at random instants until it ends by itself; how often it was killed."""
    for kills in range(LIVES_MAX):
        with life(train, plan, log=log) as one:
            if not one.ended_within(chance.uniform(0.02, 0.5)):
                one.signal(signal.SIGKILL)
            code = one.wait()
        assert code in (0, 137), one.output
        store = open_store(plan.url)
        for name in manifest_names(store):
            assert verify_checkpoint(store, read_manifest(store, name), lambda _: None) == []
        if code == 0:
            return kills
    with life(train, plan, log=log) as last:
        assert last.wait() == 0, last.output
    return LIVES_MAX
