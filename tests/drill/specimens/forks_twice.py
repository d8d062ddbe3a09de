"""Does its work in a grandchild process, as a nested launcher does; nothing handles SIGTERM."""

import os
import sys

from tests.drill.specimens.habits import STEPS, finish, save, saved_step, work

for _ in range(2):
    if child := os.fork():
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
for step in range(saved_step(), STEPS):
    work()
    print("step", step, flush=True)
    save(step + 1)
finish()
