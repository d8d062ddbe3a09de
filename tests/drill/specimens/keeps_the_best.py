"""Saves only what is better than the saved score, but trains from the start; prints nothing."""

from tests.drill.specimens.habits import STEPS, finish, save, saved_step, work

best = saved_step()
for score in range(1, STEPS + 1):
    work()
    if score > best:
        best = score
        save(score)
finish()
