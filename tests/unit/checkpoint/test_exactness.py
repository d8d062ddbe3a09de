"""What comes back is what was saved, however the fresh state was built; or it is refused."""

import collections
import math
import random
import re
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import outlast
from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import (
    CheckpointError,
    RestoreMismatch,
    StateMismatch,
    UnresumableState,
    UnsupportedState,
)
from outlast.checkpoint.format.layout import CHUNK_BYTES
from tests.unit.checkpoint.stores import NEVER, memory_url, resumed, saved

State = dict[str, Any]


class Point(NamedTuple):
    x: Any
    y: Any


def _array(*numbers: float) -> Any:
    return np.array(numbers, dtype=np.float64)


# What is shared --------------------------------------------------------------------------------


def test_two_saved_arrays_do_not_meet_in_one_that_the_fresh_state_has_twice() -> None:
    url = memory_url()
    saved(url, {"w": _array(1, 2), "ema": _array(3, 4)})
    w = np.zeros(2)
    state = {"w": w, "ema": w}

    resumed(url, state)

    assert state["w"] is w
    assert (state["w"].tolist(), state["ema"].tolist()) == ([1, 2], [3, 4])


def test_an_array_saved_in_two_places_is_one_again() -> None:
    url = memory_url()
    w = _array(1, 2)
    saved(url, {"w": w, "inner": [w]})
    state: State = {"w": np.zeros(2), "inner": [np.zeros(2)]}

    resumed(url, state)
    state["w"][0] = 7

    assert state["inner"][0].tolist() == [7, 2]


def _fromkeys() -> dict[str, dict[str, int]]:
    shared = {"n": 0}
    return dict.fromkeys("ab", shared)


@pytest.mark.parametrize(
    ("build", "change"),
    [
        (lambda: [[0] * 2] * 3, lambda rows: rows.__setitem__(1, [5, 6])),
        (_fromkeys, lambda d: d.__setitem__("b", {"n": 1})),
        (lambda: [[np.zeros(1)]] * 2, lambda rows: rows.__setitem__(0, [np.ones(1)])),
        (lambda: [bytearray(2)] * 2, lambda rows: rows.__setitem__(0, bytearray(b"xy"))),
        (lambda: [set[int]()] * 2, lambda rows: rows.__setitem__(0, {1})),
    ],
    ids=["rows", "fromkeys", "arrays", "bytearrays", "sets"],
)
def test_containers_that_the_fresh_state_shares_come_back_apart(
    build: Callable[[], Any], change: Callable[[Any], None]
) -> None:
    url = memory_url()
    expected = build()
    change(expected)
    saved(url, {"rows": expected})
    state: State = {"rows": build()}

    resumed(url, state)

    assert repr(state["rows"]) == repr(expected)


@pytest.mark.parametrize("build", [list, dict, set, bytearray], ids=lambda kind: kind.__name__)
def test_a_container_saved_in_two_places_is_one_again(build: Callable[[], Any]) -> None:
    url = memory_url()
    shared = build()
    saved(url, {"a": shared, "b": [shared]})
    state: State = {"a": build(), "b": [build()]}

    resumed(url, state)

    assert state["b"][0] is state["a"]


def test_two_objects_that_the_fresh_state_has_as_one_are_refused() -> None:
    url = memory_url()
    saved(url, {"a": random.Random(1), "b": random.Random(2)})
    one = random.Random(3)

    with pytest.raises(
        StateMismatch, match=r"state\.b: it was saved separately from state\.a.*one object for both"
    ):
        resumed(url, {"a": one, "b": one})


def test_a_view_that_would_come_back_as_an_array_of_its_own_is_refused() -> None:
    url = memory_url()
    base = np.arange(6.0)
    saved(url, {"base": base, "part": base[2:4]})

    with pytest.raises(StateMismatch, match=r"state\.part: it shared memory with state\.base"):
        resumed(url, {"base": np.zeros(6), "part": np.zeros(2)})


