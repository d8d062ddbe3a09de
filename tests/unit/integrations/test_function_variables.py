"""The variables outside of a program's functions are saved and restored like attributes."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from outlast.integrations.attributes import ChangedAttributes
from outlast.integrations.function_variables import variables_of

CALLS = 0


class Reward:
    """Counts in a variable of the module, through a function that it calls."""

    def __call__(self) -> int:
        return count_call()


def count_call() -> int:
    global CALLS
    CALLS += 1
    return CALLS


def running_mean() -> Callable[[float], float]:
    total, found = 0.0, {"each": [0.0]}
    generator = random.Random(3)

    def mean(number: float) -> float:
        nonlocal total
        total += number + generator.random()
        found["each"].append(total)
        return sum(found["each"])

    return mean


def tracked(*things: Any) -> ChangedAttributes:
    variables = {"variables": variables_of(things)}
    made = ChangedAttributes(lambda: variables, known=list, ignored=frozenset())
    made.begin()
    return made


def test_variables_are_restored_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "CALLS", 0)
    reward, first, second = Reward(), running_mean(), running_mean()
    before = tracked(reward, first, second)
    reward(), reward(), first(1.0), second(2.0), second(3.0)

    saved = before.read()
    expected = reward(), first(4.0), second(5.0)
    # As in a process that starts again.
    monkeypatch.setitem(globals(), "CALLS", 0)
    first, second = running_mean(), running_mean()
    tracked(reward, first, second).write(saved)

    assert (reward(), first(4.0), second(5.0)) == expected


def test_only_what_the_functions_use_and_change_is_saved() -> None:
    saved = tracked(running_mean(), len, random.Random).read()

    assert saved["plain"] == {}


def test_a_variable_without_a_value_is_left_out_until_it_has_one() -> None:
    def used() -> Any:
        return later

    tracker = tracked(used)
    assert tracker.read()["plain"] == {}

    later = 5

    assert list(tracker.read()["plain"]["variables"].values()) == [used()]
