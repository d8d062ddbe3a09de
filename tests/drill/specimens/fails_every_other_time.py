"""Fails at every other restart, and resumes otherwise."""

import sys
from pathlib import Path

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice, failed = Notice(), Path("failed")
if saved_step() and not failed.exists():
    failed.touch()
    sys.exit("ConnectionError: the tracking server did not answer")
failed.unlink(missing_ok=True)
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    save(step + 1)
finish()
