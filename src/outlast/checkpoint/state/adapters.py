"""Objects that keep a state but have no `state_dict`: flax's nnx, references of JAX, grain.

Each is read and filled as if it had one. A framework is looked at only if the program has loaded it
itself. An object of any other class that has functions to get and set a state is not assumed to
mean by them what these do: `outlast.value` does.
"""

import json
import re
import sys
from typing import Any, Protocol

from outlast.checkpoint.state.arrays import library_of
from outlast.checkpoint.state.nodes import is_plain
from outlast.checkpoint.state.pytrees import Kept


class StateSource(Protocol):
    """What can be saved and filled like an object of torch."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any) -> object: ...


def adapted(thing: Any) -> StateSource | None:
    """How to read and fill this object; None if it is not of a class that is known here."""
    nnx = sys.modules.get("flax.nnx")
    if nnx is not None and isinstance(thing, nnx.Variable):
        return Variable(thing)
    if nnx is not None and isinstance(thing, nnx.Pytree):
        return NnxObject(thing, nnx)
    if _is_of(thing, "jax", "Ref"):
        return Reference(thing)
    if _is_of(thing, "grain", "DataLoaderIterator"):
        return LoaderIterator(thing)
    if _is_of(thing, "grain", "DatasetIterator"):
        return DatasetIterator(thing)
    return None


def has_fixed_keys(source: StateSource) -> bool:
    """Whether the keys are part of the program, as in a model, so that none can come later."""
    return isinstance(source, NnxObject | Variable)


class NnxObject:
    """A module, an optimizer, a metric or random streams of nnx, which change in place.

    Its state are the attributes that hold variables, arrays or other such objects, and plain
    values, such as a counter or whether it is in training mode. Any other attribute is static: nnx
    does not count it as state either.
    """

    def __init__(self, thing: Any, nnx: Any) -> None:
        self._thing = thing
        self._nnx = nnx

    def state_dict(self) -> dict[str | int, Any]:
        return {
            _key(name): item
            for name, item in vars(self._thing).items()
            if not name.startswith("_pytree__") and (is_plain(item) or self._holds_data(item))
        }

    def load_state_dict(self, state: dict[str | int, Any]) -> None:
        # As nnx does it when it loads a pickle: the kinds of attributes stay what they are.
        vars(self._thing).update({str(name): item for name, item in state.items()})

    def _holds_data(self, item: Any) -> bool:
        parts = (self._nnx.Pytree, self._nnx.Variable)
        leaves = sys.modules["jax"].tree.leaves(item, is_leaf=lambda one: isinstance(one, parts))
        return any(isinstance(leaf, parts) or library_of(leaf) is not None for leaf in leaves)


class Variable:
    """A variable of nnx. What it holds is its whole state; its metadata are static."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def state_dict(self) -> object:
        return self._thing.get_raw_value()

    def load_state_dict(self, state: object) -> None:
        self._thing.set_raw_value(state)


class Reference:
    """An array of JAX that can be written to."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def state_dict(self) -> object:
        return self._thing[...]

    def load_state_dict(self, state: object) -> None:
        self._thing[...] = state


class DatasetIterator:
    """An iterator over a data set of grain."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def state_dict(self) -> object:
        return self._thing.get_state()

    def load_state_dict(self, state: object) -> None:
        self._thing.set_state(state)


class LoaderIterator:
    """The iterator of grain's DataLoader, whose state is JSON.

    It names the sampler and the data source, and grain refuses others. They are compared before
    anything is loaded, and without the addresses that the names of most objects contain.
    """

    _FIXED = frozenset({"version", "worker_count", "sampler", "data_source"})
    _ADDRESS = re.compile(r" at 0x[0-9a-f]+")

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def state_dict(self) -> object:
        return {
            name: Kept(self._named(item)) if name in self._FIXED else item
            for name, item in self._state().items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        fixed = {name: item for name, item in self._state().items() if name in self._FIXED}
        self._thing.set_state(json.dumps(state | fixed).encode())

    def _state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._thing.get_state())
        return found

    def _named(self, item: object) -> object:
        return self._ADDRESS.sub("", item) if isinstance(item, str) else item


def _key(name: str) -> str | int:
    """The name of an attribute; the number of an item, as lists of nnx name theirs."""
    is_number = name.isascii() and name.isdecimal() and str(int(name)) == name
    return int(name) if is_number else name


def _is_of(thing: object, package: str, name: str) -> bool:
    kind: object = getattr(sys.modules.get(package), name, None)
    return isinstance(kind, type) and isinstance(thing, kind)
