"""What states of JAX must survive. In a process of its own: JAX does not bear what tests fork."""

import functools
import os
import traceback
import types
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

import outlast
from outlast.checkpoint.errors import StateMismatch, UnresumableState, UnsupportedState
from outlast.checkpoint.state.jax_arrays import check_readable
from outlast.checkpoint.state.jax_shards import local_box
from tests.unit.checkpoint.stores import memory_url, resumed, saved

jax: Any
jnp: Any


class ScaleByAdam(NamedTuple):
    """As optax has it."""

    count: Any
    mu: Any
    nu: Any


class Empty(NamedTuple):
    """As optax has it."""


@dataclass(frozen=True)
class Frozen:
    """As flax's TrainState is: `width` and `apply` are static, the others are children."""

    step: Any
    params: Any
    act: Any
    width: int
    apply: Any


@dataclass(frozen=True)
class Other:
    x: Any


@dataclass
class Changing:
    """Someone else may hold it, and see what it is set to."""

    w: Any
    count: int


def trained(
    number: float, *, width: int = 4, size: int = 2, name: str = "w", act: Any = np.tanh
) -> Frozen:
    params = {name: jnp.full(size, number)}
    return Frozen(int(number), params, act, width, lambda: number)


def register_all() -> None:
    children = ["step", "params", "act"]
    jax.tree_util.register_dataclass(Frozen, children, ["width", "apply"])
    jax.tree_util.register_dataclass(Other, ["x"], [])
    jax.tree_util.register_dataclass(Changing, ["w", "count"], [])


def params_and_a_named_optimizer_state_come_back() -> None:
    url = memory_url()
    params = {"w": jnp.arange(6.0).reshape(2, 3), "b": jnp.ones(3, jnp.bfloat16)}
    opt = (ScaleByAdam(jnp.int32(3), params, params), ())
    saved(url, {"params": params, "opt": opt, "key": jax.random.PRNGKey(5)})
    blank = {"w": jnp.zeros((2, 3)), "b": jnp.zeros(3, jnp.bfloat16)}
    state: dict[str, Any] = {
        "params": dict(blank),
        "opt": (ScaleByAdam(jnp.int32(0), dict(blank), dict(blank)), ()),
        "key": jax.random.PRNGKey(0),
    }

    resumed(url, state)

    assert jax.tree.structure(state["opt"]) == jax.tree.structure(opt)
    pairs = zip(jax.tree.leaves(state["opt"]), jax.tree.leaves(opt), strict=True)
    assert all(isinstance(a, jax.Array) and a.dtype == b.dtype for a, b in pairs)
    assert state["params"]["b"].dtype == jnp.bfloat16
    assert np.array_equal(state["params"]["w"], params["w"])
    assert np.array_equal(state["opt"][0].mu["w"], params["w"])
    assert np.array_equal(state["key"], jax.random.PRNGKey(5))
    assert state["params"]["w"].sharding == blank["w"].sharding


def a_changed_shape_is_refused() -> None:
    url = memory_url()
    saved(url, {"w": jnp.zeros(3)})

    with pytest.raises(StateMismatch, match=r"float32 \[3\] was saved, .* float32 \[4\]"):
        resumed(url, {"w": jnp.zeros(4)})


def an_array_of_another_library_is_refused() -> None:
    url = memory_url()
    saved(url, {"w": jnp.zeros(3)})

    with pytest.raises(StateMismatch, match=r"jax float32 \[3\] was saved, .* numpy <f4 \[3\]"):
        resumed(url, {"w": np.zeros(3, np.float32)})


def arrays_of_small_types_come_back_without_a_template() -> None:
    import ml_dtypes

    url = memory_url()
    late = {"jax": jnp.ones(3, jnp.float8_e4m3fn), "numpy": np.ones(3, ml_dtypes.bfloat16)}
    saved(url, {"late": late})
    state: dict[str, Any] = {"late": {}}

    resumed(url, state)

    assert state["late"]["jax"].dtype == jnp.float8_e4m3fn
    assert state["late"]["numpy"].dtype == ml_dtypes.bfloat16
    assert state["late"]["numpy"].tolist() == [1, 1, 1]


