"""Queues, measured: the bare loop as the limit, ours, and the peers that are installed."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def report() -> str:
    """Both kinds of queue, measured by the interpreter that has the peers."""
    return "\n".join(map(_said_by, ("bench.queue", "bench.queue.postgres")))


def _said_by(module: str) -> str:
    python = os.environ.get("OUTLAST_BENCH_PYTHON") or sys.executable
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    done = subprocess.run(
        [python, "-m", module], stdout=subprocess.PIPE, text=True, env=environ, check=True
    )
    return done.stdout
