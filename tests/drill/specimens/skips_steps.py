"""Resumes a few steps too late, so that some are never done; the result does not show it."""

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
start = saved_step()
for step in range(start + 4 if start else 0, 3 * STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    save(step + 1)
finish()
