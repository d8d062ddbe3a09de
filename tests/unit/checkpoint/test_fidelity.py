"""What is saved comes back equal, with its types."""

import collections
import math
import types
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import outlast
from outlast.checkpoint.errors import UnsupportedState
from tests.unit.checkpoint.stores import memory_url, resumed, saved

EXACTLY = settings(max_examples=50, derandomize=True, suppress_health_check=list(HealthCheck))


class Point(NamedTuple):
    x: Any
    y: Any


DTYPES = st.one_of(
    npst.scalar_dtypes(),
    npst.unicode_string_dtypes(),
    npst.byte_string_dtypes(),
    npst.array_dtypes(npst.scalar_dtypes(), allow_subarrays=False),
)
ARRAYS = npst.arrays(DTYPES, npst.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))


def rearranged(array: "np.ndarray[Any, Any]") -> Iterable["np.ndarray[Any, Any]"]:
    """The same array in other orders of memory."""
    yield array
    yield np.asfortranarray(array)
    yield np.moveaxis(array, 0, -1) if array.ndim else array
    yield np.repeat(array, 2, axis=0)[::2] if array.ndim else array


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**62, max_value=2**65),
    st.floats(),
    st.complex_numbers(),
    st.text(),
    st.binary(),
    st.binary().map(bytearray),
    npst.array_dtypes(npst.scalar_dtypes(), allow_subarrays=False)
    .flatmap(lambda dtype: npst.arrays(dtype, 1))
    .map(lambda array: array[0]),
    npst.scalar_dtypes().flatmap(npst.from_dtype),
    st.text().map(np.str_),
    st.binary().map(np.bytes_),
)
KEYS = st.one_of(
    st.text(),
    st.integers(),
    st.binary(),
    st.tuples(st.integers(), st.text()),
    st.floats(allow_nan=False),
)
ANY_ARRAY = ARRAYS.flatmap(lambda array: st.sampled_from(list(rearranged(array))))
TREES = st.recursive(
    st.one_of(SCALARS, ANY_ARRAY, st.sets(KEYS), st.frozensets(KEYS)),
    lambda inner: st.one_of(
        st.dictionaries(KEYS, inner, max_size=4),
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.builds(Point, inner, inner),
        st.dictionaries(st.text(), inner, max_size=3).map(collections.OrderedDict),
    ),
    max_leaves=12,
)


