"""What parts of a state share, and what they are besides their content, is kept or refused."""

import collections
import copy
import random
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, NamedTuple

import numpy as np
import pytest

from outlast.checkpoint.checkpointer import Checkpointer
from outlast.checkpoint.errors import (
    RestoreMismatch,
    StateMismatch,
    UnresumableState,
    UnsupportedState,
)
from outlast.checkpoint.restoring.fitting import misfits
from outlast.checkpoint.state.nodes import walk
from outlast.checkpoint.state.tree import capture
from tests.unit.checkpoint.stores import NEVER, memory_url, resumed, saved

State = dict[str, Any]


class Point(NamedTuple):
    x: int
    y: int


class Tagged(dict[str, Any]):
    tag = 0


class TaggedSet(set[int]):
    pass


class SlottedDict(dict[str, Any]):
    __slots__ = ("tag",)


class SlottedList(list[int]):
    __slots__ = ("tag",)


class TaggedTuple(tuple[int, ...]):
    tag = 0


class TaggedFrozenset(frozenset[int]):
    tag = 0


class TaggedArray(np.ndarray[Any, Any]):
    tag = 0


class Counted(MutableMapping[str, Any]):
    """A mapping that is not a dict, and has an attribute besides its items."""

    def __init__(self, **items: Any) -> None:
        self._items = items
        self.tag = 0

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __setitem__(self, key: str, item: Any) -> None:
        self._items[key] = item

    def __delitem__(self, key: str) -> None:
        del self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


class Lehmer(random.Random):
    """A generator whose state is an attribute, which its getstate does not include."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.number = seed

    def random(self) -> float:
        self.number = self.number * 48_271 % (2**31 - 1)
        return self.number / (2**31 - 1)


class Copying:
    """Copies what it loads."""

    def __init__(self, inside: Any) -> None:
        self.inside = inside

    def state_dict(self) -> State:
        return {"inside": self.inside}

    def load_state_dict(self, state: State) -> None:
        self.inside = copy.deepcopy(state["inside"])


class Keyed:
    """Its state_dict is a dict of the program's, whose order means something."""

    def __init__(self) -> None:
        self.items = {"a": 1, "b": 2}

    def state_dict(self) -> State:
        return dict(self.items)

    def load_state_dict(self, state: State) -> None:
        self.items.update(state)


class ByAttributes:
    """Its state_dict is its attributes."""

    def __init__(self, *names: str) -> None:
        for name in names:
            setattr(self, name, 0)

    def state_dict(self) -> State:
        return dict(vars(self))

    def load_state_dict(self, state: State) -> None:
        vars(self).update(state)


class Counting:
    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> State:
        return {"count": self.count}

    def load_state_dict(self, state: State) -> None:
        self.count = state["count"]


def slices(*, a: bool, b: bool) -> State:
    """Two halves of an array that comes last, each a slice of it or not."""
    x = np.zeros(10)
    return {"a": x[:5] if a else np.zeros(5), "b": x[5:] if b else np.zeros(5), "x": x}


# Views -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("a", [True, False])
@pytest.mark.parametrize("b", [True, False])
@pytest.mark.parametrize("fresh_a", [True, False])
@pytest.mark.parametrize("fresh_b", [True, False])
def test_each_of_several_slices_of_an_array_is_one_again_or_refused(
    a: bool, b: bool, fresh_a: bool, fresh_b: bool
) -> None:
    url = memory_url()
    saved(url, slices(a=a, b=b))
    state = slices(a=fresh_a, b=fresh_b)
    changed = [
        f"state.{name}" for name, differs in (("a", a != fresh_a), ("b", b != fresh_b)) if differs
    ]

    if changed:
        with pytest.raises(StateMismatch) as caught:
            resumed(url, state)
        assert [text.partition(":")[0] for text in caught.value.differences] == changed
        assert all("state.x" in text for text in caught.value.differences)
        return
    resumed(url, state)
    state["x"] += 1
    assert (state["a"].tolist(), state["b"].tolist()) == ([float(a)] * 5, [float(b)] * 5)


def test_a_slice_of_another_place_is_refused() -> None:
    url = memory_url()
    x, y = np.zeros(10), np.zeros(10)
    saved(url, {"x": x, "part": x[2:4]})

    with pytest.raises(StateMismatch, match=r"state\.part: it shared memory with state\.x"):
        resumed(url, {"x": y, "part": y[3:5]})


def as_earlier(root: Any, view: list[Any]) -> Any:
    """A tree as earlier versions wrote it: one overlap for each array."""
    for _, traits, _, _ in walk(root):
        if "memory" in traits:
            del traits["memory"]
            traits["view"] = view
    return root


@pytest.mark.parametrize(("is_view", "expected"), [(True, 0), (False, 1)])
def test_views_as_earlier_versions_wrote_them_are_read(is_view: bool, expected: int) -> None:
    x = np.zeros(10)
    tree = capture({"x": x, "part": x[2:4]})
    root = as_earlier(tree.root, ["x", 16])
    leaves: Any = [
        type("Leaf", (), {"path": leaf.path, "kind": ("numpy", leaf.dtype, leaf.shape)})
        for leaf in tree.leaves
    ]
    for leaf, one in zip(leaves, tree.leaves, strict=True):
        leaf.library, leaf.dtype, leaf.shape = "numpy", one.dtype, one.shape
    y = np.zeros(10)
    fresh = capture({"x": y, "part": y[2:4] if is_view else np.zeros(2)})

    assert len(misfits(root, leaves, fresh)) == expected


