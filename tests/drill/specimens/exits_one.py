"""Saves on SIGTERM and exits with 1, without an error."""

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), STEPS):
    notice.leave_if_given(code=1)
    work()
    print("step", step)
    save(step + 1)
finish()
