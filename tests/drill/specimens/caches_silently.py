"""Prepares a cache once and reads it later; prints nothing, and never saves its progress."""

from pathlib import Path

from tests.drill.specimens.habits import STEPS, finish, work

cache = Path("cache.txt")
if not cache.exists():
    for _ in range(10):
        work()
    cache.write_text("data")
cache.read_text()
for _ in range(STEPS):
    work()
finish()
