"""Capture a state as a tree of JSON nodes (see `nodes.py`) with the arrays taken out.

Reads the state, copies no array.
"""

import base64
import functools
import io
import pickle
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from outlast._base.logs import get_logger
from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.state.adapters import StateSource, adapted, has_fixed_keys
from outlast.checkpoint.state.arrays import library_of
from outlast.checkpoint.state.blocks import CapturedBlock, CaptureMemory, TensorBlock, block_of
from outlast.checkpoint.state.extents import overlapping
from outlast.checkpoint.state.library import Library
from outlast.checkpoint.state.modules import frozen_parameters, is_module
from outlast.checkpoint.state.nodes import (
    SHARED_BITS,
    TreeNode,
    are_json_ints,
    is_json,
    kind_of,
    opened,
    path_of,
    scalar,
    unsupported,
)
from outlast.checkpoint.state.pytrees import (
    Kept,
    constant,
    flattened,
    is_changeable,
    is_code,
    is_pytree,
)
from outlast.checkpoint.state.randomness import as_value, bits_of
from outlast.checkpoint.state.shards import Shard
from outlast.checkpoint.state.traits import Traits, container_traits, own_attributes

log = get_logger(__name__)

DEPTH_MAX = 100

_SCALARS = frozenset({type(None), bool, int, float, str})
_CONTAINERS = frozenset({dict, list})


class Leaf(NamedTuple):
    """An array of the state: its path, what it is, and the array itself.

    `is_writable`: it has memory that could be changed, so it matters who shares it. If `shard` says
    that only a part of the array is here, or to be saved, `nbytes` are of that part, and `skipped`
    is how many bytes of the array are before it. `is_copy`: another rank has the same part.
    `is_replicated`: all ranks have the same array.

    A named tuple, because a save makes thousands: a dataclass takes five times as long.
    """

    path: str
    library: Library
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    is_writable: bool
    array: Any
    shard: Shard | None = None
    is_copy: bool = False
    local_shape: tuple[int, ...] = ()
    identity: object = None
    is_replicated: bool = False
    skipped: int = 0


_ARRAY_FIELD = Leaf._fields.index("array")
# As `_make` does it, but without its check, for each of thousands.
make_leaf: partial[Leaf] = partial(tuple.__new__, Leaf)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """A state, taken apart. Tied arrays are one leaf."""

    root: TreeNode
    leaves: tuple[Leaf, ...]
    attribute_objects: frozenset[int] = frozenset()
    """Objects whose state_dict is made of their attributes, by their number among the shared."""

    def without_arrays(self) -> "Tree":
        """The same tree, which keeps no array alive."""
        return replace(self, leaves=tuple(leaf._replace(array=None) for leaf in self.leaves))


def capture(
    state: object, *, may_pickle: Collection[str] = (), memory: CaptureMemory | None = None
) -> Tree:
    """Take a state apart. Raises `UnsupportedState` with the path of what cannot be written.

    With a `memory`, what is as it was in the last capture with it takes less time.
    """
    # What is pickled is found by its path, everywhere.
    capturing = _Capture(may_pickle, None if may_pickle else memory)
    root = capturing.node(state, "")
    if not capturing.finish():
        capturing = _Capture(may_pickle)
        root = capturing.node(state, "")
        capturing.finish()
    return Tree(
        root=root,
        leaves=tuple(capturing.leaves),
        attribute_objects=frozenset(capturing.attribute_objects),
    )


def check_can_be_filled(state: object) -> None:
    """Raise `UnsupportedState` for a state that a resume could only replace, unseen by anyone."""
    is_fixed = isinstance(state, tuple | frozenset | Mapping)
    if is_pytree(state):
        is_fixed = not is_changeable(state) and source_of(state) is None
    elif isinstance(state, MutableMapping):
        is_fixed = False
    if is_fixed:
        raise UnsupportedState(
            f"The state is a {type(state).__qualname__}, which cannot be changed in place, so a "
            "resume could not fill it.",
            hint='Put it in a dict, such as {"train": train}, and use what the dict contains.',
        )


def has_state_dict(thing: object) -> bool:
    # A class has the functions too, but no state.
    return not isinstance(thing, type) and (
        callable(getattr(thing, "state_dict", None))
        and callable(getattr(thing, "load_state_dict", None))
    )


