"""Saves every second step and resumes, but prints nothing."""

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), 3 * STEPS):
    notice.leave_if_given()
    work()
    if notice.given or step % 2:
        save(step + 1)
finish()
