"""Create the files for the example: images, and a model that was not trained on them.

    python examples/classify/prepare.py FOLDER

The images are scikit-learn's handwritten digits, written as PGM files. A small network is trained
on the first third of them; the other two thirds are the batch job. The weights are saved as plain
arrays, so nothing has to be unpickled.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits  # type: ignore[import-untyped]  # it has no types
from sklearn.neural_network import MLPClassifier  # type: ignore[import-untyped]  # as above

TRAINED_ON = 600
BRIGHTEST = 16


def prepare(folder: Path) -> None:
    digits = load_digits()
    train_model(folder / "model.npz", digits.data[:TRAINED_ON], digits.target[:TRAINED_ON])
    images = folder / "images"
    images.mkdir(parents=True, exist_ok=True)
    labels = {}
    for number in range(TRAINED_ON, len(digits.images)):
        name = f"{number:04}.pgm"
        write_pgm(images / name, digits.images[number].astype(np.uint8))
        labels[name] = int(digits.target[number])
    (folder / "labels.json").write_text(json.dumps(labels))


def train_model(file: Path, pixels: Any, labels: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    network = MLPClassifier((48,), solver="lbfgs", alpha=0.1, max_iter=300, random_state=7)
    network.fit(pixels / BRIGHTEST, labels)
    (weights1, weights2), (bias1, bias2) = network.coefs_, network.intercepts_
    np.savez(file, weights1=weights1, bias1=bias1, weights2=weights2, bias2=bias2)


def write_pgm(file: Path, pixels: Any) -> None:
    height, width = pixels.shape
    file.write_bytes(f"P5 {width} {height} {BRIGHTEST}\n".encode() + pixels.tobytes())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/classify/prepare.py FOLDER")
    prepare(Path(sys.argv[1]))
