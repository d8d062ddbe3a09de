"""What arrays of JAX are besides their bytes: random keys with a type, and weak types.

A key is saved as the numbers that it consists of, with the name of its implementation. A weak type
is that of a Python number, and gives way to that of any array it is combined with: without it, the
steps after a resume could compute in another dtype.
"""

import sys
from collections.abc import Mapping
from typing import Any

from outlast.checkpoint.state.jax_shards import array_of_box, mesh_axes
from outlast.checkpoint.state.traits import Traits

_PYTHON_TYPES: dict[str, type] = {"i": int, "f": float, "c": complex}


def check_readable(array: Any) -> None:
    """Raise `ValueError` with what an array is if its bytes cannot be read."""
    if array.is_deleted():
        raise ValueError(
            "an array of JAX whose memory was donated or deleted (put what the step returns into "
            "the state)"
        )
    if not array.is_fully_addressable and not _is_connected():
        # Without a channel, the other processes cannot save their shards with this one.
        raise ValueError(
            "an array of JAX with shards in processes that jax.distributed has not connected"
        )


def is_key(array: Any) -> bool:
    jax = sys.modules["jax"]
    return bool(jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key))


def numbers_of(array: Any) -> Any:
    """The array itself, or what a random key consists of."""
    return sys.modules["jax"].random.key_data(array) if is_key(array) else array


def jax_traits(array: Any) -> Traits:
    traits: Traits = {}
    if is_key(array):
        traits["key"] = str(sys.modules["jax"].random.key_impl(array))
    elif array.weak_type and _python_type(array) is not None:
        traits["weak"] = True
    if not array.is_fully_addressable:
        axes = mesh_axes(numbers_of(array).sharding)
        if axes is not None:
            traits["mesh_axes"] = axes
    return traits


def placed_like(template: Any, numbers: Any) -> Any:
    """A new array with these numbers, of the type of the template and where that is.

    Of a distributed array, the numbers are those of this process. One that JAX may still move stays
    so: it would not fit arrays on other devices otherwise.
    """
    jax = sys.modules["jax"]
    if not template.is_fully_addressable:
        like = numbers_of(template)
        found = array_of_box(tuple(like.shape), like.sharding, numbers)
        return as_saved(found, {"key": jax.random.key_impl(template)} if is_key(template) else {})
    found = numbers
    if is_key(template):
        found = jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(template))
    return jax.device_put(found, template.sharding if template.committed else None)


def as_saved(array: Any, traits: Mapping[str, Any]) -> Any:
    """A restored array with the type that was saved. Those of other libraries have no such."""
    if "key" in traits and not is_key(array):
        array = sys.modules["jax"].random.wrap_key_data(array, impl=traits["key"])
    if traits.get("weak") and not array.weak_type and (kind := _python_type(array)) is not None:
        return _weak(array, kind)
    return array


def _weak(array: Any, kind: type) -> Any:
    jax = sys.modules["jax"]

    def fill(numbers: Any) -> Any:
        return jax.lax.full(numbers.shape, kind(0)).at[...].set(numbers)

    if array.is_fully_addressable:
        return fill(array)
    # Each process computes its own shards: nothing is exchanged.
    return jax.jit(fill, out_shardings=array.sharding)(array)


def _is_connected() -> bool:
    distributed = sys.modules.get("jax._src.distributed")
    return getattr(getattr(distributed, "global_state", None), "client", None) is not None


def _python_type(array: Any) -> type | None:
    """The type of Python's whose numbers JAX keeps in this dtype."""
    kind = _PYTHON_TYPES.get(array.dtype.kind)
    if kind is None or sys.modules["jax"].dtypes.canonicalize_dtype(kind) != array.dtype:
        return None
    return kind