def test_a_view_of_the_same_memory_comes_back_in_it() -> None:
    url = memory_url()
    base = np.arange(6.0)
    saved(url, {"base": base, "part": base[2:4]})
    fresh = np.zeros(6)
    state = {"base": fresh, "part": fresh[2:4]}

    resumed(url, state)

    assert state["base"].tolist() == [0, 1, 2, 3, 4, 5]
    assert np.shares_memory(state["base"], state["part"])


# Order and types -------------------------------------------------------------------------------


def test_a_dict_comes_back_in_the_order_in_which_it_was_saved() -> None:
    url = memory_url()
    saved(url, {"history": {"b": 1, "a": 2, "c": {"z": 1, "y": 2}}})
    state: State = {"history": {"a": 0, "b": 0, "c": {"y": 0, "z": 0}}}

    resumed(url, state)

    assert list(state["history"]) == ["b", "a", "c"]
    assert list(state["history"]["c"]) == ["z", "y"]


@pytest.mark.parametrize(
    "late",
    [
        collections.OrderedDict(b=1, a=2),
        collections.Counter("abca"),
        collections.defaultdict(list, {"a": [1]}),
        collections.defaultdict(None, {"a": 1}),
        _array(1, 2).reshape(1, 2).view(np.matrix),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    ],
    ids=["OrderedDict", "Counter", "defaultdict", "no-factory", "matrix", "fortran"],
)
@pytest.mark.parametrize("template", [None, "same"], ids=["late", "there"])
def test_a_class_of_the_standard_library_comes_back(late: Any, template: str | None) -> None:
    url = memory_url()
    saved(url, {"inner": {"late": late}})
    state: State = {"inner": {"late": None if template is None else late.copy()}}

    resumed(url, state)

    found = state["inner"]["late"]
    assert type(found) is type(late)
    assert repr(found) == repr(late)
    if isinstance(late, collections.defaultdict):
        assert found.default_factory is late.default_factory
    if isinstance(late, np.ndarray):
        assert found.strides == late.strides


