"""No fault: a run of the library that may pickle a part of its state."""

import time
from typing import Any

import numpy as np

import outlast


class Sampler:
    """An object that only pickle can save."""

    def __init__(self) -> None:
        self.seen: list[int] = []


state: dict[str, Any] = {"weights": np.zeros(10), "sampler": Sampler()}
with outlast.Run(None, state, every_steps=5, may_pickle=["sampler"]) as run:
    for step in run.steps(40):
        time.sleep(0.02)
        state["sampler"].seen.append(step)
        state["weights"] += step
np.save("weights.npy", state["weights"])
