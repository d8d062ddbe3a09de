"""No fault: the same training in a run of the library."""

import time
from typing import Any

import numpy as np

import outlast

state: dict[str, Any] = {"weights": np.zeros(100), "total": 0.0}
np.random.seed(7)
with outlast.Run(None, state, every_steps=5) as run:
    for step in run.steps(60):
        time.sleep(0.02)
        state["weights"] += np.random.normal(size=100)
        print("step", step, flush=True)
        run.log(loss=float(np.abs(state["weights"]).mean()))
np.save("weights.npy", state["weights"])
