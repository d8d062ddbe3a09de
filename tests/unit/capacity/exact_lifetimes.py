"""The survival functions of the laws of lifetimes, to compare with what they draw."""

import math
from functools import singledispatch

import numpy as np
from numpy.typing import ArrayLike

from outlast.capacity.simulation.lifetimes import (
    EmpiricalLifetimes,
    ExponentialLifetimes,
    Floats,
    LifetimeDistribution,
    NoInterruptions,
    WeibullLifetimes,
)

# The series below converges within this many terms for all arguments that occur.
_SERIES_TERMS = 250
_SERIES_MAX = 60.0


@singledispatch
def survival(law: LifetimeDistribution, seconds: ArrayLike) -> Floats:
    """The probability of living longer than `seconds`."""
    raise NotImplementedError


@singledispatch
def lived_within(law: LifetimeDistribution, seconds: ArrayLike) -> Floats:
    """The mean of the lifetime, capped at `seconds`."""
    raise NotImplementedError


@survival.register
def _(law: NoInterruptions, seconds: ArrayLike) -> Floats:
    return np.ones_like(np.asarray(seconds, float))


@lived_within.register
def _(law: NoInterruptions, seconds: ArrayLike) -> Floats:
    return np.array(seconds, float)


@survival.register
def _(law: ExponentialLifetimes, seconds: ArrayLike) -> Floats:
    return np.exp(-np.asarray(seconds, float) / law.mean_seconds)


@lived_within.register
def _(law: ExponentialLifetimes, seconds: ArrayLike) -> Floats:
    return np.asarray(
        -law.mean_seconds * np.expm1(-np.asarray(seconds, float) / law.mean_seconds), float
    )


@survival.register
def _(law: WeibullLifetimes, seconds: ArrayLike) -> Floats:
    return np.exp(-_power(law, seconds))


@lived_within.register
def _(law: WeibullLifetimes, seconds: ArrayLike) -> Floats:
    order = 1 / law.shape
    return law.scale_seconds * order * _lower_gamma(order, _power(law, seconds))


def _power(law: WeibullLifetimes, seconds: ArrayLike) -> Floats:
    return np.asarray((np.asarray(seconds, float) / law.scale_seconds) ** law.shape, float)


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


@survival.register
def _(law: EmpiricalLifetimes, seconds: ArrayLike) -> Floats:
    asked = np.asarray(seconds, float)
    died = np.concatenate([[0.0], law._died])
    alive = 1 - died[np.searchsorted(law._times, asked, side="right")]
    beyond = np.maximum(asked - law._horizon_seconds, 0) / law._tail_mean_seconds
    return np.asarray(alive * np.exp(-beyond), float)


@lived_within.register
def _(law: EmpiricalLifetimes, seconds: ArrayLike) -> Floats:
    asked = np.asarray(seconds, float)
    knots = np.concatenate([[0.0], law._times, [law._horizon_seconds]])
    lived = np.concatenate([[0.0], np.cumsum(law._steps)])
    beyond = np.maximum(asked - law._horizon_seconds, 0) / law._tail_mean_seconds
    tail = -law._tail_chance * law._tail_mean_seconds * np.expm1(-beyond)
    return np.asarray(np.interp(asked, knots, lived) + tail, float)
