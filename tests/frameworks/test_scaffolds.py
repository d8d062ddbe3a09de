"""`outlast scaffold training --framework NAME` for the frameworks of this environment."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

INCONCLUSIVE = 4
ATTEMPTS_MAX = 10
FRAMEWORKS = ["huggingface", "lightning"]


# It starts the program about six times, and each time imports the framework.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_project_passes_its_drill_as_written(framework: str, tmp_path: Path) -> None:
    environ = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "OUTPUT_DIR": str(tmp_path / "out"),
    }
    scaffold = ["outlast", "scaffold", "training", "my-job", "--framework", framework]
    subprocess.run(scaffold, cwd=tmp_path, check=True, env=environ)

    for seed in range(ATTEMPTS_MAX):
        drill = ["outlast", "drill", "--evictions", "2", "--seed", str(seed)]
        done = subprocess.run(
            [*drill, "--expect", "model.npz", "--", "python", "train.py"],
            cwd=tmp_path / "my-job",
            capture_output=True,
            text=True,
            env=environ,
        )
        if done.returncode != INCONCLUSIVE:
            break

    assert done.returncode == 0, done.stdout + done.stderr
    assert "bit for bit" in done.stdout
