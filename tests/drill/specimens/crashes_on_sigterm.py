"""Its handler raises an error; it resumes from its last save."""

from tests.drill.specimens.habits import STEPS, finish, on_sigterm, save, saved_step, work


def fail() -> None:
    raise RuntimeError("received SIGTERM")


on_sigterm(fail)
for step in range(saved_step(), STEPS):
    work()
    print("step", step)
    save(step + 1)
finish()