def source_of(thing: object) -> StateSource | None:
    """How to read and fill an object that keeps a state; None if it has none of its own."""
    # Asked first: random streams of nnx have an attribute of any name.
    if (found := adapted(thing)) is not None:
        return found
    own: Any = thing
    return own if has_state_dict(thing) else None


def is_model(thing: object, source: StateSource) -> bool:
    """Whether an object has the same keys from the start, so that none can come later."""
    return is_module(thing) or has_fixed_keys(source)


class _Capture:
    def __init__(self, may_pickle: Collection[str], memory: CaptureMemory | None = None) -> None:
        self.leaves: list[Leaf] = []
        self._may_pickle = may_pickle
        self._memory = memory
        self._blocks: dict[str, CapturedBlock] = {}
        self._has_reused = False
        self._index: dict[object, int] = {}
        # The node of each leaf, and the others of those that are tied.
        self._nodes: list[dict[str, Any]] = []
        self._ties: dict[int, list[dict[str, Any]]] = {}
        self._extents: list[tuple[str, int, int] | None] = []
        # The things themselves are kept, because the id of a deleted object can be reused.
        self._seen: dict[int, tuple[int, object]] = {}
        self._open: set[int] = set()
        self._bits: dict[int, tuple[str, object]] = {}
        self._pytrees = 0
        self.attribute_objects: set[int] = set()

    def node(self, thing: object, path: str, depth: int = 0) -> TreeNode:
        if depth > DEPTH_MAX:
            raise UnsupportedState(
                f"The state is nested deeper than {DEPTH_MAX} levels at {path[:200]!r}.",
                hint="Flatten it, or save only the parts that are needed.",
            )
        if self._may_pickle and path in self._may_pickle:
            return {"p": _pickled(thing, path)}
        if type(thing) in _SCALARS:
            return scalar(thing, path)
        if (library := library_of(thing)) is not None:
            return self._array(library, thing, path)
        if isinstance(thing, tuple | frozenset) or not self._can_be_shared(thing):
            return self._part(thing, path, depth)
        if id(thing) in self._open:
            raise UnsupportedState(
                f"The state holds a {type(thing).__qualname__} at {path[:200]!r} that contains "
                "itself.",
                hint="Remove the circular reference.",
            )
        if id(thing) in self._seen:
            return {"r": self._seen[id(thing)][0]}
        self._seen[id(thing)] = (len(self._seen), thing)
        self._open.add(id(thing))
        found = self._part(thing, path, depth)
        self._open.discard(id(thing))
        return found

    def _can_be_shared(self, thing: object) -> bool:
        if type(thing) in _CONTAINERS:
            return True
        if type(thing) is bytearray or source_of(thing) is not None or as_value(thing) is not None:
            return True
        if is_pytree(thing):
            return is_changeable(thing)
        return isinstance(thing, Mapping | list | set)

    def _part(self, thing: object, path: str, depth: int) -> TreeNode:
        if type(thing) in _CONTAINERS:
            # These have no traits, and most of a state is in them.
            return self._container(thing, path, depth)
        if (found := as_value(thing)) is not None:
            return {"v": self.node(self._with_sharing(thing, found.get(), path), path, depth + 1)}
        if (source := source_of(thing)) is not None:
            return self._object(thing, source, path, depth)
        if is_pytree(thing):
            return self._pytree(thing, path, depth)
        if isinstance(thing, Kept):
            return {"k": constant(thing.value)}
        if not _is_container(thing):
            return {"k": None} if self._pytrees and is_code(thing) else scalar(thing, path)
        traits = container_traits(thing) | _attributes(thing, path)
        node = self._container(thing, path, depth)
        return {"y": [traits, node]} if traits else node

    def _pytree(self, thing: Any, path: str, depth: int) -> TreeNode:
        try:
            flat = flattened(thing)
        except Exception as error:  # the functions that its class has registered may raise anything
            raise unsupported(path, f"a pytree that JAX cannot take apart ({error})") from error
        self._pytrees += 1
        pairs = zip(flat.keys, flat.children, strict=True)
        children = [[key, self.node(one, path_of(path, key), depth + 1)] for key, one in pairs]
        self._pytrees -= 1
        return {"jo" if is_changeable(thing) else "j": [flat.name, flat.static, children]}

    def _object(self, thing: Any, source: StateSource, path: str, depth: int) -> TreeNode:
        number = self._seen[id(thing)][0]
        state = source.state_dict()
        if isinstance(state, Mapping) and state.keys() <= getattr(thing, "__dict__", {}).keys():
            self.attribute_objects.add(number)
        if not is_module(thing):
            is_pytree_too = has_fixed_keys(source)
            self._pytrees += is_pytree_too
            node = self.node(state, path, depth + 1)
            self._pytrees -= is_pytree_too
            return {"m" if is_pytree_too else "o": node}
        node = self.node(state, path, depth + 1)
        traits, inner = opened(node)
        frozen = frozen_parameters(thing)
        if frozen and kind_of(inner) == "d":
            node = {"y": [traits | {"frozen": frozen}, inner]}
        return {"m": node}

    def _with_sharing(self, thing: object, state: object, path: str) -> object:
        """Note which earlier generator draws from the same bits, as two of NumPy's can."""
        bits = bits_of(thing)
        if bits is None or not isinstance(state, dict):
            return state
        if id(bits) in self._bits:
            return state | {SHARED_BITS: self._bits[id(bits)][0]}
        self._bits[id(bits)] = (path, bits)
        return state

    def _container(self, thing: object, path: str, depth: int) -> TreeNode:
        if type(thing) is dict or isinstance(thing, Mapping):
            # Any other class may have items of its own making.
            is_plain = type(thing) is dict or type(thing) is OrderedDict
            block = block_of(thing) if is_plain and self._memory is not None else None
            if block is None:
                return self._mapping(thing, path, depth)
            return self._reused(block, path, depth) or self._block(block, thing, path, depth)
        if isinstance(thing, set | frozenset):
            # Sorted, because the order of a set differs from one process to the next.
            items = sorted((self._key(item, path) for item in thing), key=repr)
            return {"s" if isinstance(thing, set) else "fs": items}
        assert isinstance(thing, list | tuple)
        if are_json_ints(thing) and not self._may_pickle:
            # The state of Python's generator, three times in a checkpoint, is long.
            items = list(thing)
        else:
            items = [
                self.node(item, path_of(path, number), depth + 1)
                for number, item in enumerate(thing)
            ]
        return {"t" if isinstance(thing, tuple) else "l": items}

    def _mapping(self, thing: Mapping[Any, Any], path: str, depth: int) -> dict[str, Any]:
        start = f"{path}." if path else ""
        return {
            "d": [
                [key, self.node(item, start + key, depth + 1)]
                if type(key) is str
                else [self._key(key, path), self.node(item, path_of(path, key), depth + 1)]
                for key, item in thing.items()
            ]
        }

    def _reused(self, block: TensorBlock, path: str, depth: int) -> TreeNode | None:
        """What the last capture made of this block; None if that may not be the same now."""
        assert self._memory is not None, "There are blocks only with a memory."
        found = self._memory.blocks.get(path)
        place = (depth, len(self.leaves), len(self._seen))
        if found is None or path in self._blocks or not found.is_of(block, place):
            return None
        numbered = enumerate(block.parts, len(self._seen))
        parts = dict(zip(map(id, block.parts), numbered, strict=True))
        are_new = self._seen.keys().isdisjoint(parts) and (
            self._index.keys().isdisjoint(found.index.keys())
        )
        if not are_new or len(parts) < len(block.parts):
            return None
        self._seen |= parts
        self._index |= found.index
        self._extents += found.extents
        self.leaves += map(make_leaf, found.leaves_of(block, _ARRAY_FIELD))
        self._blocks[path] = found
        self._has_reused = True
        return found.node

    def _block(
        self, block: TensorBlock, thing: Mapping[Any, Any], path: str, depth: int
    ) -> TreeNode:
        """Capture a block, and remember it if it has nothing in common with what came before."""
        place = (depth, len(self.leaves), len(self._seen))
        # There are no blocks in a block.
        memory, self._memory = self._memory, None
        node = self._mapping(thing, path, depth)
        self._memory = memory
        new, extents = self.leaves[place[1] :], self._extents[place[1] :]
        is_apart = len(self._seen) == place[2] + len(block.parts) and len(new) == block.distinct
        if is_apart and path not in self._blocks:
            if (found := CapturedBlock.of(block, place, node, new, extents)) is not None:
                self._blocks[path] = found
        return node

    def _key(self, key: object, path: str) -> TreeNode:
        if type(key) is str:
            return key
        if type(key) is tuple:
            return {"t": [self._key(item, path) for item in key]}
        if isinstance(key, tuple):
            kind = type(key)
            raise unsupported(path, f"a {kind.__module__}.{kind.__qualname__} as a key or in a set")
        return scalar(key, path)

    def _array(self, library: Library, array: Any, path: str) -> TreeNode:
        try:
            info = library.describe(array)
        except (ValueError, RuntimeError) as error:
            raise unsupported(path, str(error)) from error
        traits = info.traits
        if library.name == "numpy" and "class" in traits:
            traits = traits | _attributes(array, path)
        count = len(self.leaves)
        index = self._index.setdefault(info.identity, count)
        node: dict[str, Any] = {"y": [traits, {"a": index}]} if traits else {"a": index}
        if index < count:
            self._ties.setdefault(index, []).append(node)
            return node
        self._nodes.append(node)
        self._extents.append(info.extent)
        dtype, shape, nbytes, identity, extent, _, shard, local_shape, is_copy, is_equal = info
        facts = (path, library, dtype, shape, nbytes, extent is not None, array, shard)
        rest = (is_copy, local_shape, identity, is_equal, 0)
        self.leaves.append(make_leaf((*facts, *rest)))
        return node

    def finish(self) -> bool:
        """Mark the arrays that share memory; False if that is not possible in reused nodes."""
        memory = self._memory
        if memory is not None and memory.are_apart(self._blocks, self._extents):
            return True
        groups = list(overlapping(self._extents))
        if memory is not None:
            memory.keep({} if groups else self._blocks)
        if groups and self._has_reused:
            return False
        self._mark_memory(groups)
        return True

    def _mark_memory(self, groups: Iterable[list[tuple[int, int, int]]]) -> None:
        """Note in their traits which arrays share one piece of memory, and where."""
        for group in groups:
            # The largest, because the others are views of it, as a rule.
            _, _, base = max((end - start, -index, index) for start, end, index in group)
            base_start = next(start for start, _, index in group if index == base)
            for start, _, index in group:
                if index != base:
                    self._mark(index, [self.leaves[base].path, start - base_start])

    def _mark(self, index: int, memory: list[Any]) -> None:
        for node in (self._nodes[index], *self._ties.get(index, ())):
            if "y" in node:
                # Other arrays may have the same traits.
                traits, inner = node["y"]
                node["y"] = [traits | {"memory": memory}, inner]
            else:
                node["y"] = [{"memory": memory}, {"a": node.pop("a")}]


