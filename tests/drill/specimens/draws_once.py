"""Writes a numbered sample unless it exists, but trains from the start; prints nothing."""

from pathlib import Path

from tests.drill.specimens.habits import STEPS, finish, work

for step in range(3 * STEPS):
    work()
    sample = Path(f"sample-{step:03}.txt")
    if not sample.exists():
        sample.write_text("drawn")
finish()