def typed_keys_of_any_shape_and_kind_come_back() -> None:
    url = memory_url()
    keys = {
        "one": jax.random.key(5),
        "many": jax.random.split(jax.random.key(6), (2, 3)),
        "none": jax.random.split(jax.random.key(7), 0),
        "other": jax.random.key(8, impl="rbg"),
    }
    saved(url, {**keys, "late": {"key": keys["one"]}})
    blank = jax.tree.map(lambda key: jax.random.clone(key), keys)
    blank["one"], blank["other"] = jax.random.key(0), jax.random.key(0, impl="rbg")
    state: dict[str, Any] = {**blank, "late": {}}

    resumed(url, state)

    for name, key in {**keys, "late": keys["one"]}.items():
        found = state["late"]["key"] if name == "late" else state[name]
        assert found.dtype == key.dtype and found.shape == key.shape
        assert np.array_equal(jax.random.key_data(found), jax.random.key_data(key))
    assert jax.random.bits(state["one"]) == jax.random.bits(keys["one"])


def a_key_of_another_kind_is_refused_by_its_path() -> None:
    url, old = memory_url(), memory_url()
    saved(url, {"keys": {"data": jax.random.key(1)}})
    saved(old, {"keys": {"data": jax.random.PRNGKey(1)}})

    for where, key, message in (
        (url, jax.random.key(1, impl="rbg"), "random key of threefry2x32 was .* random key of rbg"),
        (url, jax.random.PRNGKey(1), "random key of threefry2x32 was .* an array of numbers"),
        (old, jax.random.key(1), "an array of numbers was .* random key of threefry2x32"),
        (url, 5, r"uint32 \[2\] was saved, but the state has a plain value"),
    ):
        with pytest.raises(StateMismatch, match=rf"state\.keys\.data: .*{message}"):
            resumed(where, {"keys": {"data": key}})


def a_pytree_comes_back_with_the_static_parts_of_the_program() -> None:
    url = memory_url()
    saved(url, {"train": trained(3.0), "pair": [(trained(4.0), 1)]})
    state: dict[str, Any] = {"train": trained(0.0), "pair": [(trained(0.0), 0)]}
    template, weight = state["train"], state["train"].params["w"]

    resumed(url, state)

    assert state["train"] is not template and template.params["w"] is not weight
    assert type(state["train"]) is Frozen and state["train"].apply is template.apply
    assert jax.tree.structure(state["train"]) == jax.tree.structure(template)
    assert state["train"].step == 3 and float(state["pair"][0][0].params["w"][1]) == 4.0
    assert state["pair"][0][1] == 1


def a_pytree_of_another_structure_is_refused_before_anything_is_filled() -> None:
    url = memory_url()
    saved(url, {"train": trained(3.0), "array": np.full(3, 3.0)})
    cases: dict[str, tuple[Any, str]] = {
        "class": (Other(x=1), r"state\.train: a .*Frozen was saved, but the state has a .*Other"),
        "dict": ({"step": 1}, r"state\.train: a .*Frozen was saved, but the state has a dict"),
        "static": (trained(0.0, width=5), r"state\.train: its static values were \(4, .*\(5, "),
        "shape": (trained(0.0, size=9), r"state\.train\.params\.w: .*\[2\] was .* \[9\]"),
        "key": (trained(0.0, name="v"), r"state\.train\.params\.v: in the state, but not saved"),
        "function": (trained(0.0, act=1), r"state\.train\.act: .* but the state has a plain value"),
    }
    for train, message in cases.values():
        array = np.zeros(3)
        with pytest.raises(StateMismatch, match=message):
            resumed(url, {"train": train, "array": array})
        assert array.tolist() == [0, 0, 0]
    with pytest.raises(StateMismatch, match=r"state\.train: .* but the state has None"):
        resumed(url, {"train": None, "array": np.zeros(3)})


def another_number_of_transformations_is_refused() -> None:
    url = memory_url()
    adam, none = ScaleByAdam(jnp.int32(0), {}, {}), Empty()
    saved(url, {"opt": (adam, none)})

    for opt in ((adam, none, none), (adam,), (none, adam)):
        with pytest.raises(StateMismatch, match=r"state\.opt"):
            resumed(url, {"opt": opt})


def a_pytree_that_can_change_is_filled_where_it_is() -> None:
    url = memory_url()
    one = Changing(w=jnp.arange(3.0), count=7)
    saved(url, {"one": one, "same": [one], "other": Changing(w=jnp.ones(3), count=8)})
    fresh = Changing(w=jnp.zeros(3), count=0)
    # One object at all places: the two that were saved separately become two again.
    state: dict[str, Any] = {"one": fresh, "same": [fresh], "other": fresh}

    resumed(url, state)

    assert state["one"] is fresh and state["same"][0] is fresh
    assert fresh.count == 7 and fresh.w.tolist() == [0, 1, 2]
    assert state["other"] is not fresh and state["other"].count == 8


