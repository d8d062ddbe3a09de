"""What decides the order of a loader: read, compared, and put back.

These are random generators, plain attributes such as a counter of epochs, containers and arrays
that change, and iterators that keep a position. Reads only what is stored: no property,
`__getattr__` or other code of the program runs. `search` finds them.
"""

import itertools
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.position import container_state
from outlast.checkpoint.position.container_state import ContainerSample, is_scalar
from outlast.checkpoint.state.randomness import as_value, random_states
from outlast.checkpoint.state.traits import attributes_of
from outlast.checkpoint.state.values import value

# Of all contents together, in one snapshot.
_CONTENT_ITEMS_MAX = 200_000
# Classes and functions of these hold nothing that belongs to a loader, or lead everywhere.
_FOREIGN = sys.stdlib_module_names | {
    *("accelerate", "jax", "keras", "numpy", "outlast", "torch", "torchdata"),
}
# Numbers that mean something to this process only.
_RESOURCE = re.compile(
    r"(fd|fileno|handle|ptr|pointer|pid|tid|address|sock|socket)$", re.IGNORECASE
)
_ADDRESS_MIN = 2**40


@dataclass(frozen=True, kw_only=True, slots=True)
class Sources:
    """What was found, by the path from the loader.

    `iterables` have an `__iter__` of their own, such as samplers; `others` are all other objects
    of the program's classes. `containers` include arrays; those in `borrowed` are variables of the
    program that a function of the loader uses. `iterators` keep a position that cannot be read;
    `running` are torch's, with worker processes. `unrepeatable` generators have no state; those in
    `unordered` sets cannot be told apart. `is_complete` is false if the search was cut short.
    """

    generators: Mapping[str, Any]
    iterables: Mapping[str, Any]
    others: Mapping[str, Any]
    containers: Mapping[str, Any]
    borrowed: frozenset[str]
    iterators: Mapping[str, Any]
    running: tuple[str, ...]
    unrepeatable: tuple[str, ...]
    unordered: tuple[str, ...]
    is_complete: bool

    def states(self) -> dict[str, Any]:
        """The state of each generator."""
        return {path: value_of(found).get() for path, found in self.generators.items()}

    def all_states(self) -> dict[str, Any]:
        """The same, together with the global generators of the CPU."""
        names = {"python": "Python", "numpy": "NumPy", "torch": "torch"}
        shared = random_states()
        return self.states() | {
            f"the global generator of {name}": shared[key]
            for key, name in names.items()
            if key in shared
        }

    def set_state(self, path: str, state: Any) -> None:
        try:
            value_of(self.generators[path]).set(state)
        except (ValueError, TypeError, RuntimeError, KeyError) as error:
            raise StateMismatch(
                "The loader's random generators do not match those of the saved position:",
                differences=(f"{path} cannot take the saved state: {error}",),
            ) from error

    def settings(self) -> dict[str, Any]:
        """The plain attributes of everything that is iterated over."""
        return _scalars(self.iterables)

    def counters(self) -> dict[str, Any]:
        """All plain attributes, and the contents of containers that are small enough."""
        return self.settings() | _scalars(self.others) | self._contents()

    def holder(self, path: str) -> Any:
        """The container, or the object with the attribute, that one of `counters` was read from."""
        if path in self.containers:
            return self.containers[path]
        parent, _, _ = path.rpartition(".")
        return self.iterables.get(parent, self.others.get(parent))

    def set_counter(self, path: str, found: Any) -> None:
        """Put back what `counters` read, unless it means something else in this process."""
        if isinstance(found, Mapping):
            # This process may not have made the container yet.
            if path in self.containers and not self._is_log(path, found):
                container_state.put(self.containers[path], dict(found))
            return
        if path in self.containers:
            return
        parent, _, name = path.rpartition(".")
        thing = self.iterables.get(parent)
        if thing is None:
            thing = self.others.get(parent)
            if thing is None or not _is_same_everywhere(thing, name, found):
                return
        if name == "epoch" and callable(getattr(thing, "set_epoch", None)):
            # It may derive more from the epoch than this attribute.
            thing.set_epoch(found)
        # Past any __setattr__ of the program's, as it was read.
        object.__setattr__(thing, name, found)

    def samples(self, counters: Mapping[str, Any]) -> dict[str, ContainerSample]:
        """Samples of the containers that `counters` cannot show completely, and the iterators."""
        found: dict[str, ContainerSample] = {}
        for path, thing in self.containers.items():
            is_saved = path in counters
            kind = container_state.kind_of(thing)
            if kind is None or (is_saved and not container_state.holds_parts(counters[path])):
                continue
            take = container_state.sample_of_parts if is_saved else container_state.sample
            if (sample := _unless_changing(take, thing, kind)) is not None:
                found[path] = sample
        for path, thing in self.iterators.items():
            # A count shows where it is; of the others it is only known that they are kept.
            text = repr(thing) if isinstance(thing, itertools.count) else ""
            found[path] = ContainerSample(id(thing), "iterator", 0, text, ())
        return found

    def _is_log(self, path: str, content: Mapping[str, Any]) -> bool:
        """Whether a variable of the program only grows as the loader runs."""
        ((kind, body),) = content.items()
        return (
            path in self.borrowed
            and kind not in ("array", "tensor")
            and len(body) != len(self.containers[path])
        )

    def _contents(self) -> dict[str, Any]:
        left = _CONTENT_ITEMS_MAX
        found: dict[str, Any] = {}
        for path, thing in sorted(self.containers.items(), key=_samplers_first):
            kind = container_state.kind_of(thing)
            if kind is None:
                continue
            size = container_state.size_of(thing, kind)
            if size > min(left, container_state.NUMBERS_MAX):
                continue
            content = _unless_changing(container_state.read, thing, kind)
            if content is not None:
                found[path] = content
            # Reading a list that cannot be saved takes little, but some.
            left -= size if content is not None else min(size, container_state.ITEMS_MAX)
        return found


