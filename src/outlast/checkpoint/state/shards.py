"""Arrays of which each rank has a part: torch's DTensor.

Its local tensor is the memory, and says nothing about the rest. So an array is described by its
shape and by the box of it that is here. Nothing in this module communicates.
"""

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Shard:
    """Which part of a larger array an array is: the shape of the larger, and where it begins.

    A part is a box with as many axes as the larger array or, if it `is_flat`, a run of its elements
    in C order, with one offset.
    """

    global_shape: tuple[int, ...]
    offsets: tuple[int, ...]
    is_flat: bool = False

    @property
    def elements(self) -> int:
        """How many elements the larger array has."""
        return math.prod(self.global_shape)


def dtensor_class() -> Any | None:
    """torch's DTensor, if the program has loaded it."""
    module = sys.modules.get("torch.distributed.tensor")
    return getattr(module, "DTensor", None)


def is_sharded(thing: object) -> bool:
    kind = dtensor_class()
    return kind is not None and isinstance(thing, kind)


def local_of(array: Any) -> Any:
    """The part of a DTensor that is on this rank."""
    local = array.detach().to_local()
    # A collective that is still under way would fill it later.
    return local.wait() if hasattr(local, "wait") else local


def shard_of(array: Any) -> Shard:
    """Where the local part of a DTensor is. Raises `ValueError` with what cannot be saved."""
    if any(placement.is_partial() for placement in array.placements):
        raise ValueError("a DTensor whose sum is not computed yet (Partial)")
    shape, offsets = _box(tuple(array.shape), array.device_mesh, tuple(array.placements))
    if tuple(shape) != tuple(local_of(array).shape):
        raise ValueError(f"a DTensor that is not one box on each rank ({array.placements})")
    if 0 in shape:
        # An empty part may be said to begin behind the end.
        offsets = tuple(0 for _ in offsets)
    return Shard(global_shape=tuple(array.shape), offsets=tuple(offsets))


@functools.lru_cache(4096)
def _box(
    shape: tuple[int, ...], mesh: Any, placements: tuple[Any, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The shape and the offset of this rank's part, which take torch a tenth of a millisecond."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    return compute_local_shape_and_global_offset(shape, mesh, placements)


def is_copy(array: Any) -> bool:
    """Whether another rank has the same part of a DTensor, and saves it."""
    place = array.device_mesh.get_coordinate()
    return place is None or any(
        placement.is_replicate() and at > 0
        for placement, at in zip(array.placements, place, strict=True)
    )


def placement_names(array: Any) -> list[str]:
    """The placements of a DTensor as text that `new_like` reads back."""
    return [
        "replicate" if placement.is_replicate() else f"shard {placement.dim}"
        for placement in array.placements
    ]


def new_like(
    template: Any, dtype: Any, shape: Sequence[int], traits: Mapping[str, Any]
) -> tuple[Any, Callable[[], Any]]:
    """The local part of a new DTensor on the mesh of the template, and what then gives the DTensor.

    Raises `ValueError` if the placements do not suit the mesh.
    """
    from torch.distributed.tensor import DTensor, Placement, Replicate
    from torch.distributed.tensor import Shard as ShardPlacement
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    torch = sys.modules["torch"]
    names = traits["placements"]
    mesh = template.device_mesh
    if len(names) != mesh.ndim:
        raise ValueError(f"its placements are {names}, but the mesh has {mesh.ndim} axes")
    placements: list[Placement] = [
        Replicate() if name == "replicate" else ShardPlacement(int(name.removeprefix("shard ")))
        for name in names
    ]
    local_shape, _ = compute_local_shape_and_global_offset(tuple(shape), mesh, placements)
    local = torch.empty(local_shape, dtype=dtype, device=template.device)
    stride = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))

    def make() -> Any:
        return DTensor.from_local(
            local, mesh, placements, run_check=False, shape=torch.Size(shape), stride=stride
        )

    return local, make
