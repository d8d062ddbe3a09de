"""Classify images of handwritten digits: the callable that the workers run.

    outlast work classify:Classifier --batch --queue sqlite:///jobs.db --sink sqlite:///jobs.db

An item is `{"path": "images/0815.pgm"}`, a result `{"digit": 7, "certainty": 0.98}`.
"""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np

# Simulates a larger model. Without this pause the job would end before a worker could be evicted.
SECONDS_PER_BATCH = float(os.environ.get("CLASSIFY_SECONDS_PER_BATCH", "0"))


class Classifier:
    """Loads the model in `setup`, once per process and only if there is work to do."""

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
        # Results are JSON values, so convert NumPy numbers to Python numbers.
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
