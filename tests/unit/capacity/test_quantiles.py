"""Quantiles from a stream: right to a thousandth, exact where all values are one."""

import numpy as np
import pytest

from outlast.capacity.simulation.simulate import QuantileSketch


def spread_of(
    values: "np.ndarray[tuple[int], np.dtype[np.float64]]", parts: int = 7
) -> QuantileSketch:
    spread = QuantileSketch()
    for part in np.array_split(values, parts):
        spread.add(part)
    return spread


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5, 1e9])
def test_quantiles_are_right_to_a_thousandth(scale: float) -> None:
    values = np.random.default_rng(3).lognormal(0.0, 1.0, 50_000) * scale
    spread = spread_of(values)

    for share in (0.05, 0.5, 0.95, 0.999):
        assert spread.quantile(share) == pytest.approx(np.quantile(values, share), rel=0.002)
    assert spread.mean == pytest.approx(values.mean())
    assert spread.deviation == pytest.approx(values.std(), rel=1e-6)
    assert (spread.least, spread.greatest) == (values.min(), values.max())


def test_equal_values_stay_what_they_are() -> None:
    spread = spread_of(np.full(1000, 0.1))

    assert spread.mean == 0.1
    assert [spread.quantile(share) for share in (0.0, 0.5, 1.0)] == [0.1, 0.1, 0.1]


@pytest.mark.parametrize("width", [1e-5, 1e-4, 1e-3])
def test_quantiles_of_values_that_hardly_differ_keep_their_order(width: float) -> None:
    values = 123_000 * (1 + width * np.random.default_rng(5).standard_normal(10_000))
    spread = spread_of(values)

    quantiles = [spread.quantile(share) for share in (0.05, 0.5, 0.95)]

    assert spread.least < quantiles[0] < quantiles[1] < quantiles[2] < spread.greatest
    assert quantiles[0] < spread.mean < quantiles[2]
    assert quantiles == pytest.approx(np.quantile(values, (0.05, 0.5, 0.95)), rel=5e-4)


def test_a_histogram_counts_every_value_once() -> None:
    values = np.random.default_rng(4).uniform(10, 20, 10_000)
    spread = spread_of(values)

    counts = spread.histogram([0.0, 12.5, 15.0, 30.0])

    assert sum(counts) == 10_000
    assert counts[0] == pytest.approx(2500, abs=150)
    assert counts[1] == pytest.approx(2500, abs=150)


def test_nothing_added_changes_nothing() -> None:
    spread = QuantileSketch()
    spread.add(np.zeros(0))

    assert spread.count == 0
