"""Measure how much the machines of a pool differ in how long they last. Pure.

The lifetimes of machines whose loss rates follow a gamma distribution have a Lomax distribution. Of
a few shapes, the one under which the observed lifetimes are most likely is chosen.
"""

import math
from collections.abc import Sequence

from outlast._base.interval import AGE_SHAPE

SHAPES = (AGE_SHAPE, 3.0, 5.0, 10.0, 100.0)
"""From machines that differ a lot to machines that are practically lost at one constant rate."""

LOSSES_MIN = 20
"""Fewer losses do not show a shape, and the default is kept."""


def measure_age_shape(lives: Sequence[tuple[float, bool]]) -> float | None:
    """The shape for these lives, each with its seconds and whether it ended with a loss.

    None if there are too few losses.
    """
    losses = sum(lost for _, lost in lives)
    seconds = math.fsum(life for life, _ in lives)
    if losses < LOSSES_MIN or seconds <= 0:
        return None
    mean = seconds / losses
    return max(SHAPES, key=lambda shape: _log_likelihood(lives, losses, shape, mean))


def _log_likelihood(
    lives: Sequence[tuple[float, bool]], losses: int, shape: float, mean: float
) -> float:
    scale = (shape - 1) * mean
    ages = math.fsum((shape + lost) * math.log1p(life / scale) for life, lost in lives)
    return losses * math.log(shape / scale) - ages
