"""Never saves, prints every step, and does not handle SIGTERM."""

from tests.drill.specimens.habits import STEPS, finish, work

for step in range(STEPS):
    work()
    print("step", step)
finish()