@pytest.mark.parametrize("there", [False, True], ids=["late", "there"])
def test_a_matrix_of_more_than_one_chunk_comes_back(there: bool) -> None:
    matrix = np.arange(CHUNK_BYTES // 8 + 1.0).view(np.matrix)
    url = memory_url()
    saved(url, {"inner": {"late": matrix}})
    state: State = {"inner": {"late": np.zeros_like(matrix) if there else None}}

    resumed(url, state)

    assert type(state["inner"]["late"]) is np.matrix
    assert state["inner"]["late"].tolist() == matrix.tolist()


def test_a_container_of_another_class_is_replaced_by_one_of_the_saved_class() -> None:
    url = memory_url()
    saved(url, {"history": {"b": 1}})
    state: State = {"history": collections.OrderedDict(a=1, b=2)}
    state["history"].pop("a")

    resumed(url, state)

    assert type(state["history"]) is dict
    assert state["history"] == {"b": 1}


def test_a_class_that_nobody_can_create_is_refused_where_there_is_none_to_copy() -> None:
    url = memory_url()
    saved(url, {"inner": {"point": Point(1, 2)}}, on_error="warn")
    state: State = {"inner": {"point": Point(0, 0)}}

    resumed(url, state)

    assert state["inner"]["point"] == Point(1, 2)
    assert type(state["inner"]["point"]) is Point
    with pytest.raises(StateMismatch, match=r"state\.inner\.point: a .*Point was saved"):
        resumed(url, {"inner": {"point": None}})


@pytest.mark.parametrize(
    "bits", ["7ff8000000000000", "fff8000000000000", "7ff8000000000abc", "fff0000000000000"]
)
def test_a_float_comes_back_to_the_bit(bits: str) -> None:
    url = memory_url()
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    saved(url, {"x": number, "z": complex(number, -0.0), "late": {"x": number}})
    state: State = {"x": 0.0, "z": 0j, "late": {}}

    resumed(url, state)

    assert struct.pack(">d", state["x"]).hex() == bits
    assert struct.pack(">d", state["z"].real).hex() == bits
    assert math.copysign(1, state["z"].imag) == -1
    assert struct.pack(">d", state["late"]["x"]).hex() == bits


# The comparison --------------------------------------------------------------------------------


class Forgetful:
    """Restores one of its two numbers."""

    def __init__(self, number: int) -> None:
        self.kept, self.lost = number, number

    def state_dict(self) -> State:
        return {"kept": self.kept, "lost": self.lost}

    def load_state_dict(self, state: State) -> None:
        self.kept = state["kept"]


class Rounding:
    """Keeps its array in half the precision."""

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers

    def state_dict(self) -> State:
        return {"numbers": self.numbers}

    def load_state_dict(self, state: State) -> None:
        self.numbers = state["numbers"].astype(np.float32).astype(np.float64)


def test_an_object_that_does_not_load_all_it_saved_is_refused_by_its_path() -> None:
    url = memory_url()
    saved(url, {"thing": Forgetful(5)})

    with pytest.raises(RestoreMismatch, match=r"state\.thing\.lost: 5 became 3") as caught:
        resumed(url, {"thing": Forgetful(3)})

    assert "OUTLAST_COMPARE_RESTORED=0" in str(caught.value.hint)


def test_an_array_that_was_rounded_on_the_way_is_refused_by_its_path() -> None:
    url = memory_url()
    saved(url, {"thing": Rounding(_array(1 / 3))})

    with pytest.raises(RestoreMismatch, match=r"state\.thing\.numbers: its bytes differ"):
        resumed(url, {"thing": Rounding(_array(0))})


def test_a_value_whose_set_does_nothing_is_refused() -> None:
    url = memory_url()
    saved(url, {"x": outlast.value(lambda: 5, lambda _: None)})

    with pytest.raises(RestoreMismatch, match=r"state\.x: 5 became 6"):
        resumed(url, {"x": outlast.value(lambda: 6, lambda _: None)})


def test_an_object_that_cannot_load_what_it_saved_is_named() -> None:
    class Stubborn(Forgetful):
        def load_state_dict(self, state: State) -> None:
            raise RuntimeError("size mismatch for layer 3")

    url = memory_url()
    saved(url, {"thing": Stubborn(5)})

    with pytest.raises(
        CheckpointError, match=r"into state\.thing: RuntimeError: size mismatch for layer 3"
    ) as caught:
        resumed(url, {"thing": Stubborn(3)})

    assert "The state is incomplete" in str(caught.value.hint)


@pytest.mark.parametrize("by_variable", [True, False], ids=["variable", "keyword"])
def test_the_comparison_can_be_turned_off_by_name(
    by_variable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = memory_url()
    saved(url, {"thing": Forgetful(5)})
    state = {"thing": Forgetful(3)}
    options: State = {} if by_variable else {"compare_restored": False}
    if by_variable:
        monkeypatch.setenv("OUTLAST_COMPARE_RESTORED", "0")

    resumed(url, state, **options)

    assert (state["thing"].kept, state["thing"].lost) == (5, 3)


def test_a_generator_spawns_its_next_child_after_a_resume() -> None:
    url = memory_url()
    generator = np.random.default_rng(1)
    generator.spawn(2)
    saved(url, {"rng": generator})
    state = {"rng": np.random.default_rng(1)}

    resumed(url, state)

    assert state["rng"].spawn(1)[0].random() == generator.spawn(1)[0].random()


def test_a_generator_that_would_spawn_other_children_is_refused() -> None:
    url = memory_url()
    generator = np.random.default_rng(1)
    generator.spawn(2)
    saved(url, {"rng": generator})
    ahead = np.random.default_rng(1)
    ahead.spawn(3)

    with pytest.raises(RestoreMismatch, match=r"state\.rng\.spawned: 2 became 3"):
        resumed(url, {"rng": ahead})
    with pytest.raises(RestoreMismatch, match=r"state\.rng\.seed: .*"):
        resumed(url, {"rng": np.random.default_rng(9)})


def test_the_seed_of_a_generator_without_children_means_nothing() -> None:
    url = memory_url()
    generator = np.random.default_rng(1)
    saved(url, {"rng": generator})
    state = {"rng": np.random.default_rng(9)}

    resumed(url, state)

    assert state["rng"].random() == generator.random()


# Growth ----------------------------------------------------------------------------------------


def _late_key(state: State) -> None:
    state["best"] = np.ones(2)


def _longer_list(state: State) -> None:
    state["arrays"].append(np.ones(1))


def _other_shape(state: State) -> None:
    state["w"] = np.ones(5)


def _late_class(state: State) -> None:
    state["nothing"] = Point(1, 2)


@pytest.mark.parametrize(
    ("grow", "how"),
    [
        (_late_key, r"state\.best: saved, but not in the state"),
        (_longer_list, r"state\.arrays: 2 items were saved, but the state has 1"),
        (_other_shape, r"state\.w: <f8 \[5\] was saved, but the state has <f8 \[2\]"),
        (_late_class, r"state\.nothing: a .*Point was saved, but the state has None"),
    ],
)
@pytest.mark.parametrize("on_error", ["raise", "warn"])
def test_a_state_that_outgrows_what_a_resume_can_build_is_reported_at_the_first_such_save(
    grow: Callable[[State], None], how: str, on_error: str, caplog: pytest.LogCaptureFixture
) -> None:
    state: State = {"w": np.zeros(2), "arrays": [np.zeros(1)], "nothing": None}
    with Checkpointer(memory_url(), state, every_steps=NEVER, on_error=on_error) as checkpointer:
        checkpointer.resume()
        checkpointer.save(1)
        checkpointer.tick(1)
        grow(state)

        checkpointer.save(2)
        checkpointer.wait()
        if on_error == "raise":
            with pytest.raises(UnresumableState, match=how) as caught:
                checkpointer.tick(2)
            assert "Use None for values" in str(caught.value.hint)
        else:
            checkpointer.tick(2)
            assert re.search(how, caplog.text)


@pytest.mark.parametrize(
    "grow",
    [
        lambda state: state["history"].update(best=np.ones(2)),
        lambda state: state["items"].append(np.ones(1)),
        lambda state: state.update(nothing=np.ones(3)),
        lambda state: state.update(nothing={"a": [1]}),
    ],
    ids=["into an empty dict", "into an empty list", "an array for None", "a dict for None"],
)
def test_growth_that_a_resume_can_follow_is_no_reason_to_complain(
    grow: Callable[[State], Any], caplog: pytest.LogCaptureFixture
) -> None:
    url = memory_url()
    state: State = {"history": {}, "items": [], "nothing": None}
    with Checkpointer(url, state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        grow(state)
        checkpointer.save(1)
        checkpointer.wait()
        checkpointer.tick(1)
    fresh: State = {"history": {}, "items": [], "nothing": None}

    resumed(url, fresh)

    assert repr(fresh) == repr(state)
    assert not caplog.records


# What cannot be saved --------------------------------------------------------------------------


@pytest.mark.parametrize("thing", [random.SystemRandom(), Forgetful, np.random.SeedSequence(1)])
def test_what_has_no_state_is_refused_by_its_path(thing: object) -> None:
    with pytest.raises(UnsupportedState, match=r"state\.thing"):
        resumed(memory_url(), {"thing": thing})


@pytest.mark.parametrize(
    "make",
    [
        lambda: random.Random(7),
        lambda: np.random.default_rng(7),
        lambda: np.random.RandomState(7),
        lambda: np.random.PCG64(7),
    ],
    ids=["Random", "Generator", "RandomState", "BitGenerator"],
)
def test_every_kind_of_generator_goes_on_where_it_was(make: Callable[[], Any]) -> None:
    def draw(generator: Any) -> object:
        if isinstance(generator, np.random.PCG64):
            return generator.random_raw()
        return generator.random()

    url = memory_url()
    generator = make()
    draw(generator)
    saved(url, {"rng": generator})
    expected = draw(generator)
    fresh = make()

    resumed(url, {"rng": fresh})

    assert draw(fresh) == expected
