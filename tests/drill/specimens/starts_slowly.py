"""Needs a while before its handler is set and its first line is printed."""

import time

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

time.sleep(0.8)
notice = Notice()
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    save(step + 1)
finish()
