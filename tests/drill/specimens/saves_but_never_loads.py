"""Saves, but never loads what it saved."""

from tests.drill.specimens.habits import STEPS, Notice, finish, save, work

notice = Notice()
for step in range(STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    save(step + 1)
finish()
