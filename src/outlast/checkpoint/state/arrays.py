"""The bytes of arrays, whichever library they belong to.

One class per library; torch and JAX are looked at only if the program has loaded them itself.
Bytes are written to an array's own memory where that is possible, so that a restore needs no
second copy of the state.
"""

import ast
import functools
import math
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt

from outlast.checkpoint.state.jax_arrays import (
    check_readable,
    jax_traits,
    numbers_of,
    placed_like,
)
from outlast.checkpoint.state.jax_shards import copy_box, here, local_box
from outlast.checkpoint.state.library import ArrayInfo, Bytes, Library, order_of
from outlast.checkpoint.state.torch_arrays import DTensorLibrary, TorchLibrary
from outlast.checkpoint.state.traits import numpy_traits


class NumpyLibrary:
    name = "numpy"

    def owns(self, kind: type) -> bool:
        return issubclass(kind, np.ndarray)

    def describe(self, array: "npt.NDArray[Any]") -> ArrayInfo:
        dtype, shape, strides = array.dtype, array.shape, array.strides
        if dtype.hasobject:
            raise ValueError("an array of Python objects")
        if isinstance(array, np.ma.MaskedArray):
            raise ValueError("a masked array (store its data and its mask)")
        start = array.__array_interface__["data"][0]
        extent = None
        if nbytes := array.nbytes:
            if array.flags.c_contiguous:
                extent = ("cpu", start, start + nbytes)
            else:
                steps = [(size - 1) * step for size, step in zip(shape, strides, strict=True)]
                first = start + sum(step for step in steps if step < 0)
                last = start + sum(step for step in steps if step > 0)
                extent = ("cpu", first, last + dtype.itemsize)
        identity = (start, dtype, shape, strides) if nbytes else id(array)
        traits = numpy_traits(array)
        return ArrayInfo(dtype_text(dtype), shape, nbytes, identity, extent, traits)

    def identity(self, array: "npt.NDArray[Any]") -> object:
        return self.describe(array).identity

    def location(self, array: "npt.NDArray[Any]") -> tuple[int, int] | None:
        if not array.flags.c_contiguous:
            return None
        return array.__array_interface__["data"][0], array.nbytes

    def copy_out(self, array: "npt.NDArray[Any]", target: Bytes) -> None:
        if array.flags.c_contiguous:
            np.copyto(target, _numpy_bytes(array))
            return
        if array.dtype.names is not None:
            # The gaps between fields are not copied, and must not show what was in memory before.
            target[:] = 0
        np.copyto(target.view(array.dtype).reshape(array.shape), array)

    def memory(self, array: "npt.NDArray[Any]") -> Bytes | None:
        return _numpy_bytes(array) if array.flags.c_contiguous else None

    def receiver(self, template: "npt.NDArray[Any]") -> tuple[Bytes, Callable[[], object]]:
        if template.flags.c_contiguous and template.flags.writeable:
            return _numpy_bytes(template), lambda: template
        fresh = np.empty(template.shape, template.dtype)

        def finish() -> object:
            if not template.flags.writeable:
                return fresh
            np.copyto(template, fresh)
            return template

        return _numpy_bytes(fresh), finish

    def empty(
        self, dtype: str, shape: tuple[int, ...], traits: Mapping[str, Any]
    ) -> "npt.NDArray[Any]":
        try:
            kind = dtype_named(dtype)
        except (TypeError, ValueError, SyntaxError) as error:
            raise ValueError(f"NumPy has no dtype {dtype!r}") from error
        order = order_of(traits, shape)
        in_memory = np.zeros([shape[at] for at in order], kind)
        return in_memory.transpose(np.argsort(order))


