"""How similar machines are in how long they last, measured from their lives."""

import random

import pytest

from outlast.capacity.planning.learn import RunMeasurements, learn
from outlast.capacity.simulation.age_shape import LOSSES_MIN, measure_age_shape

HOUR = 3600.0


def mixed_lives(shape: float, count: int, seed: int = 3) -> list[tuple[float, bool]]:
    """Lives of machines whose loss rates follow a gamma distribution with this shape."""
    chance = random.Random(seed)
    scale = 1 / (2 * HOUR * (shape - 1))
    return [(chance.expovariate(chance.gammavariate(shape, scale)), True) for _ in range(count)]


def test_the_shape_is_found_again() -> None:
    chance = random.Random(3)
    constant = [(chance.expovariate(1 / HOUR), True) for _ in range(400)]

    assert measure_age_shape(mixed_lives(2.0, 400)) in (2.0, 3.0)
    assert measure_age_shape(constant) in (10.0, 100.0)


def test_few_losses_show_no_shape() -> None:
    lives = mixed_lives(2.0, LOSSES_MIN)

    assert measure_age_shape(lives) is not None
    assert measure_age_shape(lives[1:]) is None
    assert measure_age_shape([(HOUR, False)] * 100) is None


def test_learn_reports_the_shape_and_its_doubts() -> None:
    lives = mixed_lives(2.0, 40)
    seen = RunMeasurements(
        running_seconds=sum(life for life, _ in lives),
        announced=0,
        missed=0,
        unannounced=40,
        lives=lives,
    )
    short = RunMeasurements(running_seconds=600, announced=1, missed=0, unannounced=0)

    assert float(learn(seen).measured["age_shape"]) >= 2
    assert seen.doubt is None
    assert "age_shape" not in learn(short).measured
    assert short.doubt is not None
    assert "10.0 min of running time and 1 interruption." in short.doubt


@pytest.mark.parametrize("lives", [[], [(0.0, True)] * 50])
def test_lives_without_time_show_nothing(lives: list[tuple[float, bool]]) -> None:
    assert measure_age_shape(lives) is None
