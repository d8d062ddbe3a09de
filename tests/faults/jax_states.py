"""What states of JAX must survive. In a process of its own: JAX does not bear what tests fork."""

import traceback
from typing import Any, NamedTuple

import numpy as np
import pytest

import outlast
from outlast.checkpoint.errors import StateMismatch, UnresumableState, UnsupportedState
from tests.unit.checkpoint.stores import memory_url, resumed, saved

jax: Any
jnp: Any


class ScaleByAdam(NamedTuple):
    """As optax has it."""

    count: Any
    mu: Any
    nu: Any


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


def a_typed_key_is_refused_with_what_to_do() -> None:
    with pytest.raises(UnsupportedState, match="key_data"):
        resumed(memory_url(), {"key": jax.random.key(1)})


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
    a_typed_key_is_refused_with_what_to_do,
    a_leaf_that_becomes_an_array_of_jax_is_reported_at_the_first_save,
)


def check_all() -> None:
    """Try each, and print what came of it."""
    global jax, jnp
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    for check in CHECKS:
        try:
            check()
        except BaseException:
            traceback.print_exc()
        else:
            print("held:", check.__name__)
