"""Saves, but empties its folder at each start."""

from pathlib import Path

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for path in Path().iterdir():
    path.unlink()
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    save(step + 1)
finish()
