"""Its final save takes longer than the grace period; its routine saves are fast."""

import time
from pathlib import Path

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), STEPS):
    work()
    print("step", step)
    save(step + 1)
    if notice.given:
        with Path("final.new").open("w") as file:
            while True:
                file.write("x" * 1000)
                file.flush()
                time.sleep(0.02)
finish()
