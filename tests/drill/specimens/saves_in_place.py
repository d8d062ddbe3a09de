"""Overwrites its checkpoint in place, so that a kill leaves half of it."""

from tests.drill.specimens.habits import CHECKPOINT, STEPS, finish, saved_step, work

for step in range(saved_step(), STEPS):
    with CHECKPOINT.open("w") as file:
        file.write('{"step":')
        file.flush()
        work()
        file.write(f"{step + 1}}}")
    print("step", step)
finish()
