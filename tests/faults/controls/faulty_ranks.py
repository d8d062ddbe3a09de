"""Ranks under torchrun with a fault. Without torch, because that takes long to import.

    python -m tests.faults.controls.faulty_ranks never-saves | deaf-node

`never-saves` starts over each time. With `deaf-node`, the first rank exits with 75 on SIGTERM; the
second one ignores that, and fails when the first is gone.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

STEPS = 30
_PAUSE_SECONDS = 0.05

# On no node, and not in the folder of the run, where a write would be a sign of life.
_SHARED = Path(os.environ["TMPDIR"]).parent
_RANK = int(os.environ["RANK"])
_LEFT = Path("left")


def never_saves() -> None:
    for step in range(STEPS):
        if _RANK == 0:
            print("step", step, flush=True)
        time.sleep(_PAUSE_SECONDS)
    if _RANK == 0:
        Path("result.txt").write_text(f"{STEPS} steps\n")


def deaf_node() -> None:
    if _LEFT.exists():
        return
    up = _SHARED / f"up-{os.environ['TORCHELASTIC_RUN_ID']}"
    if _RANK == 0:
        signal.signal(signal.SIGTERM, _leave)
        while not up.exists():
            time.sleep(0.01)
        print("all ranks are up", flush=True)
        while True:
            time.sleep(1)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    up.touch()
    while not _LEFT.exists():
        time.sleep(0.01)
    raise RuntimeError("rank 0 is gone")


def _leave(_number: int, _frame: object) -> NoReturn:
    _LEFT.touch()
    sys.exit(75)


if __name__ == "__main__":
    {"never-saves": never_saves, "deaf-node": deaf_node}[sys.argv[1]]()
