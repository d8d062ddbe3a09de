"""Writes the absolute path of its folder into the result, as many checkpoints do."""

from pathlib import Path

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    save(step + 1)
finish(str(Path("model.pt").resolve()))
