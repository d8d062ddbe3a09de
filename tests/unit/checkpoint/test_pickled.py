"""Nothing is pickled but what the user names, and nothing else is ever unpickled."""

import pickle
from typing import Any

import numpy as np
import pytest

from outlast.checkpoint.errors import StateMismatch, UnsupportedState
from tests.unit.checkpoint.stores import memory_url, resumed, saved


class Curriculum:
    """A thing of the user's own, without a state_dict."""

    def __init__(self, stage: int) -> None:
        self.stage = stage


def test_a_named_object_is_pickled_and_comes_back() -> None:
    url = memory_url()
    saved(url, {"x": 1, "deep": {"plan": Curriculum(3)}}, may_pickle=["deep.plan"])
    # The program may go on with this name for it.
    plan = Curriculum(0)
    state: dict[str, Any] = {"x": 0, "deep": {"plan": plan}}

    resumed(url, state, may_pickle=["deep.plan"])

    assert state["deep"]["plan"] is plan
    assert plan.stage == 3
    assert state["x"] == 1


def test_an_object_that_is_not_named_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnsupportedState, match=r"Curriculum at 'state\.plan'") as caught:
        saved(memory_url(), {"plan": Curriculum(3)})

    assert "may_pickle" in str(caught.value.hint)


def test_a_pickle_is_not_opened_unless_it_is_named_at_resume_too() -> None:
    url = memory_url()
    saved(url, {"plan": Bomb()}, may_pickle=["plan"])

    with pytest.raises(StateMismatch, match="may_pickle does not list it"):
        resumed(url, {"plan": None})


class Bomb:
    """Were it unpickled, the test would fail."""

    def __reduce__(self) -> Any:
        return (_explode, ())


def _explode() -> None:
    raise AssertionError("It was unpickled.")


def test_what_cannot_be_pickled_either_is_refused() -> None:
    with pytest.raises(UnsupportedState, match="cannot be pickled either"):
        saved(memory_url(), {"hook": lambda: pickle}, may_pickle=["hook"])


class Views:
    """Has an array and a part of it, as some trees of scikit-learn do."""

    def __init__(self) -> None:
        self.all = np.zeros(4)
        self.some = self.all[:2]


def test_arrays_that_share_memory_in_a_pickle_are_warned_about_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    state = {"separate": Views(), "shared": Views()}
    state["separate"].some = np.zeros(2)
    for _ in range(2):
        saved(memory_url(), state, may_pickle=list(state))

    [found] = [one for one in caplog.messages if "share memory" in one]
    assert found.startswith("The Views at 'state.shared' has arrays")
