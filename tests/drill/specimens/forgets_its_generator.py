"""Resumes its step and its total, but not the random generator."""

import json

from tests.drill.specimens.habits import (
    CHECKPOINT,
    STEPS,
    Notice,
    finish,
    seeded,
    work,
    write_safely,
)

notice, numbers = Notice(), seeded()
state: dict[str, float] = (
    json.loads(CHECKPOINT.read_text()) if CHECKPOINT.exists() else {"step": 0, "total": 0.0}
)
for step in range(int(state["step"]), STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    state = {"step": step + 1, "total": state["total"] + numbers.random()}
    write_safely(CHECKPOINT, json.dumps(state))
finish(state["total"])
