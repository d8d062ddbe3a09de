"""Exits with 75 on SIGTERM, but never saves."""

from tests.drill.specimens.habits import STEPS, Notice, finish, work

notice = Notice()
for step in range(STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
finish()
