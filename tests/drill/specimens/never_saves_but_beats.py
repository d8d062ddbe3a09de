"""Never saves and prints nothing, but updates a status file by a timer. Its first start is slow."""

import os
import threading
import time
from pathlib import Path

from tests.drill.specimens.habits import CHECKPOINT, STEPS, finish, save, saved_step, work


def beat() -> None:
    while True:
        time.sleep(0.02)
        save(saved_step() + 1)


if not CHECKPOINT.exists():
    save(0)
threading.Thread(target=beat, daemon=True).start()
warm = Path(os.environ["TMPDIR"]).parent.parent / "warm"
if not warm.exists():
    time.sleep(2)
    warm.touch()
for _ in range(STEPS):
    work()
finish()
