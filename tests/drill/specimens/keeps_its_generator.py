"""Draws random numbers, and resumes its generator too."""

import pickle
from pathlib import Path

from tests.drill.specimens.habits import STEPS, Notice, finish, seeded, work

notice, numbers, total, start = Notice(), seeded(), 0.0, 0
checkpoint, aside = Path("checkpoint.pkl"), Path("checkpoint.pkl.new")
if checkpoint.exists():
    numbers, total, start = pickle.loads(checkpoint.read_bytes())
for step in range(start, STEPS):
    notice.leave_if_given()
    work()
    print("step", step)
    total += numbers.random()
    aside.write_bytes(pickle.dumps((numbers, total, step + 1)))
    aside.replace(checkpoint)
finish(total)
