"""Train a small network to tell two spirals apart, on a machine that may be taken away.

    python examples/train.py RUN_FOLDER

It saves now and then and when it is told to stop, and resumes at the exact step: weights, moments
of the optimizer and the random generator. Interrupted or not, the result is the same to the bit.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

import outlast

STEPS = 3000
SAVE_EVERY = 500
BATCH = 64
# Any, because NumPy's own annotations take the names of arrays for options of `savez`.
Arrays = dict[str, Any]


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = folder / "checkpoint.npz"
    points, labels = two_spirals()
    rng = np.random.default_rng(7)
    state = initial_state(rng)
    first = resume(checkpoint, state, rng)
    print(f"starting at step {first}", flush=True)

    loss = float("nan")
    with outlast.Guard() as guard:
        for step in range(first, STEPS):
            rows = rng.integers(len(points), size=BATCH)
            loss = train_one_step(state, points[rows], labels[rows], step)
            if step % 100 == 0:
                print(f"step {step} loss {loss:.4f}", flush=True)
            if guard.interrupted or (step + 1) % SAVE_EVERY == 0:
                save(checkpoint, state, rng, step + 1)
            if guard.interrupted:
                print(f"saved after step {step}, leaving with {guard.exit_code}", flush=True)
                return guard.exit_code
    np.savez(folder / "model.npz", **{k: v for k, v in state.items() if k.startswith("weight")})
    print(f"finished, loss {loss:.4f}", flush=True)
    return 0


def two_spirals(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    angle = np.sqrt(rng.random(count)) * 3 * np.pi
    arm = rng.integers(2, size=count)
    radius = angle / (3 * np.pi) * np.where(arm == 1, 1.0, -1.0)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points + rng.normal(scale=0.01, size=points.shape), arm.astype(float)


def initial_state(rng: np.random.Generator, width: int = 64) -> Arrays:
    shapes = {"weight1": (3, width), "weight2": (width + 1, width), "weight3": (width + 1, 1)}
    state = {name: rng.normal(size=s) * np.sqrt(2 / s[0]) for name, s in shapes.items()}
    for name, shape in shapes.items():
        state[f"mean_{name}"] = np.zeros(shape)
        state[f"square_{name}"] = np.zeros(shape)
    return state


def train_one_step(state: Arrays, points: np.ndarray, labels: np.ndarray, step: int) -> float:
    """One step of Adam on the cross-entropy of a network with two hidden layers."""
    ones = np.ones((len(points), 1))
    input_ = np.hstack([points, ones])
    hidden1 = np.hstack([np.maximum(input_ @ state["weight1"], 0), ones])
    hidden2 = np.hstack([np.maximum(hidden1 @ state["weight2"], 0), ones])
    probability = 1 / (1 + np.exp(-(hidden2 @ state["weight3"])[:, 0]))
    error3 = ((probability - labels) / len(labels))[:, None]
    error2 = (error3 @ state["weight3"].T * (hidden2 > 0))[:, :-1]
    error1 = (error2 @ state["weight2"].T * (hidden1 > 0))[:, :-1]
    adam(state, "weight3", hidden2.T @ error3, step)
    adam(state, "weight2", hidden1.T @ error2, step)
    adam(state, "weight1", input_.T @ error1, step)
    likelihood = np.where(labels == 1, probability, 1 - probability)
    return float(-np.log(np.maximum(likelihood, 1e-12)).mean())


def adam(state: Arrays, name: str, gradient: np.ndarray, step: int, rate: float = 0.003) -> None:
    mean, square = state[f"mean_{name}"], state[f"square_{name}"]
    mean += 0.1 * (gradient - mean)
    square += 0.001 * (gradient**2 - square)
    corrected = mean / (1 - 0.9 ** (step + 1))
    scale = np.sqrt(square / (1 - 0.999 ** (step + 1))) + 1e-8
    state[name] -= rate * corrected / scale


def save(checkpoint: Path, state: Arrays, rng: np.random.Generator, step: int) -> None:
    """Replace the checkpoint. If killed: the previous one stays whole."""
    aside = checkpoint.with_suffix(".new")
    with aside.open("wb") as file:
        position = json.dumps({"step": step, "rng": rng.bit_generator.state})
        np.savez(file, position=np.array(position), **state)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(checkpoint)


def resume(checkpoint: Path, state: Arrays, rng: np.random.Generator) -> int:
    """Fill the state from the checkpoint, if there is one, and return the step to start at."""
    if not checkpoint.exists():
        return 0
    with np.load(checkpoint, allow_pickle=False) as saved:
        position = json.loads(str(saved["position"]))
        for name, array in state.items():
            array[...] = saved[name]
    rng.bit_generator.state = position["rng"]
    return int(position["step"])


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/train.py RUN_FOLDER")
    sys.exit(main(Path(sys.argv[1])))
