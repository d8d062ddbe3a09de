"""Saves every four steps and on SIGTERM, exits with 75, and resumes."""

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    if notice.given or step % 4 == 3:
        save(step + 1)
finish()
