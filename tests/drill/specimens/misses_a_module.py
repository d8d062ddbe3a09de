"""Needs a module that is not installed, but only to resume."""

from tests.drill.specimens.habits import STEPS, finish, save, saved_step, work

if saved_step():
    __import__("module_that_is_not_installed")
for step in range(saved_step(), STEPS):
    work()
    print("step", step)
    save(step + 1)
finish()
