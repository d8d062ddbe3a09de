"""What a library of arrays has to do, and what it says about an array."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from outlast.checkpoint.state.shards import Shard
from outlast.checkpoint.state.traits import Traits

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

    def describe(self, array: Any) -> ArrayInfo:
        """Everything about an array except its bytes.

        Raises `ValueError` with what it is if it cannot be saved.
        """
        ...

    def identity(self, array: Any) -> object:
        """The identity alone, which takes less time than `describe`."""
        ...

    def location(self, array: Any) -> tuple[int, int] | None:
        """The address and the number of the array's bytes, if they are in C order in memory."""
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


def order_of(traits: Mapping[str, Any], shape: tuple[int, ...]) -> list[int]:
    """The dimensions from the outermost in memory to the innermost."""
    order = list(range(len(shape)))
    found: list[int] = traits.get("order", order)
    if sorted(found) != order:
        raise ValueError(f"the order {found} does not fit {len(shape)} dimensions")
    return found
