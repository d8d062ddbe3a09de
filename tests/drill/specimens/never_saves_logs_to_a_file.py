"""Never saves and prints nothing, but appends every step to a log file."""

from pathlib import Path

from tests.drill.specimens.habits import STEPS, finish, work

with Path("train.log").open("a", buffering=1) as log:
    for step in range(STEPS):
        work()
        log.write(f"step {step}\n")
finish()
