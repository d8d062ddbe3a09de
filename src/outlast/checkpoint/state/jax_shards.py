"""Arrays of JAX that are distributed over processes: which box of each is on this one.

A process has one shard for each of its devices. Together they must be a box, because that is what a
checkpoint can describe, and the boxes of two processes must be the same or have nothing in common,
so that one process saves each element. All of this follows from the sharding, which every process
knows: nothing in this module communicates, and what cannot be saved is refused on all processes.
"""

import functools
import math
import sys
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from outlast.checkpoint.state.shards import Shard

_Box = tuple[tuple[int, int], ...]
"""The first index of each axis, and the end."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalBox:
    """The part of an array on this process, and its shape.

    `is_copy`: a process before this one has the same part.
    """

    shard: Shard
    shape: tuple[int, ...]
    is_copy: bool


def is_distributed(thing: object) -> bool:
    """Whether this is an array of JAX with shards in other processes."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(thing, jax.Array) and not thing.is_fully_addressable


def local_box(numbers: Any) -> LocalBox:
    """The part of a distributed array that is here. Raises `ValueError` with what it is if it
    cannot be saved.
    """
    return _local_box(numbers.sharding, tuple(numbers.shape))


def copy_box(numbers: Any, target: "npt.NDArray[Any]") -> None:
    """Copy the part that is here to an array of its shape."""
    offsets = local_box(numbers).shard.offsets
    done = set()
    for shard in numbers.addressable_shards:
        box = _box_of(shard.index, numbers.shape)
        if box not in done:
            done.add(box)
            target[_within(box, offsets)] = np.asarray(shard.data)


def array_of_box(shape: tuple[int, ...], sharding: Any, box: "npt.NDArray[Any]") -> Any:
    """A distributed array of which this process has the box. Every process makes its own part."""
    offsets = _local_box(sharding, shape).shard.offsets

    def part(index: tuple[slice, ...]) -> "npt.NDArray[Any]":
        return np.asarray(box[_within(_box_of(index, shape), offsets)])

    return sys.modules["jax"].make_array_from_callback(shape, sharding, part)


def empty_array(shape: tuple[int, ...], sharding: Any, dtype: Any) -> Any:
    """A distributed array of zeros."""
    return array_of_box(shape, sharding, np.zeros(_local_box(sharding, shape).shape, dtype))


def here(numbers: Any) -> Any:
    """The copy on one device of this process, if the array is equal on all devices."""
    return numbers if numbers.is_fully_addressable else numbers.addressable_data(0)


def flat_slice(numbers: Any, start: int, stop: int) -> Any:
    """A run of the elements of an array on this process, in C order. Copies only these."""
    return _slicer()(numbers, start, stop)


def mesh_axes(sharding: Any) -> list[list[str]] | None:
    """For each dimension of an array, the axes of the mesh that divide it; None without a mesh."""
    if not isinstance(sharding, sys.modules["jax"].sharding.NamedSharding):
        return None
    return [[one] if isinstance(one, str) else list(one or ()) for one in sharding.spec]


def sharding_like(template: Any, axes: Sequence[Sequence[str]]) -> Any:
    """The sharding by these axes of the mesh of the template, a distributed array.

    Raises `ValueError` if the mesh does not have them.
    """
    sharding = sys.modules["jax"].sharding
    if not isinstance(template.sharding, sharding.NamedSharding):
        raise ValueError("the distributed arrays of the state have no mesh for it")
    mesh = template.sharding.mesh
    if missing := {name for names in axes for name in names} - set(mesh.axis_names):
        raise ValueError(f"the mesh has no axis {', '.join(sorted(missing))}")
    return sharding.NamedSharding(mesh, sharding.PartitionSpec(*(tuple(names) for names in axes)))


@functools.lru_cache(4096)
def _local_box(sharding: Any, shape: tuple[int, ...]) -> LocalBox:
    shards: dict[int, set[_Box]] = defaultdict(set)
    for device, index in sharding.devices_indices_map(shape).items():
        shards[device.process_index].add(_box_of(index, shape))
    boxes = {process: _bounds(found) for process, found in shards.items()}
    are_tiled = all(sum(map(_elements, shards[one])) == _elements(boxes[one]) for one in shards)
    # Together they are the array: unless they have elements in common, their sizes add up to its.
    if not are_tiled or sum(map(_elements, set(boxes.values()))) != math.prod(shape):
        raise ValueError(f"an array of JAX that is not one box on each process ({sharding})")
    own = sys.modules["jax"].process_index()
    if own not in boxes:
        raise ValueError("an array of JAX that is on no device of this process")
    return LocalBox(
        shard=Shard(global_shape=shape, offsets=tuple(start for start, _ in boxes[own])),
        shape=tuple(stop - start for start, stop in boxes[own]),
        is_copy=any(boxes[one] == boxes[own] for one in boxes if one < own),
    )


def _box_of(index: Sequence[slice], shape: Sequence[int]) -> _Box:
    return tuple(one.indices(size)[:2] for one, size in zip(index, shape, strict=True))


def _bounds(boxes: Collection[_Box]) -> _Box:
    """The smallest box that contains all of them."""
    axes = zip(*boxes, strict=True)
    return tuple((min(start for start, _ in one), max(stop for _, stop in one)) for one in axes)


def _elements(box: _Box) -> int:
    return math.prod(stop - start for start, stop in box)


def _within(box: _Box, offsets: Sequence[int]) -> tuple[slice, ...]:
    pairs = zip(box, offsets, strict=True)
    return tuple(slice(start - first, stop - first) for (start, stop), first in pairs)


@functools.cache
def _slicer() -> Any:
    jax = sys.modules["jax"]

    def run_of(numbers: Any, start: int, stop: int) -> Any:
        return jax.lax.slice(numbers.reshape(-1), (start,), (stop,))

    return jax.jit(run_of, static_argnums=(1, 2))
