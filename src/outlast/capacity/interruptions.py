"""How long machines live: the laws that interruptions follow.

Pure. Each law draws lifetimes from a generator that it is given, and knows its survival function
and its mean, so that a simulation and an exact formula can be held against each other.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from outlast._base.checks import check_above_zero

Floats = NDArray[np.float64]

# The series below converges within so many terms for every argument it is used for.
_SERIES_TERMS = 250
_SERIES_MAX = 60.0


class Lifetimes(Protocol):
    """A law of lifetimes, in seconds."""

    @property
    def mean_seconds(self) -> float: ...

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        """So many independent lifetimes."""

    def survival(self, seconds: ArrayLike) -> Floats:
        """The chance to live longer than that."""

    def lived_within(self, seconds: ArrayLike) -> Floats:
        """The mean of the lifetime or of `seconds`, whichever is shorter."""


@dataclass(frozen=True, slots=True)
class Never:
    """No interruption ever comes."""

    mean_seconds: float = math.inf

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        return np.full(count, math.inf)

    def survival(self, seconds: ArrayLike) -> Floats:
        return np.ones_like(np.asarray(seconds, float))

    def lived_within(self, seconds: ArrayLike) -> Floats:
        return np.array(seconds, float)


@dataclass(frozen=True, slots=True)
class Exponential:
    """Interruptions come at random, at a constant rate: the past says nothing of the future."""

    mean_seconds: float

    def __post_init__(self) -> None:
        check_above_zero("mean_seconds", self.mean_seconds)

    def draw(self, generator: np.random.Generator, count: int) -> Floats:
        drawn = generator.standard_exponential(count)
        drawn *= self.mean_seconds
        return drawn

    def survival(self, seconds: ArrayLike) -> Floats:
        return np.exp(-np.asarray(seconds, float) / self.mean_seconds)

    def lived_within(self, seconds: ArrayLike) -> Floats:
        lived: Floats = -self.mean_seconds * np.expm1(
            -np.asarray(seconds, float) / self.mean_seconds
        )
        return lived


@dataclass(frozen=True, slots=True)
class Weibull:
    """A shape below 1: mostly early losses, and who has lived long will live longer."""

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

    def survival(self, seconds: ArrayLike) -> Floats:
        return np.exp(-self._power(seconds))

    def lived_within(self, seconds: ArrayLike) -> Floats:
        order = 1 / self.shape
        gamma = _lower_gamma(order, self._power(seconds))
        return self.scale_seconds * order * gamma

    def _power(self, seconds: ArrayLike) -> Floats:
        power: Floats = (np.asarray(seconds, float) / self.scale_seconds) ** self.shape
        return power


@dataclass(frozen=True)
class Empirical:
    """Lifetimes as they were observed.

    `ended` says which of them ended with an interruption; the others were still alive when one
    stopped looking, and count as "at least so long" (the estimator of Kaplan and Meier). What may
    come after the longest observation is taken to come at the mean rate of the whole.
    """

    seconds: Sequence[float]
    ended: Sequence[bool] | None = None

    def __post_init__(self) -> None:
        lived = np.asarray(self.seconds, float)
        if lived.size == 0 or not np.isfinite(lived).all() or (lived <= 0).any():
            raise ValueError("Observed lifetimes must be finite, above 0, and at least one.")
        if self.ended is not None and len(self.ended) != lived.size:
            raise ValueError(
                f"There are {lived.size} lifetimes, but {len(self.ended)} words on their end."
            )
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

    def survival(self, seconds: ArrayLike) -> Floats:
        asked = np.asarray(seconds, float)
        died = np.concatenate([[0.0], self._died])
        alive = 1 - died[np.searchsorted(self._times, asked, side="right")]
        beyond = np.maximum(asked - self._horizon_seconds, 0) / self._tail_mean_seconds
        return np.asarray(alive * np.exp(-beyond), float)

    def lived_within(self, seconds: ArrayLike) -> Floats:
        asked = np.asarray(seconds, float)
        knots = np.concatenate([[0.0], self._times, [self._horizon_seconds]])
        lived = np.concatenate([[0.0], np.cumsum(self._steps)])
        beyond = np.maximum(asked - self._horizon_seconds, 0) / self._tail_mean_seconds
        tail = -self._tail_chance * self._tail_mean_seconds * np.expm1(-beyond)
        return np.asarray(np.interp(asked, knots, lived) + tail, float)

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
        """When somebody died, in order, each time once."""
        return np.unique(np.asarray(self.seconds, float)[self._ended])

    @cached_property
    def _died(self) -> Floats:
        """The share that is dead after each of these times."""
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
        """The area below the survival curve, piece by piece, up to the horizon."""
        knots = np.concatenate([[0.0], self._times, [self._horizon_seconds]])
        alive = np.concatenate([[1.0], 1 - self._died])
        return np.asarray(np.diff(knots) * alive, float)


def _lower_gamma(order: float, x: Floats) -> Floats:
    """The lower incomplete gamma function, by its power series."""
    near = np.minimum(x, _SERIES_MAX)
    term = np.full_like(near, 1 / order)
    total = term.copy()
    for index in range(1, _SERIES_TERMS):
        term = term * near / (order + index)
        total += term
    value = np.where(near > 0, near**order * np.exp(-near) * total, 0.0)
    return np.where(x > _SERIES_MAX, math.gamma(order), value)
