"""Keeps its state outside its folder, as with a bucket, and resumes."""

import os
from pathlib import Path

from tests.drill.specimens.habits import STEPS, Notice, finish, work, write_safely

state = Path(os.environ["TMPDIR"]).parent.parent / "bucket.txt"
notice = Notice()
for step in range(int(state.read_text()) if state.exists() else 0, STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    write_safely(state, str(step + 1))
finish()
