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
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from outlast.checkpoint.state.jax_arrays import (
    check_readable,
    jax_traits,
    numbers_of,
    placed_like,
)
from outlast.checkpoint.state.jax_shards import copy_box, here, local_box
from outlast.checkpoint.state.shards import (
    Shard,
    dtensor_class,
    is_copy,
    local_of,
    placement_names,
    shard_of,
)
from outlast.checkpoint.state.traits import Traits, numpy_traits, torch_traits

Bytes = npt.NDArray[np.uint8]


class ArrayInfo(NamedTuple):
    """What an array is. `dtype` is its name in the library.

    `identity` is equal for arrays that are the same memory seen the same way, as tied weights are.
    `extent` is the memory it uses: the device, the first address, and the end. It is None for
    what has no bytes, and where nothing can be written, so that it does not matter.
    """

    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    identity: object
    extent: tuple[str, int, int] | None
    traits: Traits
    shard: Shard | None = None
    """Which part of the array is on this rank, if each rank has one: `nbytes` are of that part."""
    local_shape: tuple[int, ...] = ()
    """The shape of that part."""
    is_copy: bool = False
    """Whether another rank has the same part, and saves it."""
    is_replicated: bool = False
    """Whether the library keeps the complete array equal on all ranks."""


class Library(Protocol):
    """How to treat the arrays of one library. `name` is what the manifest calls it."""

    name: str

    def owns(self, kind: type) -> bool:
        """Whether objects of this class are arrays of this library."""
        ...

    def describe(self, array: Any) -> "ArrayInfo":
        """Everything about an array except its bytes.

        Raises `ValueError` with what it is if it cannot be saved.
        """
        ...

    def copy_out(self, array: Any, target: Bytes) -> None:
        """Copy the array's bytes, in C order, to the target."""
        ...

    def memory(self, array: Any) -> Bytes | None:
        """The array's own bytes, if they are in C order in memory; else None."""
        ...

    def receiver(self, template: Any) -> tuple[Bytes, Callable[[], object]]:
        """Where to put the bytes of an array like `template`, and what then gives the array."""
        ...

    def empty(self, dtype: str, shape: tuple[int, ...], traits: Mapping[str, Any]) -> Any:
        """A new array; raises `ValueError` if the library has no such dtype."""
        ...


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
        order = _order_of(traits, shape)
        in_memory = np.zeros([shape[at] for at in order], kind)
        return in_memory.transpose(np.argsort(order))


class TorchLibrary:
    name = "torch"

    def owns(self, kind: type) -> bool:
        torch = sys.modules.get("torch")
        return torch is not None and issubclass(kind, torch.Tensor)

    def describe(self, array: Any) -> ArrayInfo:
        if array.layout is not self._torch.strided or array.is_quantized:
            raise ValueError("a sparse or quantized tensor")
        if array.is_meta:
            raise ValueError("a tensor without memory, on the meta device")
        dtype, shape, strides = array.dtype, tuple(array.shape), array.stride()
        name, nbytes = _torch_name(dtype), int(array.nbytes)
        traits = torch_traits(array)
        if not nbytes:
            return ArrayInfo(name, shape, nbytes, id(array), None, traits)
        start = array.data_ptr()
        if not start:
            raise ValueError(f"a {type(array).__qualname__} without memory of its own")
        device = "cpu" if array.is_cpu else str(array.device)
        end = start + nbytes
        if not array.is_contiguous():
            steps = zip(shape, strides, strict=True)
            end = start + (1 + sum((n - 1) * step for n, step in steps)) * array.element_size()
        identity = (device, start, dtype, shape, strides)
        return ArrayInfo(name, shape, nbytes, identity, (device, start, end), traits)

    def copy_out(self, array: Any, target: Bytes) -> None:
        source = array.detach()
        if (memory := self.memory(source)) is not None:
            np.copyto(target, memory)
            return
        view = self._torch.from_numpy(target).view(array.dtype).reshape(array.shape)
        view.copy_(source)

    def memory(self, array: Any) -> Bytes | None:
        source = array.detach()
        if source.device.type == "cpu" and source.is_contiguous() and not _is_lazy(source):
            return self._bytes(source)
        return None

    def receiver(self, template: Any) -> tuple[Bytes, Callable[[], object]]:
        live = template.detach()
        if (memory := self.memory(live)) is not None:
            return memory, lambda: template
        fresh = self._torch.empty(live.shape, dtype=live.dtype)

        def finish() -> object:
            if _is_expanded(live):
                # Many elements are one piece of memory: only a new tensor can hold them all.
                return fresh.to(live.device)
            live.copy_(fresh)
            return template

        return self._bytes(fresh), finish

    def empty(self, dtype: str, shape: tuple[int, ...], traits: Mapping[str, Any]) -> Any:
        kind = getattr(self._torch, dtype, None)
        if not isinstance(kind, self._torch.dtype):
            raise ValueError(f"torch has no dtype {dtype!r}")
        order = _order_of(traits, shape)
        in_memory = self._torch.empty([shape[at] for at in order], dtype=kind)
        return in_memory.permute([order.index(at) for at in range(len(shape))])

    @property
    def _torch(self) -> Any:
        return sys.modules["torch"]

    def _bytes(self, tensor: Any) -> Bytes:
        """The memory of a contiguous CPU tensor."""
        if tensor.numel() == 0:
            return np.empty(0, np.uint8)
        found: Bytes = tensor.reshape(-1).view(self._torch.uint8).numpy()
        return found


