"""Ignores SIGTERM, but saves every step and resumes."""

import signal

from tests.drill.specimens.habits import STEPS, finish, save, saved_step, work

signal.signal(signal.SIGTERM, signal.SIG_IGN)
for step in range(saved_step(), STEPS):
    work()
    print("step", step)
    save(step + 1)
finish()
