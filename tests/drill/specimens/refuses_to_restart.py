"""Leaves a lock file behind when it is killed, and then refuses to start."""

import sys
from pathlib import Path

from tests.drill.specimens.habits import STEPS, finish, work

lock = Path("lock")
if lock.exists():
    sys.exit("error: another process holds the lock\nhint: is it still running?")
lock.touch()
for step in range(STEPS):
    work()
    print("step", step)
lock.unlink()
finish()
