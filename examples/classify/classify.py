"""Tell which digit an image shows: what the workers call.

    outlast work classify:Classifier --batch --queue sqlite:///jobs.db --sink sqlite:///jobs.db

An item is `{"path": "images/0815.pgm"}`, a result `{"digit": 7, "certainty": 0.98}`.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

# A larger model takes longer. This pause stands for it: without it the job would be over before
# anyone could evict a worker.
SECONDS_PER_BATCH = float(os.environ.get("CLASSIFY_SECONDS_PER_BATCH", "0"))


class Classifier:
    """The model is loaded once in each process, in `setup`, and not when there is nothing to do."""

    def setup(self) -> None:
        with np.load("model.npz", allow_pickle=False) as saved:
            self.weights = {name: saved[name] for name in saved.files}

    def __call__(self, items: list[dict[str, str]]) -> list[dict[str, Any]]:
        pixels = np.stack([read_pgm(Path(item["path"])) for item in items])
        time.sleep(SECONDS_PER_BATCH)
        hidden = np.maximum(pixels @ self.weights["weights1"] + self.weights["bias1"], 0)
        scores = hidden @ self.weights["weights2"] + self.weights["bias2"]
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances = odds / odds.sum(axis=1, keepdims=True)
        best = chances.argmax(axis=1)
        # Results are JSON values, so NumPy's numbers become Python's.
        return [
            {"digit": int(digit), "certainty": round(float(row[digit]), 4)}
            for digit, row in zip(best, chances, strict=True)
        ]


def read_pgm(file: Path) -> np.ndarray:
    heading, _, pixels = file.read_bytes().partition(b"\n")
    kind, width, height, brightest = heading.split()
    if kind != b"P5" or len(pixels) != int(width) * int(height):
        raise ValueError(f"{file} is not a PGM image.")
    return np.frombuffer(pixels, np.uint8) / int(brightest)
