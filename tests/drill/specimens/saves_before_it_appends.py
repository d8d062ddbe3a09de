"""Saves its position before it stores the result, so that a kill loses the result."""

import json
from pathlib import Path

from tests.drill.specimens.habits import STEPS, finish, save, saved_step, work

with Path("results.jsonl").open("a", buffering=1) as results:
    for item in range(saved_step(), STEPS):
        print("item", item)
        save(item + 1)
        work()
        results.write(json.dumps({"item": item}) + "\n")
finish()
