"""A program of the demo: train a small network to recognize digits. It can be evicted at any time.

    python training.py MODEL.npz

Reads `digits.npz` in the current folder and saves its checkpoints in `run`. The model is the same,
bit for bit, no matter how often the program is evicted. If killed: the last checkpoint remains, and
the model is complete or missing.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from outlast._base.files import replacing
from outlast.run.run import Run

STEPS = 3600
BATCH = 128
WIDTH = 128
RATE = 0.001
SAVE_SECONDS = 0.3
# Any, because NumPy's annotations treat the names of arrays as options of `savez`.
Arrays = dict[str, Any]


def main(model: Path) -> None:
    with np.load("digits.npz", allow_pickle=False) as found:
        images, labels = found["images"].astype(np.float32) / 255, found["labels"]
    rng = np.random.default_rng(7)
    weights = initial_weights(rng)
    moments = {f"{name}.{kind}": np.zeros_like(w) for name, w in weights.items() for kind in "mv"}
    state = {"weights": weights, "moments": moments, "rng": rng}
    with Run("run", state, every_seconds=SAVE_SECONDS) as run:
        for step in run.steps(STEPS):
            rows = rng.integers(len(images), size=BATCH)
            loss = train_one_step(weights, moments, images[rows], labels[rows], step)
            if step % 20 == 0:
                run.log(loss=loss)
    write_model(model, weights)


def initial_weights(rng: np.random.Generator) -> Arrays:
    shapes = {"hidden": (257, WIDTH), "output": (WIDTH + 1, 10)}
    return {
        name: (rng.normal(size=shape) * np.sqrt(2 / shape[0])).astype(np.float32)
        for name, shape in shapes.items()
    }


def train_one_step(
    weights: Arrays,
    moments: Arrays,
    images: NDArray[np.float32],
    labels: NDArray[np.int64],
    step: int,
) -> float:
    """One step of Adam on the cross-entropy of a network with one hidden layer."""
    pixels = with_ones(images)
    hidden = with_ones(np.maximum(pixels @ weights["hidden"], 0))
    scores = hidden @ weights["output"]
    odds = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances = odds / odds.sum(axis=1, keepdims=True)
    right = (np.arange(len(labels)), labels)
    loss = float(-np.log(np.maximum(chances[right], 1e-12)).mean())
    error = chances.copy()
    error[right] -= 1
    error /= len(labels)
    error_hidden = (error @ weights["output"].T * (hidden > 0))[:, :-1]
    adam(weights, moments, "output", hidden.T @ error, step)
    adam(weights, moments, "hidden", pixels.T @ error_hidden, step)
    return loss


def with_ones(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.hstack([rows, np.ones((len(rows), 1), np.float32)])


def adam(
    weights: Arrays, moments: Arrays, name: str, gradient: NDArray[np.float32], step: int
) -> None:
    mean, square = moments[f"{name}.m"], moments[f"{name}.v"]
    mean += 0.1 * (gradient - mean)
    square += 0.001 * (gradient**2 - square)
    corrected = mean / (1 - 0.9 ** (step + 1))
    weights[name] -= RATE * corrected / (np.sqrt(square / (1 - 0.999 ** (step + 1))) + 1e-8)


def write_model(path: Path, weights: Arrays) -> None:
    with replacing(path) as file:
        np.savez(file, **weights)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
