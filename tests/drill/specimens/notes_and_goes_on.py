"""Sets a flag on SIGTERM but never checks it; saves every step and resumes."""

from tests.drill.specimens.habits import STEPS, Notice, finish, save, saved_step, work

notice = Notice()
for step in range(saved_step(), 2 * STEPS):
    work()
    print("step", step)
    save(step + 1)
finish()
