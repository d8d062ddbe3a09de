"""The loops of the page, run as it shows them, with the real frameworks."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.frameworks.loops import AdaptedLoop, adapted_loops, arrays_in

LOOPS = adapted_loops()
CHANGED_LINES_MAX = 8
# On a busy machine, a job may finish before its evictions come.
INCONCLUSIVE = 4
ATTEMPTS_MAX = 10
ENVIRON = {
    **os.environ,
    # Small models: more threads than cores cost more than they give.
    "OMP_NUM_THREADS": "1",
    # By time, a kill could come before the first save, and the drill would rightly object.
    "OUTLAST_EVERY_STEPS": "10",
}


def test_the_page_shows_seven_loops_with_few_changed_lines() -> None:
    names = [loop.name for loop in LOOPS]
    assert names == ["torch", "epochs", "jax", "flax", "sklearn", "xgboost", "lightgbm"]
    for loop in LOOPS:
        assert loop.changed_lines <= CHANGED_LINES_MAX, loop.name


def drilled(
    program: Path, folder: Path, *, kept: Path, seed: int
) -> "subprocess.CompletedProcess[str]":
    drill = [sys.executable, "-m", "outlast", "drill", "--evictions", "2", "--seed", str(seed)]
    options = ["--keep", str(kept), "--expect", "{dir}/result.npz"]
    command = [*drill, *options, "--", sys.executable, str(program), "{dir}"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=ENVIRON)


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.name)
def test_a_changed_loop_gives_the_bits_of_the_original_also_under_evictions(
    loop: AdaptedLoop, tmp_path: Path
) -> None:
    before, after = tmp_path / "before.py", tmp_path / "after.py"
    before.write_text(loop.before)
    after.write_text(loop.after)

    subprocess.run([sys.executable, before, tmp_path], check=True, env=ENVIRON)
    for seed in range(ATTEMPTS_MAX):
        kept = tmp_path / f"kept-{seed}"
        done = drilled(after, tmp_path, kept=kept, seed=seed)
        if done.returncode != INCONCLUSIVE:
            break

    assert done.returncode == 0, done.stdout + done.stderr
    assert "bit for bit" in done.stdout
    assert ": SIGTERM" in done.stderr and ": no notice" in done.stderr
    # Of the pass without evictions, and of the one with them.
    results = list(kept.rglob("result.npz"))
    assert len(results) >= 2, done.stdout
    for result in results:
        assert arrays_in(result) == arrays_in(tmp_path / "result.npz"), result