class JaxLibrary:
    """Arrays that cannot be written to: a restored one takes the place of its template.

    Of an array that is distributed over processes, the bytes are those of the part on this one, or
    all of them if it is equal everywhere.
    """

    name = "jax"

    def owns(self, kind: type) -> bool:
        jax = sys.modules.get("jax")
        return jax is not None and issubclass(kind, jax.Array)

    def describe(self, array: Any) -> ArrayInfo:
        check_readable(array)
        numbers, traits = numbers_of(array), jax_traits(array)
        shape = tuple(numbers.shape)
        # It cannot be written to, so it does not matter what shares it.
        info = ArrayInfo(numbers.dtype.name, shape, int(numbers.nbytes), id(array), None, traits)
        if array.is_fully_addressable:
            return info
        box = local_box(numbers)
        if numbers.is_fully_replicated:
            return info._replace(is_replicated=True)
        return info._replace(
            nbytes=math.prod(box.shape) * numbers.dtype.itemsize,
            shard=box.shard,
            local_shape=box.shape,
            is_copy=box.is_copy,
        )

    def identity(self, array: Any) -> object:
        return id(array)

    def location(self, array: Any) -> tuple[int, int] | None:
        return None

    def copy_out(self, array: Any, target: Bytes) -> None:
        numbers = numbers_of(array)
        if _has_all(numbers):
            found = np.ascontiguousarray(here(numbers))
            np.copyto(target, found.reshape(-1).view(np.uint8))
        else:
            copy_box(numbers, target.view(numbers.dtype).reshape(local_box(numbers).shape))

    def memory(self, array: Any) -> Bytes | None:
        return None

    def receiver(self, template: Any) -> tuple[Bytes, Callable[[], object]]:
        numbers = numbers_of(template)
        shape = numbers.shape if _has_all(numbers) else local_box(numbers).shape
        fresh = np.empty(shape, numbers.dtype)
        return _numpy_bytes(fresh), lambda: placed_like(template, fresh)

    def empty(self, dtype: str, shape: tuple[int, ...], traits: Mapping[str, Any]) -> Any:
        jax = sys.modules["jax"]
        try:
            kind = jax.numpy.dtype(dtype)
        except TypeError as error:
            raise ValueError(f"JAX has no dtype {dtype!r}") from error
        if jax.dtypes.canonicalize_dtype(kind) != kind:
            raise ValueError(f"JAX has {dtype!r} only with jax_enable_x64")
        return jax.numpy.zeros(shape, kind)


_TORCH = TorchLibrary()

LIBRARIES: tuple[Library, ...] = (NumpyLibrary(), _TORCH, JaxLibrary())

# A DTensor is a tensor too, so it is asked first.
_OWNERS: tuple[Library, ...] = (DTensorLibrary(_TORCH), *LIBRARIES)


def library_of(array: object) -> Library | None:
    """The library that an object is an array of, if it is one."""
    kind: type = type(array)
    return _library_of(kind)


@functools.lru_cache(1024)
def _library_of(kind: type) -> Library | None:
    # A class exists only once its library is loaded, so that the answer stays right.
    return next((library for library in _OWNERS if library.owns(kind)), None)


def library_named(name: str) -> Library | None:
    """The library of this name, loaded if need be; None if it is unknown or not installed."""
    library = next((library for library in LIBRARIES if library.name == name), None)
    if library is None or (name not in sys.modules and find_spec(name) is None):
        return None
    import_module(name)
    return library


@functools.lru_cache(256)
def dtype_text(dtype: "np.dtype[Any]") -> str:
    """A NumPy dtype as text that `dtype_named` reads back."""
    if dtype.names is not None:
        return repr(np.lib.format.dtype_to_descr(dtype))
    # Types from other packages, such as bfloat16, have a name of their own but share a code.
    return dtype.str if np.dtype(dtype.str) == dtype else dtype.name


def dtype_named(text: str) -> "np.dtype[Any]":
    if text.startswith("["):
        return np.lib.format.descr_to_dtype(ast.literal_eval(text))
    return np.dtype(text)


def _numpy_bytes(array: "npt.NDArray[Any]") -> Bytes:
    """The memory of a contiguous array."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    # A matrix would stay one, with two dimensions.
    return np.asarray(array).reshape(-1).view(np.uint8)


def _has_all(numbers: Any) -> bool:
    """Whether one device, or all devices of this process, have the complete array of JAX."""
    return bool(numbers.is_fully_addressable or numbers.is_fully_replicated)
