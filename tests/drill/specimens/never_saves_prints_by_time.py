"""Never saves, and prints its step every tenth of a second."""

import time

from tests.drill.specimens.habits import STEPS, finish, work

printed = time.monotonic()
for step in range(STEPS):
    work()
    if time.monotonic() - printed > 0.1:
        printed = time.monotonic()
        print("step", step)
finish()
