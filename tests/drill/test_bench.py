"""Benchmarks that are killed leave nothing behind, neither files nor processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench.__main__ import RESULTS
from tests.patience import PATIENCE_SECONDS, eventually

ROOT = RESULTS.parents[1]


@contextmanager
def benchmark_that_writes(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A benchmark that has begun to write into its folder."""
    command = [sys.executable, "-m", "bench", "housekeeping"]
    environ = os.environ | {"OUTLAST_BENCH_FOLDER": str(folder)}
    with subprocess.Popen(command, cwd=ROOT, env=environ) as process:
        try:
            eventually(
                lambda: list(folder.glob("outlast-bench-*/outlast-bench-*/*")), "a file was written"
            )
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_killed_benchmark_leaves_no_files(tmp_path: Path, number: int, code: int) -> None:
    before = RESULTS.read_bytes()
    with benchmark_that_writes(tmp_path) as process:
        process.send_signal(number)

        assert process.wait(PATIENCE_SECONDS) == code
        eventually(lambda: not list(tmp_path.iterdir()), "the folder was removed")
    assert RESULTS.read_bytes() == before


def test_the_next_benchmark_removes_what_a_lost_one_left(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / f"outlast-bench-{ended.pid}-x"
    ours = tmp_path / f"outlast-bench-{os.getpid()}-x"
    left.mkdir()
    ours.mkdir()

    with benchmark_that_writes(tmp_path):
        assert not left.exists()
        assert ours.exists()


def test_an_unknown_topic_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "gaurd"], cwd=ROOT, capture_output=True, text=True
    )

    assert done.returncode == 2
    assert "unknown topic gaurd; known: guard, " in done.stderr
