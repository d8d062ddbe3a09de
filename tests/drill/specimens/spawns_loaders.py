"""Reads its data through two worker processes."""

import subprocess
import sys

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

loader = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
notice = Notice()
loaders = [subprocess.Popen(loader) for _ in range(2)]
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    save(step + 1)
finish()
for one in loaders:
    one.kill()
    one.wait()
