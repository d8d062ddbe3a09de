"""Arrays of which each rank has a part: torch's DTensor.

Its local tensor is the memory, and says nothing about the rest. So an array is described by its
shape and by the box of it that is here. Nothing in this module communicates.
"""

import functools
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


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
    # Detaching the part takes torch a hundredth of the time that it takes for the DTensor.
    with sys.modules["torch"].no_grad():
        local = array.to_local()
        # A collective that is still under way would fill it later.
        return (local.wait() if hasattr(local, "wait") else local).detach()


class Placement(NamedTuple):
    """Where the local part of a DTensor is in the larger array, and what shape it has.

    `is_copy`: another rank has the same part, and saves it. `names` are the placements as text that
    `new_like` reads back.
    """

    shard: Shard
    shape: tuple[int, ...]
    is_copy: bool
    names: list[str]


def placement_of(array: Any, local: Any) -> Placement:
    """Where the local part of a DTensor is. Raises `ValueError` with what cannot be saved."""
    mesh = array.device_mesh
    # Meshes are equal on all ranks, and a process may be another rank in its next process group.
    place = mesh.get_coordinate()
    found = _placement(
        tuple(array.shape), mesh, tuple(array.placements), None if place is None else tuple(place)
    )
    if found.shape != tuple(local.shape):
        raise ValueError(f"a DTensor that is not one box on each rank ({array.placements})")
    return found


@functools.lru_cache(4096)
def _placement(
    global_shape: tuple[int, ...],
    mesh: Any,
    placements: tuple[Any, ...],
    place: tuple[int, ...] | None,
) -> Placement:
    """That of the rank at this place in the mesh. It takes torch a tenth of a millisecond."""
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    if any(placement.is_partial() for placement in placements):
        raise ValueError("a DTensor whose sum is not computed yet (Partial)")
    shape, offsets = compute_local_shape_and_global_offset(global_shape, mesh, placements)
    if 0 in shape:
        # An empty part may be said to begin behind the end.
        offsets = tuple(0 for _ in offsets)
    is_copy = place is None or any(
        placement.is_replicate() and at > 0 for placement, at in zip(placements, place, strict=True)
    )
    return Placement(
        shard=Shard(global_shape=global_shape, offsets=tuple(offsets)),
        shape=tuple(shape),
        is_copy=is_copy,
        names=[
            "replicate" if placement.is_replicate() else f"shard {placement.dim}"
            for placement in placements
        ],
    )


def new_like(
    template: Any, dtype: Any, shape: Sequence[int], traits: Mapping[str, Any]
) -> tuple[Any, Callable[[], Any]]:
    """The local part of a new DTensor on the mesh of the template, and what then gives the DTensor.

    Raises `ValueError` if the placements do not suit the mesh.
    """
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor import Shard as ShardPlacement
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    torch = sys.modules["torch"]
    names = traits["placements"]
    mesh = template.device_mesh
    if len(names) != mesh.ndim:
        raise ValueError(f"its placements are {names}, but the mesh has {mesh.ndim} axes")
    placements: list[Any] = [
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
