import math

import pytest

from outlast._base.checks import check_above_zero, check_count, check_from_zero


def test_numbers_at_the_bounds_pass() -> None:
    check_above_zero("seconds", 5e-324)
    check_from_zero("seconds", 0)
    check_count("steps", 0, least=0)
    check_count("steps", 1, least=1)


@pytest.mark.parametrize("value", [0, -1.5, math.inf, -math.inf, math.nan])
def test_what_is_not_finite_and_above_zero_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError) as caught:
        check_above_zero("seconds", value)

    assert str(caught.value) == f"seconds is {value!r}; expected a finite number above 0."


@pytest.mark.parametrize("value", [-1.5, math.inf, -math.inf, math.nan])
def test_what_is_not_finite_and_from_zero_is_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError) as caught:
        check_from_zero("seconds", value)

    assert str(caught.value) == f"seconds is {value!r}; expected a finite number of at least 0."


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "1", None])
def test_what_is_not_a_count_is_refused_by_name(value: object) -> None:
    with pytest.raises(ValueError) as caught:
        check_count("steps", value, least=1)

    assert str(caught.value) == f"steps is {value!r}; expected a whole number of at least 1."
