"""Train a small network to separate two spirals, on a machine that may be reclaimed.

    python examples/train.py RUN_FOLDER

The program saves at intervals and when it is interrupted, and resumes at the exact step with its
weights, optimizer moments and random generator. Interrupted or not, the result is bit-identical.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import outlast

STEPS = 3000
BATCH = 64
# Any, because NumPy's annotations treat the array names as options of `savez`.
Arrays = dict[str, Any]


def main(folder: Path) -> None:
    points, labels = two_spirals()
    rng = np.random.default_rng(7)
    weights = initial_weights(rng)
    state = {"weights": weights, "rng": rng, "loss": 0.0}
    with outlast.Run(folder / "run", state, every_steps=500) as run:
        print(f"starting at step {run.step}", flush=True)
        for step in run.steps(STEPS):
            rows = rng.integers(len(points), size=BATCH)
            state["loss"] = train_one_step(weights, points[rows], labels[rows], step)
            if step % 100 == 0:
                print(f"step {step} loss {state['loss']:.4f}", flush=True)
    np.savez(folder / "model.npz", **{k: v for k, v in weights.items() if k.startswith("weight")})
    print(f"finished, loss {state['loss']:.4f}", flush=True)


def two_spirals(count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    angle = np.sqrt(rng.random(count)) * 3 * np.pi
    arm = rng.integers(2, size=count)
    radius = angle / (3 * np.pi) * np.where(arm == 1, 1.0, -1.0)
    points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return points + rng.normal(scale=0.01, size=points.shape), arm.astype(float)


def initial_weights(rng: np.random.Generator, width: int = 64) -> Arrays:
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


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/train.py RUN_FOLDER")
    main(Path(sys.argv[1]))
