"""Prints nothing, and saves only once, in the middle."""

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    if step == 3:
        save(step + 1)
finish()
