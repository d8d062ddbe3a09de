"""Distributions of machine lifetimes.

Pure. Each distribution draws lifetimes from a given generator, and knows its mean.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from outlast._base.checks import check_above_zero

Floats = NDArray[np.float64]


class LifetimeDistribution(Protocol):
    """A distribution of lifetimes in seconds."""

    @property
    def mean_seconds(self) -> float: ...

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """Draw `count` independent lifetimes."""


@dataclass(frozen=True, slots=True)
class NoInterruptions:
    """Machines that are never interrupted."""

    mean_seconds: float = math.inf

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        return np.full(count, math.inf)


@dataclass(frozen=True, slots=True)
class ExponentialLifetimes:
    """Random interruptions at a constant rate, independent of the age of the machine."""

    mean_seconds: float

    def __post_init__(self) -> None:
        check_above_zero("mean_seconds", self.mean_seconds)

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        drawn = generator.standard_exponential(count)
        drawn *= self.mean_seconds
        return drawn


@dataclass(frozen=True, slots=True)
class WeibullLifetimes:
    """Interruptions whose rate changes with age: with a shape below 1, most come early."""

    shape: float
    mean_seconds: float

    def __post_init__(self) -> None:
        check_above_zero("shape", self.shape)
        check_above_zero("mean_seconds", self.mean_seconds)

    @property
    def scale_seconds(self) -> float:
        return self.mean_seconds / math.gamma(1 + 1 / self.shape)

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        return self.scale_seconds * generator.weibull(self.shape, count)


@dataclass(frozen=True)
class EmpiricalLifetimes:
    """Observed lifetimes (Kaplan-Meier estimator).

    `ended` marks those that ended with an interruption; the others were still alive at the end of
    the observation. After the longest observation, interruptions come at the overall mean rate.
    """

    seconds: Sequence[float]
    ended: Sequence[bool] | None = None

    def __post_init__(self) -> None:
        lived = np.asarray(self.seconds, float)
        if lived.size == 0 or not np.isfinite(lived).all() or (lived <= 0).any():
            raise ValueError("Expected at least one observed lifetime, all finite and above 0.")
        if self.ended is not None and len(self.ended) != lived.size:
            raise ValueError(f"seconds has {lived.size} entries, but ended has {len(self.ended)}.")
        if not self._losses:
            raise ValueError("None of the observed lifetimes ended with an interruption.")

    @property
    def mean_seconds(self) -> float:
        return float(self._steps.sum() + self._tail_chance * self._tail_mean_seconds)

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        place = np.searchsorted(self._died, generator.random(count), side="right")
        is_tail = place == self._times.size
        drawn = self._times[np.minimum(place, self._times.size - 1)]
        if is_tail.any():
            tail = generator.standard_exponential(int(is_tail.sum())) * self._tail_mean_seconds
            drawn[is_tail] = self._horizon_seconds + tail
        return drawn

    @cached_property
    def _ended(self) -> NDArray[np.bool_]:
        if self.ended is None:
            return np.ones(len(self.seconds), bool)
        return np.asarray(self.ended, bool)

    @cached_property
    def _losses(self) -> int:
        return int(self._ended.sum())

    @cached_property
    def _times(self) -> Floats:
        """The distinct lifetimes that ended, in order."""
        return np.unique(np.asarray(self.seconds, float)[self._ended])

    @cached_property
    def _died(self) -> Floats:
        """The share of machines lost by each of these times."""
        lived = np.sort(np.asarray(self.seconds, float))
        at_risk = lived.size - np.searchsorted(lived, self._times, side="left")
        deaths = np.asarray(self.seconds, float)[self._ended]
        died = np.array([(deaths == time).sum() for time in self._times])
        return np.asarray(1 - np.cumprod(1 - died / at_risk), float)

    @cached_property
    def _horizon_seconds(self) -> float:
        return float(max(self.seconds))

    @cached_property
    def _tail_chance(self) -> float:
        return float(max(0.0, 1 - self._died[-1]))

    @cached_property
    def _tail_mean_seconds(self) -> float:
        return float(sum(self.seconds)) / self._losses

    @cached_property
    def _steps(self) -> Floats:
        """The area under the survival curve, piece by piece, up to the horizon."""
        knots = np.concatenate([[0.0], self._times, [self._horizon_seconds]])
        alive = np.concatenate([[1.0], 1 - self._died])
        return np.asarray(np.diff(knots) * alive, float)
