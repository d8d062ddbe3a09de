"""Saves, never loads what it saved, and prints nothing."""

from tests.drill.specimens.habits import STEPS, Notice, finish, save, work

notice = Notice()
for step in range(STEPS):
    notice.leave_if_given()
    work()
    save(step + 1)
finish()
