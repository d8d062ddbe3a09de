"""Prints every shard that it prepares, once; then trains in silence, and never saves that."""

from pathlib import Path

from tests.drill.specimens.habits import STEPS, finish, work

for number in range(STEPS // 4):
    shard = Path(f"shard-{number:03}.txt")
    if not shard.exists():
        work()
        shard.write_text("data")
        print("shard", number)
for _ in range(STEPS):
    work()
finish()
