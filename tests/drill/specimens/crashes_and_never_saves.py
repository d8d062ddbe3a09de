"""Its handler raises an error, and it never saves."""

from tests.drill.specimens.habits import STEPS, finish, on_sigterm, work


def fail() -> None:
    raise RuntimeError("received SIGTERM")


on_sigterm(fail)
for step in range(STEPS):
    work()
    print("step", step)
finish()
