"""The laws of lifetimes: what they draw is what their formulas say."""

import math

import numpy as np
import pytest

from outlast.capacity.simulation.lifetimes import (
    EmpiricalLifetimes,
    ExponentialLifetimes,
    LifetimeDistribution,
    NoInterruptions,
    WeibullLifetimes,
)
from tests.unit.capacity.exact_lifetimes import lived_within, survival

HOUR = 3600.0
DRAWS = 200_000
OBSERVED = EmpiricalLifetimes(
    seconds=[0.2 * HOUR, 0.5 * HOUR, 0.5 * HOUR, 2 * HOUR, 3 * HOUR, 7 * HOUR],
    ended=[True, True, True, False, True, False],
)
LAWS = [
    ExponentialLifetimes(3 * HOUR),
    WeibullLifetimes(shape=0.6, mean_seconds=3 * HOUR),
    WeibullLifetimes(shape=2.5, mean_seconds=HOUR),
    EmpiricalLifetimes(seconds=[600.0, 1200.0, 7200.0]),
    OBSERVED,
]


def drawn(law: LifetimeDistribution) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return law.draw(np.random.Generator(np.random.SFC64(7)), DRAWS)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_the_mean_of_what_is_drawn_is_the_mean_of_the_law(law: LifetimeDistribution) -> None:
    lifetimes = drawn(law)

    assert float(lifetimes.mean()) == pytest.approx(law.mean_seconds, rel=0.015)
    assert float(lifetimes.min()) > 0


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("hours", [0.1, 0.5, 1.0, 4.0, 20.0])
def test_survival_and_the_time_lived_are_those_of_what_is_drawn(
    law: LifetimeDistribution, hours: float
) -> None:
    lifetimes = drawn(law)
    at = hours * HOUR

    assert float(survival(law, at)) == pytest.approx(float((lifetimes > at).mean()), abs=0.006)
    lived = float(np.minimum(lifetimes, at).mean())
    assert float(lived_within(law, at)) == pytest.approx(lived, rel=0.01)


def test_a_weibull_of_shape_one_is_exponential() -> None:
    times = np.geomspace(1.0, 100 * HOUR, 50)
    weibull, exponential = (
        WeibullLifetimes(shape=1.0, mean_seconds=HOUR),
        ExponentialLifetimes(HOUR),
    )

    np.testing.assert_allclose(survival(weibull, times), survival(exponential, times), atol=1e-12)
    np.testing.assert_allclose(
        lived_within(weibull, times), lived_within(exponential, times), rtol=1e-9
    )


def test_who_outlived_the_observation_counts_as_at_least_so_long() -> None:
    cut = EmpiricalLifetimes(seconds=[HOUR, HOUR, 5 * HOUR], ended=[True, True, False])
    died = EmpiricalLifetimes(seconds=[HOUR, HOUR, 5 * HOUR])

    assert float(survival(cut, 2 * HOUR)) == pytest.approx(1 / 3)
    assert cut.mean_seconds > died.mean_seconds
    # The tail comes at the rate of the whole: 7 hours with 2 losses.
    assert cut.mean_seconds == pytest.approx(HOUR + (4 * HOUR + 3.5 * HOUR) / 3)


def test_never_is_never() -> None:
    law = NoInterruptions()

    assert law.mean_seconds == math.inf
    assert np.isinf(law.draw(np.random.default_rng(0), 3)).all()
    assert float(survival(law, 1e12)) == 1.0
    assert float(lived_within(law, 42.0)) == 42.0


@pytest.mark.parametrize("mean", [0.0, -1.0, math.inf, math.nan])
def test_a_mean_time_that_cannot_be_is_refused(mean: float) -> None:
    with pytest.raises(ValueError, match="expected a finite number above 0"):
        ExponentialLifetimes(mean)
    with pytest.raises(ValueError, match="expected a finite number above 0"):
        WeibullLifetimes(shape=1.0, mean_seconds=mean)


def test_observations_that_say_nothing_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        EmpiricalLifetimes(seconds=[])
    with pytest.raises(ValueError, match="above 0"):
        EmpiricalLifetimes(seconds=[1.0, -2.0])
    with pytest.raises(ValueError, match="seconds has 2 entries, but ended has 1"):
        EmpiricalLifetimes(seconds=[1.0, 2.0], ended=[True])
    with pytest.raises(ValueError, match="None of the observed lifetimes ended"):
        EmpiricalLifetimes(seconds=[1.0, 2.0], ended=[False, False])
