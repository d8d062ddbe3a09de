"""Never saves, and shows a progress bar that overwrites itself."""

from tests.drill.specimens.habits import STEPS, finish, work

for step in range(STEPS):
    work()
    print(f"\r{100 * step // STEPS:3}% {step}/{STEPS}", end="")
print()
finish()
