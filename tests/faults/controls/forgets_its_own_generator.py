"""Fault: in a run of the library, a generator of its own that is not part of the state."""

import time
from typing import Any

import numpy as np

import outlast

rng = np.random.default_rng(7)
state: dict[str, Any] = {"weights": np.zeros(100), "bias": np.zeros(3)}
with outlast.Run(None, state, every_steps=5) as run:
    for step in run.steps(60):
        time.sleep(0.02)
        state["weights"] += rng.normal(size=100)
        print("step", step, flush=True)
np.save("weights.npy", state["weights"])