class DTensorLibrary:
    """Tensors that are distributed over ranks: the bytes are those of the part on this rank."""

    name = "torch"

    def __init__(self, local: TorchLibrary) -> None:
        self._local = local

    def owns(self, kind: type) -> bool:
        dtensor = dtensor_class()
        return dtensor is not None and issubclass(kind, dtensor)

    def describe(self, array: Any) -> ArrayInfo:
        shard = shard_of(array)
        traits: Traits = {"placements": placement_names(array)}
        if array.is_leaf and array.requires_grad:
            traits["grad"] = True
        local = self._local.describe(local_of(array))
        return local._replace(
            shape=shard.global_shape,
            traits=traits,
            shard=shard,
            local_shape=local.shape,
            is_copy=is_copy(array),
        )

    def copy_out(self, array: Any, target: Bytes) -> None:
        self._local.copy_out(local_of(array), target)

    def memory(self, array: Any) -> Bytes | None:
        return self._local.memory(local_of(array))

    def receiver(self, template: Any) -> tuple[Bytes, Callable[[], object]]:
        target, fill = self._local.receiver(local_of(template))

        def finish() -> object:
            fill()
            return template

        return target, finish

    def empty(self, dtype: str, shape: tuple[int, ...], traits: Mapping[str, Any]) -> Any:
        return self._local.empty(dtype, shape, traits)


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


@functools.cache
def _torch_name(dtype: Any) -> str:
    return str(dtype).removeprefix("torch.")


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


def _order_of(traits: Mapping[str, Any], shape: tuple[int, ...]) -> list[int]:
    """The dimensions from the outermost in memory to the innermost."""
    order = list(range(len(shape)))
    found: list[int] = traits.get("order", order)
    if sorted(found) != order:
        raise ValueError(f"the order {found} does not fit {len(shape)} dimensions")
    return found


def _numpy_bytes(array: "npt.NDArray[Any]") -> Bytes:
    """The memory of a contiguous array."""
    if array.nbytes == 0:
        return np.empty(0, np.uint8)
    # A matrix would stay one, with two dimensions.
    return np.asarray(array).reshape(-1).view(np.uint8)


def _has_all(numbers: Any) -> bool:
    """Whether one device, or all devices of this process, have the complete array of JAX."""
    return bool(numbers.is_fully_addressable or numbers.is_fully_replicated)


def _is_expanded(tensor: Any) -> bool:
    return any(
        step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)
    )


def _is_lazy(tensor: Any) -> bool:
    """Whether a conjugation or negation is only noted, so that memory is not the value."""
    return bool(tensor.is_conj() or tensor.is_neg())
