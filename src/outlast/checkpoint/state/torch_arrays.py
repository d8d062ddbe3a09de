"""The bytes of torch's tensors, and of those that are distributed over ranks.

torch is looked at only if the program has loaded it itself.
"""

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from outlast.checkpoint.state.library import ArrayInfo, Bytes, order_of
from outlast.checkpoint.state.shards import dtensor_class, local_of, placement_of
from outlast.checkpoint.state.traits import Traits, torch_traits

# What is known about plain tensors, by their address. Enough for most states.
_KNOWN_MAX = 65_536


class TorchLibrary:
    name = "torch"

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[object, ...], ArrayInfo]] = {}

    def owns(self, kind: type) -> bool:
        torch = sys.modules.get("torch")
        return torch is not None and issubclass(kind, torch.Tensor)

    def describe(self, array: Any) -> ArrayInfo:
        """Computed once for each plain tensor that stays where and as it is.

        Sound, because everything that the description of such a tensor follows from is compared.
        """
        if type(array) not in self._plain or array.layout is not self._strided or not array.is_cpu:
            return self._describe(array)
        (facts,) = facts_of([array])
        start = array.data_ptr()
        known = self._known.get(start)
        if known is not None and known[0] == facts:
            return known[1]
        info = self._describe(array)
        if info.nbytes:
            # A tensor without bytes is named by its object, which may be gone at the next save.
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            self._known[start] = (facts, info)
        return info

    def _describe(self, array: Any) -> ArrayInfo:
        if array.layout is not self._torch.strided or array.is_quantized:
            raise ValueError("a sparse or quantized tensor")
        if array.is_meta:
            raise ValueError("a tensor without memory, on the meta device")
        nbytes, is_contiguous, strides = array.nbytes, array.is_contiguous(), array.stride()
        grad = array.requires_grad if array.is_leaf else None
        kind: Any = type(array)
        form = _torch_form(kind, array.dtype, array.shape, strides, is_contiguous, grad)
        if not nbytes:
            return ArrayInfo(form.dtype, form.shape, 0, id(array), None, form.traits)
        start = array.data_ptr()
        if not start:
            raise ValueError(f"a {type(array).__qualname__} without memory of its own")
        device = "cpu" if array.is_cpu else str(array.device)
        end = start + (nbytes if is_contiguous else form.reach * array.element_size())
        identity = (device, start, array.dtype, form.shape, strides)
        return ArrayInfo(
            form.dtype, form.shape, nbytes, identity, (device, start, end), form.traits
        )

    def identity(self, array: Any) -> object:
        if not array.nbytes:
            return id(array)
        device = "cpu" if array.is_cpu else str(array.device)
        return (device, array.data_ptr(), array.dtype, tuple(array.shape), array.stride())

    def location(self, array: Any) -> tuple[int, int] | None:
        # Of any other class, the memory may be something else than the value.
        if type(array) not in self._plain:
            return None
        if not (array.is_cpu and array.is_contiguous()) or _is_lazy(array):
            return None
        return array.data_ptr(), array.nbytes

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
        order = order_of(traits, shape)
        in_memory = self._torch.empty([shape[at] for at in order], dtype=kind)
        return in_memory.permute([order.index(at) for at in range(len(shape))])

    @property
    def _torch(self) -> Any:
        return sys.modules["torch"]

    @functools.cached_property
    def _plain(self) -> frozenset[type]:
        return plain_classes()

    @functools.cached_property
    def _strided(self) -> Any:
        return self._torch.strided

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
        part = local_of(array)
        place = placement_of(array, part)
        traits: Traits = {"placements": place.names}
        if array.is_leaf and array.requires_grad:
            traits["grad"] = True
        local = self._local.describe(part)
        identity = local.identity
        if not local.nbytes:
            # `part` is only for this call, and tied tensors are one on the ranks that have bytes.
            identity = identity_without_bytes(part, place.shard.global_shape)
        return local._replace(
            identity=identity,
            shape=place.shard.global_shape,
            traits=traits,
            shard=place.shard,
            local_shape=local.shape,
            is_copy=place.is_copy,
        )

    def identity(self, array: Any) -> object:
        return self.describe(array).identity

    def location(self, array: Any) -> tuple[int, int] | None:
        return self._local.location(local_of(array))

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


@functools.cache
def plain_classes() -> frozenset[type]:
    """The classes of tensors whose memory is their value. torch is loaded."""
    torch = sys.modules["torch"]
    return frozenset({torch.Tensor, torch.nn.Parameter})


def facts_of(tensors: Sequence[Any]) -> list[tuple[object, ...]]:
    """Everything that the description of each of these plain tensors follows from.

    Raises `RuntimeError` if one has no memory that could be named, such as a sparse one.
    """
    return [
        (
            type(tensor),
            tensor.is_cpu,
            tensor.data_ptr(),
            tensor.dtype,
            tensor.shape,
            tensor.stride(),
            tensor.requires_grad,
            tensor.is_leaf,
        )
        for tensor in tensors
    ]


class _TorchForm(NamedTuple):
    """What follows from the class, dtype, shape and strides of a tensor. Nobody changes `traits`.

    `reach` is how many elements there are from its first one to its last one in memory.
    """

    dtype: str
    shape: tuple[int, ...]
    reach: int
    traits: Traits


@functools.lru_cache(16384)
def _torch_form(
    kind: type,
    dtype: Any,
    shape: Sequence[int],
    strides: Sequence[int],
    is_contiguous: bool,
    grad: bool | None,
) -> _TorchForm:
    """Computed once for the many tensors that look alike, now and at the next save."""
    return _TorchForm(
        str(dtype).removeprefix("torch."),
        tuple(shape),
        1 + sum((size - 1) * step for size, step in zip(shape, strides, strict=True)),
        torch_traits(kind, shape, strides, is_contiguous=is_contiguous, grad=grad),
    )


def identity_without_bytes(tensor: Any, shape: Sequence[int]) -> object:
    """What names a tensor without bytes: its storage, which its views and detached copies share."""
    try:
        storage = tensor.untyped_storage()._cdata  # noqa: SLF001 - nothing else names it
    except (NotImplementedError, RuntimeError):  # a class of its own may have none
        return id(tensor)
    return ("nothing", storage, tensor.storage_offset(), tensor.dtype, tuple(shape))


def _is_expanded(tensor: Any) -> bool:
    return any(
        step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape, strict=True)
    )


def _is_lazy(tensor: Any) -> bool:
    """Whether a conjugation or negation is only noted, so that memory is not the value."""
    return bool(tensor.is_conj() or tensor.is_neg())
