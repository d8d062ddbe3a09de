"""Queues, measured: the bare loop as the limit, ours, and the peers that are installed."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]


def report(rounds: int = 5, chunks: Sequence[int] = (100, 10, 1)) -> str:
    """Both kinds of queue, measured by the interpreter that has the peers."""
    options = ["--rounds", str(rounds), "--chunks", ",".join(map(str, chunks))]
    return "\n".join(_printed_by(name, options) for name in ("bench.queue", "bench.queue.postgres"))


def _printed_by(module: str, options: list[str]) -> str:
    python = os.environ.get("OUTLAST_BENCH_PYTHON") or sys.executable
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [python, "-m", module, *options], stdout=subprocess.PIPE, text=True, env=environ, check=True
    )
    return done.stdout
