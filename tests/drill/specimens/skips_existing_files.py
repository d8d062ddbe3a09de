"""Writes one file per item and skips those that exist; prints nothing and reads nothing."""

from pathlib import Path

from tests.drill.specimens.habits import STEPS, finish, work, write_safely

for item in range(3 * STEPS):
    target = Path(f"item-{item:03}.txt")
    if not target.exists():
        work()
        write_safely(target, "done")
finish()
