"""Uses `outlast.Run`, but in a folder that is named after the time of the start."""

import time

import outlast
from tests.drill.specimens.habits import STEPS, finish, work

state = {"total": 0}
with outlast.Run(f"run-{time.time_ns()}", state) as run:
    for step in run.steps(STEPS):
        work()
        state["total"] += step
finish(state["total"])