def a_number_of_python_in_a_pytree_may_become_an_array() -> None:
    step = jax.jit(lambda train: jax.tree.map(lambda leaf: leaf + 1, train))
    expected = step(step(step(Other(x=0))))
    url = memory_url()
    for last in (1, 3):
        state: dict[str, Any] = {"train": Other(x=0)}
        with outlast.Run(url, state, every_steps=1) as run:
            for _ in run.steps(last):
                state["train"] = step(state["train"])
                run._session.wait()

    assert state["train"].x.dtype == expected.x.dtype and int(state["train"].x) == 3
    assert state["train"].x.weak_type is expected.x.weak_type is True


def an_array_in_a_pytree_that_changes_its_type_is_reported_at_the_first_save() -> None:
    for first in (np.zeros(3), np.float64(0), np.zeros(())):
        state: dict[str, Any] = {"train": Other(x=first)}
        with (
            pytest.raises(UnresumableState, match=r"state\.train\.x: .*float32.* was saved"),
            outlast.Run(memory_url(), state, every_steps=1) as run,
        ):
            for _ in run.steps(3):
                state["train"] = Other(x=jnp.asarray(state["train"].x) + 1)
                run._session.wait()


def weak_types_stay_weak_and_others_do_not_become_so() -> None:
    url = memory_url()
    weak = {"f": jnp.asarray(0.5), "i": jax.jit(lambda x: x)(3), "c": jnp.asarray(1j)}
    assert all(array.weak_type for array in weak.values())
    saved(url, {"weak": weak, "strong": jnp.float32(0.5), "late": dict(weak)})
    state: dict[str, Any] = {
        "weak": {"f": jnp.float32(0), "i": jnp.int32(0), "c": jnp.complex64(0)},
        "strong": jnp.asarray(0.0),
        "late": {},
    }

    resumed(url, state)

    for found in (state["weak"], state["late"]):
        assert all(array.weak_type for array in found.values())
        assert [array.tolist() for array in found.values()] == [0.5, 3, 1j]
    assert not state["strong"].weak_type
    assert (state["weak"]["f"] * jnp.ones(2, jnp.bfloat16)).dtype == jnp.bfloat16


def arrays_come_back_on_their_devices_and_others_stay_free_to_move() -> None:
    url = memory_url()
    mesh = jax.make_mesh((2,), ("d",))
    over = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
    saved(url, {"w": jax.device_put(jnp.arange(4.0), over), "step": jnp.int32(5)})
    state = {"w": jax.device_put(jnp.zeros(4), over), "step": jnp.int32(0)}

    resumed(url, state)

    assert state["w"].sharding == over and not state["step"].committed
    assert jax.jit(lambda w, step: w + step)(**state).tolist() == [5, 6, 7, 8]


def a_reference_is_filled_where_it_is() -> None:
    url = memory_url()
    saved(url, {"ref": jax.new_ref(jnp.arange(3.0))})
    ref = jax.new_ref(jnp.zeros(3))

    resumed(url, {"ref": ref})

    assert ref[...].tolist() == [0, 1, 2]


def what_has_no_bytes_here_is_refused_with_its_path() -> None:
    gone, donated = jnp.ones(3), jax.random.key(0)
    gone.delete()
    donated.delete()
    for array in (gone, donated):
        with pytest.raises(UnsupportedState, match=r"donated or deleted.* at 'state\.w'"):
            resumed(memory_url(), {"w": array})
    with pytest.raises(UnsupportedState, match=r"Tracer at 'state\.w'"):
        jax.jit(lambda w: resumed(memory_url(), {"w": w}))(1.0)
    elsewhere = types.SimpleNamespace(is_deleted=lambda: False, is_fully_addressable=False)
    with pytest.raises(ValueError, match=r"shards in processes that .* has not connected"):
        check_readable(elsewhere)


class Device(NamedTuple):
    process_index: int
    number: int


@dataclass(frozen=True)
class ShardsOfProcesses:
    """As a sharding of JAX: the process of each device, and its rows of an array of 8."""

    rows: tuple[tuple[int, int, int], ...]

    def devices_indices_map(self, shape: tuple[int, ...]) -> dict[Any, Any]:
        assert shape == (8,)
        return {
            Device(process, number): (slice(start, stop),)
            for number, (process, start, stop) in enumerate(self.rows)
        }