NOTHING = Sources(
    generators={},
    iterables={},
    others={},
    containers={},
    borrowed=frozenset(),
    iterators={},
    running=(),
    unrepeatable=(),
    unordered=(),
    is_complete=True,
)


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> set[str]:
    """The paths in both whose values differ."""
    return {path for path in before.keys() & after.keys() if not same(before[path], after[path])}


def same(one: Any, other: Any) -> bool:
    """Whether two states of a generator, or two plain values, are equal."""
    if isinstance(one, Mapping):
        return (
            isinstance(other, Mapping)
            and one.keys() == other.keys()
            and all(same(one[key], other[key]) for key in one)
        )
    if isinstance(one, list | tuple):
        if not isinstance(other, list | tuple) or len(one) != len(other):
            return False
        # The state of Python's generator is long, and plain.
        is_plain_int = set(map(type, one)) == set(map(type, other)) == {int}
        return tuple(one) == tuple(other) if is_plain_int else all(map(same, one, other))
    if hasattr(one, "dtype") and hasattr(one, "shape"):
        is_array = hasattr(other, "dtype") and hasattr(other, "shape")
        return is_array and bool(np.array_equal(np.asarray(one), np.asarray(other)))
    return type(one) is type(other) and bool(one == other)


def torch_data() -> Any:
    """The module torch.utils.data, if the program uses it."""
    return sys.modules.get("torch.utils.data")


def is_torch_loader(loader: object) -> bool:
    data = torch_data()
    return data is not None and isinstance(loader, data.DataLoader)


def is_stream(loader: Any) -> bool:
    """Whether a torch loader reads a data set that has no indices."""
    data = torch_data()
    return isinstance(loader.dataset, data.IterableDataset | data.IterDataPipe)


def value_of(generator: Any) -> value:
    found = as_value(generator)
    assert found is not None, "Only what has a state was collected."
    return found


def path_to(parent: str, label: str) -> str:
    return f"{parent}{label}" if not parent or label.startswith("[") else f"{parent}.{label}"


def _scalars(things: Mapping[str, Any]) -> dict[str, Any]:
    defaults = {kind: _defaults(kind) for kind in set(map(type, things.values()))}
    return {
        path_to(path, name): found
        for path, thing in things.items()
        for name, found in (defaults[type(thing)] | dict(attributes_of(thing))).items()
        if is_scalar(found)
    }


def _is_same_everywhere(thing: Any, name: str, found: Any) -> bool:
    """Whether a plain attribute of a data set can be restored in another process."""
    now = getattr(thing, name, None)
    if type(now) is not type(found) and not (now is None and not isinstance(found, int)):
        return False
    return not _RESOURCE.search(name) and not (isinstance(found, int) and found >= _ADDRESS_MIN)


def _samplers_first(item: tuple[str, Any]) -> bool:
    return "sampler" not in item[0]


def _unless_changing(function: Any, thing: Any, kind: str) -> Any:
    """What the function gives; None if another thread changes the thing at the same time."""
    try:
        return function(thing, kind)
    except RuntimeError:
        return None


def is_foreign(module: object) -> bool:
    return not isinstance(module, str) or module.partition(".")[0] in _FOREIGN


def _defaults(kind: type) -> dict[str, Any]:
    """What the classes of the program give an instance until it has a value of its own."""
    return {
        name: found
        for ancestor in reversed(kind.__mro__)
        if not is_foreign(ancestor.__module__)
        for name, found in vars(ancestor).items()
        if not name.startswith("__")
    }
