"""Appends each result at once but saves its position rarely, so that a kill repeats results."""

import json
from pathlib import Path

from tests.drill.specimens.habits import STEPS, finish, save, saved_step, work

with Path("results.jsonl").open("a", buffering=1) as results:
    for item in range(saved_step(), STEPS):
        work()
        print("item", item)
        results.write(json.dumps({"item": item}) + "\n")
        if item % 10 == 9:
            save(item + 1)
finish()