def each_element_is_saved_by_the_first_process_that_has_it() -> None:
    def box(*rows: tuple[int, int, int]) -> list[object]:
        found = local_box(types.SimpleNamespace(sharding=ShardsOfProcesses(rows), shape=(8,)))
        return [found.shard.offsets, found.shape, found.is_copy]

    # This is process 0.

    assert box((0, 0, 4), (1, 4, 8)) == [(0,), (4,), False]
    assert box((1, 0, 4), (0, 4, 8)) == [(4,), (4,), False]
    assert box((0, 2, 4), (0, 0, 2), (1, 4, 6), (1, 6, 8)) == [(0,), (4,), False]
    assert box((1, 0, 8), (0, 0, 8)) == [(0,), (8,), False]
    assert box((-1, 0, 8), (0, 0, 8)) == [(0,), (8,), True]
    for rows in (
        # A gap, and what two processes share only in part.
        ((0, 0, 2), (0, 4, 6), (1, 2, 4), (1, 6, 8)),
        ((0, 0, 4), (1, 0, 4), (1, 4, 8)),
    ):
        with pytest.raises(ValueError, match="not one box on each process"):
            box(*rows)
    with pytest.raises(ValueError, match="on no device of this process"):
        box((1, 0, 4), (2, 4, 8))


def a_leaf_that_is_neither_plain_nor_code_is_refused() -> None:
    leaf = types.SimpleNamespace(count=1)
    with pytest.raises(UnsupportedState, match=r"a types.SimpleNamespace at 'state\.train\.x'"):
        resumed(memory_url(), {"train": Other(x=leaf)})
    with pytest.raises(UnsupportedState, match=r"a builtins.function at 'state\.train'"):
        resumed(memory_url(), {"train": trained})
    resumed(
        memory_url(), {"train": Other(x=[functools.partial(jnp.sum, axis=0), object(), jnp.tanh])}
    )


def a_state_that_is_a_pytree_itself_is_refused() -> None:
    state: Any = trained(0.0)
    with pytest.raises(UnsupportedState, match="is a Frozen, which cannot be changed") as caught:
        resumed(memory_url(), state)
    assert '{"train": train}' in str(caught.value.hint)


def a_leaf_that_becomes_an_array_of_jax_is_reported_at_the_first_save() -> None:
    for first in (np.zeros(3), np.zeros(3, np.float32), 0.0, np.float64(0)):
        state: dict[str, Any] = {"w": first}
        with (
            pytest.raises(UnresumableState, match=r"state\.w: .*float32.* was saved") as caught,
            outlast.Run(memory_url(), state, every_steps=1) as run,
        ):
            for step in run.steps(3):
                state["w"] = jnp.asarray(state["w"]) + 1
                if step == 1:
                    # Its writer has compared the first save by now.
                    run._session.wait()
        assert run.step <= 2
        assert "types before the run starts" in str(caught.value.hint)


CHECKS = (
    params_and_a_named_optimizer_state_come_back,
    a_changed_shape_is_refused,
    an_array_of_another_library_is_refused,
    arrays_of_small_types_come_back_without_a_template,
    typed_keys_of_any_shape_and_kind_come_back,
    a_key_of_another_kind_is_refused_by_its_path,
    a_pytree_comes_back_with_the_static_parts_of_the_program,
    a_pytree_of_another_structure_is_refused_before_anything_is_filled,
    another_number_of_transformations_is_refused,
    a_pytree_that_can_change_is_filled_where_it_is,
    a_number_of_python_in_a_pytree_may_become_an_array,
    an_array_in_a_pytree_that_changes_its_type_is_reported_at_the_first_save,
    weak_types_stay_weak_and_others_do_not_become_so,
    arrays_come_back_on_their_devices_and_others_stay_free_to_move,
    a_reference_is_filled_where_it_is,
    what_has_no_bytes_here_is_refused_with_its_path,
    each_element_is_saved_by_the_first_process_that_has_it,
    a_leaf_that_is_neither_plain_nor_code_is_refused,
    a_state_that_is_a_pytree_itself_is_refused,
    a_leaf_that_becomes_an_array_of_jax_is_reported_at_the_first_save,
)


def check_all() -> None:
    """Try each, and print what came of it."""
    global jax, jnp
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    register_all()
    for check in CHECKS:
        try:
            check()
        except BaseException:
            traceback.print_exc()
        else:
            print("held:", check.__name__)
