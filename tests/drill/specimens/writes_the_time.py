"""Resumes well, but writes the time into its result."""

import time

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    save(step + 1)
finish({"steps": STEPS, "ended": time.time()})
