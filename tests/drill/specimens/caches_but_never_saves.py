"""Prepares numbered shards once and reads them later, but never saves its progress."""

from pathlib import Path

from tests.drill.specimens.habits import STEPS, finish, work

for number in range(5):
    shard = Path(f"shard-{number}.txt")
    if not shard.exists():
        print(f"preparing shard {number + 1} of 5")
        shard.write_text("data")
    shard.read_text()
for step in range(STEPS):
    work()
    print("step", step)
finish()
