"""Nodes of JAX pytrees: classes that are registered with JAX, such as flax's TrainState.

A node is taken apart by JAX itself, one level at a time, and put together again by JAX from the
node of the live state with other children. So what is static in it, such as a function or an
optimizer, is never saved: it is the program's own, and compared as far as it is plain. The
containers of Python, and named tuples, are not treated here.
"""

import functools
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from outlast.checkpoint.state.nodes import TreeNode, is_plain, scalar
from outlast.checkpoint.state.traits import name_of


class Kept:
    """A value that is not restored, but must be equal in the state that is filled."""

    def __init__(self, value: object) -> None:
        self.value = value


@dataclass(frozen=True, kw_only=True, slots=True)
class Flat:
    """One level of a pytree. `rebuild` makes the same node of other children.

    `static` is what JAX does not count as a child, as `constant` writes it.
    """

    name: str
    static: TreeNode
    keys: tuple[str | int, ...]
    children: tuple[Any, ...]
    rebuild: Callable[[Sequence[Any]], Any]


def is_pytree(thing: object) -> bool:
    """Whether the class of this object is registered with JAX, if the program has loaded it."""
    jax = sys.modules.get("jax")
    if jax is None or thing is None or isinstance(thing, dict | list | tuple):
        return False
    return not jax.tree_util.all_leaves([thing])


def flattened(thing: Any) -> Flat:
    """One level of a pytree. What its class raises while it is taken apart is not caught."""
    tree_util = sys.modules["jax"].tree_util
    children, treedef = tree_util.tree_flatten_with_path(thing, is_leaf=lambda x: x is not thing)
    _, static = treedef.node_data()
    return Flat(
        name=name_of(type(thing)),
        static=constant(static),
        keys=tuple(_key(path[0]) for path, _ in children),
        children=tuple(child for _, child in children),
        rebuild=lambda items: tree_util.tree_unflatten(treedef, items),
    )


def is_changeable(thing: object) -> bool:
    """Whether the attributes of a pytree can be set, so that others may see it change.

    Only if the attributes are all there is to it: no slots, and no base class written in C.
    """
    kind = type(thing)
    return kind.__setattr__ is object.__setattr__ and kind.__basicsize__ == _Bare.__basicsize__


def filled(thing: Any, source: Any) -> Any:
    """The pytree with all that the source has, or the source itself if it is of another class."""
    if type(source) is not type(thing):
        return source
    attributes = dict(vars(source))
    vars(thing).clear()
    vars(thing).update(attributes)
    return thing


def is_code(thing: object) -> bool:
    """Whether a leaf of a pytree belongs to the program: functions, types, and mere markers."""
    if isinstance(thing, _CODE):
        return True
    if isinstance(thing, functools.partial):
        parts = (thing.func, *thing.args, *thing.keywords.values())
        return all(is_code(part) or is_plain(part) for part in parts)
    if type(thing).__module__.partition(".")[0] in ("jax", "jaxlib"):
        return callable(thing)
    # What has no attributes has no state, such as a sentinel.
    return type(thing) is object or (is_bare(thing) and not vars(thing))


def is_bare(thing: object) -> bool:
    """Whether the attributes of an object are all there is to it."""
    return type(thing).__basicsize__ == _Bare.__basicsize__ and hasattr(thing, "__dict__")


def constant(thing: object) -> TreeNode:
    """What is not restored, as a node: only tuples and plain values, a `k` for all others."""
    if isinstance(thing, Mapping):
        return {"t": [constant(pair) for pair in thing.items()]}
    if isinstance(thing, list | tuple):
        return {"t": [constant(item) for item in thing]}
    return scalar(thing, "") if is_plain(thing) else {"k": None}


class _Bare:
    """An object like any other, whose size is that of all without slots."""


_CODE = (
    *(types.FunctionType, types.BuiltinFunctionType, type),
    *(np.ufunc, np.dtype, Enum),
)


def _key(entry: object) -> str | int:
    """The name or number by which JAX names a child."""
    for attribute in ("name", "key", "idx"):
        found = getattr(entry, attribute, None)
        if isinstance(found, str) or type(found) is int:
            return found
    return str(entry)
