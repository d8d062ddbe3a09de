"""Prints the time and its process with every step, and resumes."""

import os
import time

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"{now},{step % 10}00 INFO [{os.getppid()}] step={step} at {time.perf_counter():.6f}")
    save(step + 1)
finish()
