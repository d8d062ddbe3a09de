"""Never saves and prints nothing."""

from tests.drill.specimens.habits import STEPS, finish, work

for _ in range(STEPS):
    work()
finish()
