"""The bytes of arrays, whichever library they belong to.

One class per library; torch and JAX are looked at only if the program has loaded them itself.
Bytes are written to an array's own memory where that is possible, so that a restore needs no
second copy of the state.
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]


class Library(Protocol):
    """How to treat the arrays of one library. `name` is what the manifest calls it."""

    name: str

    def owns(self, array: object) -> bool: ...

    def describe(self, array: Any) -> tuple[str, tuple[int, ...]]:
        """The dtype, by its name in the library, and the shape."""
        ...

    def identity(self, array: Any) -> object:
        """Equal for arrays that are the same memory seen the same way, as tied weights are."""
        ...

    def copy_out(self, array: Any, target: Bytes) -> None:
        """Copy the array's bytes, in C order, to the target."""
        ...

    def receiver(self, template: Any) -> tuple[Bytes, Callable[[], object]]:
        """Where to put the bytes of an array like `template`, and what then gives the array."""
        ...

    def empty(self, dtype: str, shape: tuple[int, ...]) -> Any:
        """A new array; raises `ValueError` if the library has no such dtype."""
        ...


class NumpyLibrary:
    name = "numpy"

    def owns(self, array: object) -> bool:
        return isinstance(array, np.ndarray)

    def describe(self, array: "npt.NDArray[Any]") -> tuple[str, tuple[int, ...]]:
        if array.dtype.hasobject:
            raise ValueError("an array of Python objects")
        if isinstance(array, np.ma.MaskedArray):
            raise ValueError("a masked array (store its data and its mask)")
        return dtype_text(array.dtype), array.shape

    def identity(self, array: "npt.NDArray[Any]") -> object:
        return (array.ctypes.data, array.dtype, array.shape, array.strides)

    def copy_out(self, array: "npt.NDArray[Any]", target: Bytes) -> None:
        np.copyto(target.view(array.dtype).reshape(array.shape), array)

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

    def empty(self, dtype: str, shape: tuple[int, ...]) -> "npt.NDArray[Any]":
        try:
            return np.empty(shape, dtype_named(dtype))
        except (TypeError, ValueError, SyntaxError) as error:
            raise ValueError(f"NumPy has no dtype {dtype!r}") from error


class TorchLibrary:
    name = "torch"

    def owns(self, array: object) -> bool:
        torch = sys.modules.get("torch")
        return torch is not None and isinstance(array, torch.Tensor)

    def describe(self, array: Any) -> tuple[str, tuple[int, ...]]:
        if array.layout is not self._torch.strided or array.is_quantized:
            raise ValueError("a sparse or quantized tensor")
        if array.is_meta:
            raise ValueError("a tensor without memory, on the meta device")
        return str(array.dtype).removeprefix("torch."), tuple(array.shape)

    def identity(self, array: Any) -> object:
        place = (array.device, array.data_ptr()) if array.numel() else id(array)
        return (place, array.dtype, tuple(array.shape), array.stride())

    def copy_out(self, array: Any, target: Bytes) -> None:
        source = array.detach()
        if source.device.type == "cpu" and source.is_contiguous() and not _is_lazy(source):
            np.copyto(target, self._bytes(source))
            return
        view = self._torch.from_numpy(target).view(array.dtype).reshape(array.shape)
        view.copy_(source)

    def receiver(self, template: Any) -> tuple[Bytes, Callable[[], object]]:
        live = template.detach()
        if live.device.type == "cpu" and live.is_contiguous() and not _is_lazy(live):
            return self._bytes(live), lambda: template
        fresh = self._torch.empty(live.shape, dtype=live.dtype)

        def finish() -> object:
            if _is_expanded(live):
                # Many elements are one piece of memory: only a new tensor can hold them all.
                return fresh.to(live.device)
            live.copy_(fresh)
            return template

        return self._bytes(fresh), finish

    def empty(self, dtype: str, shape: tuple[int, ...]) -> Any:
        kind = getattr(self._torch, dtype, None)
        if not isinstance(kind, self._torch.dtype):
            raise ValueError(f"torch has no dtype {dtype!r}")
        return self._torch.empty(shape, dtype=kind)

    @property
    def _torch(self) -> Any:
        return sys.modules["torch"]

    def _bytes(self, tensor: Any) -> Bytes:
        """The memory of a contiguous CPU tensor."""
        if tensor.numel() == 0:
            return np.empty(0, np.uint8)
        found: Bytes = tensor.reshape(-1).view(self._torch.uint8).numpy()
        return found


class JaxLibrary:
    """Arrays that cannot be written to: a restored one takes the place of its template."""

    name = "jax"

    def owns(self, array: object) -> bool:
        jax = sys.modules.get("jax")
        return jax is not None and isinstance(array, jax.Array)

    def describe(self, array: Any) -> tuple[str, tuple[int, ...]]:
        jax = sys.modules["jax"]
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            raise ValueError("a typed random key (store jax.random.key_data of it)")
        return array.dtype.name, tuple(array.shape)

    def identity(self, array: Any) -> object:
        return id(array)

    def copy_out(self, array: Any, target: Bytes) -> None:
        np.copyto(target, np.ascontiguousarray(array).reshape(-1).view(np.uint8))

    def receiver(self, template: Any) -> tuple[Bytes, Callable[[], object]]:
        fresh = np.empty(template.shape, template.dtype)
        jax = sys.modules["jax"]
        return (
            _numpy_bytes(fresh),
            lambda: jax.device_put(fresh, template.sharding),
        )

    def empty(self, dtype: str, shape: tuple[int, ...]) -> Any:
        jax = sys.modules["jax"]
        try:
            kind = jax.numpy.dtype(dtype)
        except TypeError as error:
            raise ValueError(f"JAX has no dtype {dtype!r}") from error
        if jax.dtypes.canonicalize_dtype(kind) != kind:
            raise ValueError(f"JAX has {dtype!r} only with jax_enable_x64")
        return jax.numpy.zeros(shape, kind)


LIBRARIES: tuple[Library, ...] = (NumpyLibrary(), TorchLibrary(), JaxLibrary())


def library_of(array: object) -> Library | None:
    """The library that an object is an array of, if it is one."""
    return next((library for library in LIBRARIES if library.owns(array)), None)


def library_named(name: str) -> Library | None:
    """The library of this name, loaded if need be; None if it is unknown or not installed."""
    library = next((library for library in LIBRARIES if library.name == name), None)
    if library is None or (name not in sys.modules and find_spec(name) is None):
        return None
    import_module(name)
    return library


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
    return array.reshape(-1).view(np.uint8)


def _is_expanded(tensor: Any) -> bool:
    return any(
        step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)
    )


def _is_lazy(tensor: Any) -> bool:
    """Whether a conjugation or negation is only noted, so that memory is not the value."""
    return bool(tensor.is_conj() or tensor.is_neg())