def _attributes(thing: object, path: str) -> Traits:
    """The plain attributes of a container or array.

    Raises `UnsupportedState` for others that are public.
    """
    found: dict[str, TreeNode] = {}
    for name, item in own_attributes(thing).items():
        if is_json(item) or type(item) in (float, bytes):
            found[name] = scalar(item, path)
        elif not name.startswith("_"):
            raise UnsupportedState(
                f"The {type(thing).__qualname__} at {path!r} has the attribute {name!r}, which is "
                f"a {type(item).__qualname__} and is not saved with its items.",
                hint="Store it as an item, or in a part of the state of its own.",
            )
    return {"attributes": found} if found else {}


def _pickled(thing: object, path: str) -> str:
    buffer = io.BytesIO()
    pickler = _Pickler(buffer)
    try:
        pickler.dump(thing)
    except Exception as error:  # a pickle calls code of the object's own, which may raise anything
        raise unsupported(path, f"an object that cannot be pickled either ({error})") from error
    if list(overlapping(pickler.extents)):
        _warn_of_sharing(path, type(thing).__qualname__)
    return base64.b64encode(buffer.getvalue()).decode()


class _Pickler(pickle.Pickler):
    """Notes where the arrays are."""

    def __init__(self, buffer: io.BytesIO) -> None:
        super().__init__(buffer)
        self.extents: list[tuple[str, int, int] | None] = []

    def reducer_override(self, thing: Any) -> Any:
        is_array = type(thing) is np.ndarray and not thing.dtype.hasobject
        if is_array and (library := library_of(thing)) is not None:
            self.extents.append(library.describe(thing).extent)
        return NotImplemented


@functools.cache
def _warn_of_sharing(path: str, kind: str) -> None:
    log.warning(
        "The %s at %r has arrays that share memory. A pickle does not preserve that: if one of "
        "them is changed in place, the results after a resume will differ.",
        kind,
        path,
    )


def _is_container(thing: object) -> bool:
    return isinstance(thing, Mapping | list | tuple | set | frozenset)
