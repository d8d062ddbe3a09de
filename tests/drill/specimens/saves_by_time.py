"""Saves every tenth of a second rather than every few steps, and resumes."""

import time

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice, saved = Notice(), time.monotonic()
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    if notice.given or time.monotonic() - saved > 0.1:
        saved = time.monotonic()
        save(step + 1)
finish()
