"""Draw digits as if written by an unsteady hand, 16 by 16 pixels each. Pure.

The same seed gives the same images.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

SIDE = 16

_STROKES = (
    "50,10 75,20 80,50 75,80 50,90 25,80 20,50 25,20 50,10",
    "35,25 55,10 55,90",
    "25,25 40,10 65,12 75,30 60,55 22,90 78,90",
    "25,15 60,10 75,28 48,47 77,68 60,90 22,85",
    "65,90 65,10 20,62 82,62",
    "75,10 30,10 27,45 60,42 77,65 60,90 22,85",
    "70,12 40,30 24,65 45,90 70,80 72,60 50,48 28,60",
    "20,10 80,10 42,90",
    "50,47 28,30 50,10 72,30 50,47 25,70 50,90 75,70 50,47",
    "72,40 50,52 28,40 30,20 55,10 74,35 60,70 35,90",
)
"""The corners of the line of each digit, in percent of the square, from the top left."""


class Digits(NamedTuple):
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]


def draw_digits(count: int, *, seed: int) -> Digits:
    """Images, each as one row of pixels, and the digits that they show."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(10, size=count)
    images = [_image(_corners(_STROKES[label]), rng) for label in labels]
    return Digits(np.stack(images), labels)


def _corners(stroke: str) -> NDArray[np.float64]:
    return np.array([pair.split(",") for pair in stroke.split()], float) / 100


def _image(corners: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.uint8]:
    turn, slant = rng.normal(scale=0.15), rng.normal(scale=0.15)
    bend = np.array([[np.cos(turn), slant - np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    shaken = corners + rng.normal(scale=0.025, size=corners.shape)
    placed = (shaken - 0.5) @ bend.T * rng.uniform(0.7, 1.0, size=2) + 0.5
    placed += rng.normal(scale=0.04, size=2)
    ink = 1.5 - _distances(placed) / rng.uniform(0.035, 0.06)
    noisy = np.clip(ink, 0, 1) * 255 + rng.normal(scale=12, size=ink.shape)
    return np.clip(noisy, 0, 255).astype(np.uint8)


def _distances(corners: NDArray[np.float64]) -> NDArray[np.float64]:
    """The distance of each pixel to the nearest point of the line."""
    middles = (np.arange(SIDE) + 0.5) / SIDE
    pixels = np.stack(np.meshgrid(middles, middles), axis=-1).reshape(-1, 1, 2)
    starts, ways = corners[:-1], np.diff(corners, axis=0)
    away = pixels - starts
    along = np.clip((away * ways).sum(axis=-1) / (ways**2).sum(axis=-1), 0, 1)
    away -= along[..., None] * ways
    distances: NDArray[np.float64] = np.sqrt((away**2).sum(axis=-1).min(axis=1))
    return distances