def same(one: Any, other: Any) -> bool:
    """Equal, with types, and to the bit: NaN is NaN, and 0.0 is not -0.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        # A key keeps its own type: 1 and 1.0 are one key.
        return list(map(repr, one)) == list(map(repr, other)) and all(
            same(one[key], other[key]) for key in one
        )
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.str_ | np.bytes_):
        return repr(one) == repr(other)
    if isinstance(one, np.ndarray | np.generic):
        found = [(item.dtype, item.shape, item.tobytes()) for item in (one, other)]
        return found[0] == found[1]
    if isinstance(one, float):
        return bool(one.hex() == other.hex())
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    return bool(one == other)


def emptied(tree: Any) -> Any:
    """The same tree with other values: what a new process starts with."""
    if isinstance(tree, dict):
        return type(tree)((key, emptied(item)) for key, item in tree.items())
    if isinstance(tree, Point):
        return Point(*map(emptied, tree))
    if isinstance(tree, list | tuple):
        return type(tree)(map(emptied, tree))
    if isinstance(tree, np.ndarray):
        other = np.empty_like(tree)
        other.reshape(-1).view(np.uint8)[:] = 1 if tree.nbytes else 0
        return other
    return None


@EXACTLY
@given(TREES)
def test_any_tree_comes_back_equal_with_its_types(tree: Any) -> None:
    url = memory_url()
    saved(url, {"tree": tree})
    state = {"tree": emptied(tree)}

    resumed(url, state)

    assert same(state["tree"], tree)


@EXACTLY
@given(TREES.filter(lambda tree: not isinstance(tree, tuple)))
def test_a_part_that_appears_later_comes_back_without_a_template(tree: Any) -> None:
    url = memory_url()
    saved(url, {"late": {"tree": _without_names(tree)}})
    state: dict[str, Any] = {"late": {}}

    resumed(url, state)

    assert same(state["late"]["tree"], _without_names(tree))


def _without_names(tree: Any) -> Any:
    """Named tuples and ordered dicts need a template to be known again."""
    if isinstance(tree, dict):
        return {key: _without_names(item) for key, item in tree.items()}
    if isinstance(tree, list | tuple):
        items = map(_without_names, tree)
        return list(items) if isinstance(tree, list) else tuple(items)
    return tree


def test_an_integer_too_long_for_json_comes_back() -> None:
    url, state = memory_url(), {"large": 0}
    saved(url, {"large": -(10**5000)})

    resumed(url, state)

    assert state["large"] == -(10**5000)


def test_arrays_are_filled_where_they_are() -> None:
    url = memory_url()
    saved(url, {"a": np.arange(6.0).reshape(2, 3), "t": np.arange(6.0).reshape(2, 3).T})
    a, t = np.zeros((2, 3)), np.zeros((2, 3)).T
    state = {"a": a, "t": t}

    resumed(url, state)

    assert state["a"] is a
    assert state["t"] is t
    assert a.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert t.tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_read_only_array_and_mapping_are_replaced() -> None:
    url = memory_url()
    array = np.arange(3)
    array.flags.writeable = False
    saved(url, {"a": array, "m": types.MappingProxyType({"k": 5})})
    blank = np.zeros(3, array.dtype)
    blank.flags.writeable = False
    state: dict[str, Any] = {"a": blank, "m": types.MappingProxyType({"k": 0})}

    resumed(url, state)

    assert state["a"].tolist() == [0, 1, 2]
    assert blank.tolist() == [0, 0, 0]
    assert state["m"] == {"k": 5}


def test_a_value_is_read_at_the_save_and_written_at_resume() -> None:
    url = memory_url()
    box = {"n": 5, "history": np.arange(4)}
    saved(url, {"box": outlast.value(lambda: dict(box), box.update)})
    other: dict[str, Any] = {"n": "none yet", "history": np.zeros(1)}

    resumed(url, {"box": outlast.value(lambda: dict(other), other.update)})

    assert other["n"] == 5
    assert other["history"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("thing", "what"),
    [
        pytest.param(object(), "builtins.object", id="object"),
        pytest.param(lambda: 0, "function", id="function"),
        pytest.param(np.array([None]), "array of Python objects", id="object array"),
        pytest.param(np.ma.array([1, 2], mask=[False, True]), "masked array", id="masked array"),
        pytest.param({1: {(object,): 2}}, "builtins.type", id="key"),
        pytest.param({object()}, "builtins.object", id="set"),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_path(thing: object, what: str) -> None:
    with pytest.raises(UnsupportedState, match=rf"(?s){what}.*at 'state\.model\[0\]") as caught:
        resumed(memory_url(), {"model": [thing]})

    assert caught.value.hint is not None
    assert "outlast.value" in caught.value.hint


def test_what_becomes_unsupported_is_refused_at_the_save_whatever_on_error_says() -> None:
    state: dict[str, Any] = {"x": 1}
    with outlast.Checkpointer(memory_url(), state, on_error="warn") as checkpointer:
        checkpointer.resume()
        state["x"] = math

        with pytest.raises(UnsupportedState, match=r"state\.x"):
            checkpointer.save(1)


def test_a_container_that_holds_itself_is_refused() -> None:
    state: dict[str, Any] = {}
    state["self"] = state

    with pytest.raises(UnsupportedState, match=r"a dict at 'state\.self' that contains itself"):
        resumed(memory_url(), state)


def test_a_state_that_is_nested_too_deep_is_refused() -> None:
    state: dict[str, Any] = {}
    inner = state
    for _ in range(200):
        inner["next"] = inner = {}

    with pytest.raises(UnsupportedState, match="nested deeper than 100 levels"):
        resumed(memory_url(), state)


def test_the_random_generators_of_python_and_numpy_come_along() -> None:
    import random

    url = memory_url()
    random.seed(1)
    np.random.seed(1)
    saved(url, {"x": 1})
    expected = (random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn())
    random.seed(2)
    np.random.seed(2)

    resumed(url, {"x": 1})

    assert (random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn()) == expected


@pytest.mark.parametrize("limit", [1, 300_000, 1_500_000])
def test_a_state_larger_than_the_memory_bound_is_saved_in_waves(limit: int) -> None:
    url = memory_url()
    chance = np.random.default_rng(5)
    arrays = {f"a{n}": chance.random(size) for n, size in enumerate((100_000, 7, 50_000, 1, 9000))}
    for step in (1, 2, 3):
        saved(url, arrays, step=step, memory_bytes_max=limit)
    blank = {name: np.zeros_like(array) for name, array in arrays.items()}

    assert resumed(url, blank) == 3

    assert all(np.array_equal(blank[name], array) for name, array in arrays.items())


def test_a_generator_of_the_programs_own_is_a_part_of_the_state() -> None:
    import random

    url = memory_url()
    own = {"numpy": np.random.default_rng(1), "python": random.Random(1), "draws": 0}
    saved(url, own)
    expected = [own["numpy"].random(), own["python"].random()]  # type: ignore[attr-defined]  # both draw
    other = {"numpy": np.random.default_rng(2), "python": random.Random(2), "draws": 5}

    resumed(url, other)

    assert [other["numpy"].random(), other["python"].random()] == expected  # type: ignore[attr-defined]