# Objects ---------------------------------------------------------------------------------------


def test_a_list_that_an_object_copies_while_it_loads_is_refused() -> None:
    url = memory_url()
    shared = [1]
    saved(url, {"d": shared, "h": Copying(shared)})
    fresh = [1]

    with pytest.raises(
        RestoreMismatch, match=r"state\.h\.inside: it is shared with different parts"
    ):
        resumed(url, {"d": fresh, "h": Copying(fresh)})


def test_a_copy_of_what_nobody_else_has_is_fine() -> None:
    url = memory_url()
    saved(url, {"h": Copying([1, [2], np.ones(2)])})
    state = {"h": Copying([0, [0], np.zeros(2)])}

    resumed(url, state)

    assert repr(state["h"].inside) == repr([1, [2], np.ones(2)])


def test_the_order_of_keys_in_an_objects_own_dict_is_kept_or_refused() -> None:
    url = memory_url()
    thing = Keyed()
    thing.items["a"] = thing.items.pop("a")
    saved(url, {"h": thing})

    with pytest.raises(RestoreMismatch, match=r"state\.h: its keys \[\"b\", \"a\"\] became"):
        resumed(url, {"h": Keyed()})


def test_the_order_of_attributes_means_nothing() -> None:
    url = memory_url()
    saved(url, {"h": ByAttributes("a", "b")})

    resumed(url, {"h": ByAttributes("b", "a")})


def test_two_generators_of_the_same_bits_are_kept_or_refused() -> None:
    def build(*, shares: bool) -> State:
        first = np.random.default_rng(1)
        other = np.random.Generator(first.bit_generator) if shares else np.random.default_rng(2)
        return {"a": first, "b": other}

    together, separate = memory_url(), memory_url()
    state = build(shares=True)
    saved(together, state)
    saved(separate, build(shares=False))
    expected = [state[name].random() for name in "aba"]
    fresh = build(shares=True)

    resumed(together, fresh)

    assert [fresh[name].random() for name in "aba"] == expected
    with pytest.raises(StateMismatch, match=r"state\.b: it shared its bit generator with state\.a"):
        resumed(together, build(shares=False))
    with pytest.raises(StateMismatch, match=r"state\.b: it shared .* no other generator when"):
        resumed(separate, build(shares=True))


# Classes, keys and attributes ------------------------------------------------------------------


@pytest.mark.parametrize("thing", [{Point(1, 2): 3}, {Point(1, 2)}, {(1, Point(1, 2)): 3}])
def test_a_named_tuple_as_a_key_is_refused_by_its_path(thing: object) -> None:
    with pytest.raises(UnsupportedState, match=r"Point as a key or in a set at 'state\.d'"):
        resumed(memory_url(), {"d": thing})


@pytest.mark.parametrize(
    ("fresh", "late"),
    [({1: "a"}, {True: "a"}), ({0.0: "a"}, {-0.0: "a"}), ({(1, 2): 0}, {(True, 2): 0})],
)
def test_keys_that_are_equal_but_not_the_same_come_back(fresh: Any, late: Any) -> None:
    url = memory_url()
    saved(url, {"d": late, "s": set(late)})
    state: State = {"d": fresh, "s": set(fresh)}

    resumed(url, state)

    assert repr(state) == repr({"d": late, "s": set(late)})


def test_a_subclass_of_set_comes_back() -> None:
    url = memory_url()
    saved(url, {"s": TaggedSet([1, 5])})
    fresh = TaggedSet([1])
    state = {"s": fresh}

    resumed(url, state)

    assert state["s"] is fresh
    assert fresh == {1, 5}


def test_plain_attributes_of_a_container_come_back() -> None:
    url = memory_url()
    thing = Tagged(a=1)
    thing.tag = 7
    ordered = collections.OrderedDict(b=1)
    ordered.note = "x"  # type: ignore[attr-defined]  # as a program may do
    saved(url, {"d": thing, "late": {"o": ordered}})
    state: State = {"d": Tagged(a=0), "late": {}}

    resumed(url, state)

    assert (state["d"], state["d"].tag) == ({"a": 1}, 7)
    assert state["late"]["o"].note == "x"


@pytest.mark.parametrize(
    "build",
    [
        lambda: SlottedDict(a=1),
        lambda: SlottedList([1]),
        lambda: TaggedTuple([1]),
        lambda: TaggedFrozenset([1]),
        lambda: Counted(a=1),
        lambda: collections.UserDict(a=1),
        lambda: np.ones(2).view(TaggedArray),
    ],
    ids=["slots", "slots of a list", "tuple", "frozenset", "mapping", "UserDict", "array"],
)
def test_attributes_come_back_whatever_kind_of_container_has_them(
    build: Callable[[], Any],
) -> None:
    url = memory_url()
    thing, fresh = build(), build()
    thing.tag, fresh.tag = 7, 3
    saved(url, {"d": thing})
    state: State = {"d": fresh}

    resumed(url, state)

    assert type(state["d"]) is type(thing)
    assert state["d"].tag == 7


