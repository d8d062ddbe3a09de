"""Saves on SIGTERM and exits with 0, as many guides recommend."""

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), STEPS):
    notice.leave_if_given(code=0)
    work()
    print("step", step)
    save(step + 1)
finish()
