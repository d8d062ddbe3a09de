"""What a number must be, checked where a value is born: the refusal names it and what it is."""

import math


def check_above_zero(name: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} is {value!r}; a finite number above 0 is expected.")


def check_from_zero(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} is {value!r}; a finite number from 0 is expected.")


def check_count(name: str, value: object, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} is {value!r}; a whole number from {least} is expected.")