def test_a_mapping_of_several_mappings_is_refused() -> None:
    chain = collections.ChainMap({"a": 1}, {"b": 2})

    with pytest.raises(UnsupportedState, match=r"ChainMap at 'state\.d' has the attribute 'maps'"):
        resumed(memory_url(), {"d": chain})


def test_a_generator_whose_state_is_an_attribute_goes_on() -> None:
    url = memory_url()
    generator = Lehmer(5)
    generator.random()
    saved(url, {"rng": generator})
    state = {"rng": Lehmer(5)}

    resumed(url, state)

    assert state["rng"].random() == generator.random()


def test_zeros_at_the_end_of_a_text_of_numpy_come_back() -> None:
    url = memory_url()
    saved(url, {"text": np.str_("a\0")})
    state: State = {"text": np.str_("")}

    resumed(url, state)

    assert len(state["text"]) == 2


class Meters(np.float64):
    pass


@pytest.mark.parametrize(
    "thing",
    [Meters(1), np.rec.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")])[0]],
    ids=["subclass", "record"],
)
def test_a_scalar_whose_class_its_dtype_does_not_name_is_refused(thing: Any) -> None:
    with pytest.raises(UnsupportedState, match=rf"{type(thing).__qualname__} at 'state\.x'"):
        resumed(memory_url(), {"x": thing})


def test_an_attribute_of_a_container_that_cannot_be_saved_is_refused() -> None:
    thing = Tagged()
    thing.history = [1]  # type: ignore[attr-defined]  # as a program may do

    with pytest.raises(UnsupportedState, match=r"Tagged at 'state\.d' has the attribute 'history'"):
        resumed(memory_url(), {"d": thing})


class Mirrored(dict[str, Any]):
    """Offers its items as attributes."""

    def __init__(self, **items: Any) -> None:
        super().__init__(items)
        self.__dict__ = self


def test_items_that_are_attributes_too_are_no_obstacle() -> None:
    url = memory_url()
    saved(url, {"d": Mirrored(a=[1], b=2)})
    state = {"d": Mirrored(a=[0], b=0)}

    resumed(url, state)

    assert vars(state["d"])["a"] == [1]
    assert state["d"] == {"a": [1], "b": 2}


def test_an_array_that_repeats_its_memory_comes_back() -> None:
    url = memory_url()
    saved(url, {"d": np.broadcast_to(np.arange(3.0), (2, 3))})
    state = {"d": np.broadcast_to(np.zeros(3), (2, 3))}

    resumed(url, state)

    assert state["d"].tolist() == [[0, 1, 2], [0, 1, 2]]


def test_the_gaps_of_a_structure_show_nothing_of_the_memory_before() -> None:
    kind = np.dtype([("a", "i1"), ("b", "f8")], align=True)
    array = np.zeros(8, kind)
    array.view(np.uint8)[:] = 7

    for one, gap in ((array, 7), (array[::2], 0)):
        (leaf,) = capture({"a": one}).leaves
        target = np.full(leaf.nbytes, 9, np.uint8)
        leaf.library.copy_out(leaf.array, target)

        assert target[0] == 7
        assert set(target[1:8].tolist()) == {gap}


# Reported at the save --------------------------------------------------------------------------


def _two_objects(state: State) -> None:
    state["again"] = Counting()


def _slice_apart(state: State) -> None:
    state["part"] = state["part"].copy()


def _shared_bits(state: State) -> None:
    state["other"] = np.random.Generator(state["rng"].bit_generator)


def _odd_structure(state: State) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    state["nothing"] = np.zeros(1, [("a", ml_dtypes.bfloat16), ("b", "i4")])


@pytest.mark.parametrize(
    ("change", "how"),
    [
        (_two_objects, r"state\.again: it was saved separately from state\.thing"),
        (_slice_apart, r"state\.part: it shares memory with state\.base here"),
        (_shared_bits, r"state\.other: it shared its bit generator with state\.rng"),
        (_odd_structure, r"state\.nothing: NumPy cannot create an array of \[\('a', '<V2'\)"),
    ],
)
def test_what_a_resume_would_refuse_is_reported_at_the_save(
    change: Callable[[State], None], how: str
) -> None:
    thing, base = Counting(), np.zeros(6)
    state: State = {
        "thing": thing,
        "again": thing,
        "base": base,
        "part": base[1:3],
        "rng": np.random.default_rng(1),
        "other": np.random.default_rng(2),
        "nothing": None,
    }
    with Checkpointer(memory_url(), state, every_steps=NEVER) as checkpointer:
        checkpointer.resume()
        checkpointer.save(1)
        checkpointer.wait()
        checkpointer.tick(1)
        change(state)

        checkpointer.save(2)
        checkpointer.wait()

        with pytest.raises(UnresumableState, match=how):
            checkpointer.tick(2)
