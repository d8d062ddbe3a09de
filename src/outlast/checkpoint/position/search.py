"""Find what decides the order of a loader, as far as it can be reached from it.

Searches attributes, containers, closures and the globals that a function uses, without running code
of the program. Every search is bounded; large containers are sampled. What it misses is caught
later, because the order itself is verified.
"""

import functools
import itertools
import random
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from outlast.checkpoint.position import container_state
from outlast.checkpoint.position.container_state import is_plain
from outlast.checkpoint.position.sources import (
    Sources,
    is_foreign,
    is_torch_loader,
    path_to,
    torch_data,
)
from outlast.checkpoint.position.stand_in import StandIn
from outlast.checkpoint.state.modules import is_module
from outlast.checkpoint.state.randomness import as_value, is_seed_generator
from outlast.checkpoint.state.traits import attributes_of
from outlast.checkpoint.state.values import value

_OBJECTS_MAX = 20_000
_ITEMS_MAX = 100
_ITEMS_LOOKED_AT = 10_000
_OF_LAYERS = frozenset({"_layers", "_seed_generators"})
_PLAIN = (str, bytes, int, float, complex, type(None), type, types.ModuleType)
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)
# What keeps a position that cannot be read: C code, for the most part.
_ITERATORS: tuple[type, ...] = (
    *(types.GeneratorType, map, filter, zip, enumerate, reversed),
    *(type(iter([])), type(iter(())), type(iter(range(0))), type(iter("")), type(iter(set()))),
    *(type(iter({})), type(iter({}.values())), type(iter({}.items()))),
    *(type(iter(int, 0)), type(reversed([]))),
    *(kind for kind in vars(itertools).values() if isinstance(kind, type)),
)


def search(roots: Mapping[str, Any], *, enters_stateful: bool = True) -> Sources:
    """Find what decides the order, nearest first, each thing once.

    Unless `enters_stateful`, things with a state_dict of their own are left to it.
    """
    found = _Found()
    # The generators that come along with every checkpoint anyway.
    shared = set(map(id, _global_generators()))
    # Holds on to what was seen, so that no identity is used twice.
    seen: dict[int, Any] = {}
    waiting = deque(roots.items())
    while waiting and len(seen) < _OBJECTS_MAX:
        path, thing = waiting.popleft()
        thing = thing.original if isinstance(thing, StandIn) else thing
        if id(thing) in seen or isinstance(thing, _PLAIN) or id(thing) in shared:
            continue
        seen[id(thing)] = thing
        if found.takes(path, thing) and (enters_stateful or not _is_stateful(thing)):
            found.note(path, thing)
            parts = [(path_to(path, label), part) for label, part in _parts(thing)]
            if path in found.borrowed or isinstance(thing, types.FunctionType):
                found.borrowed.update(label for label, _ in parts)
            waiting.extend(parts)
    return found.sources(is_exhausted=not waiting)


class _Found:
    """What a search has found so far. `cut` are the containers that were looked at in part."""

    def __init__(self) -> None:
        self.generators: dict[str, Any] = {}
        self.iterables: dict[str, Any] = {}
        self.others: dict[str, Any] = {}
        self.containers: dict[str, Any] = {}
        self.borrowed: set[str] = set()
        self.iterators: dict[str, Any] = {}
        self.running: list[str] = []
        self.unrepeatable: list[str] = []
        self.unordered: list[str] = []
        self.cut: list[str] = []

    def takes(self, path: str, thing: Any) -> bool:
        """Note a generator or an array; True if there is more to be found inside."""
        if isinstance(thing, random.SystemRandom):
            self.unrepeatable.append(path)
        elif not isinstance(thing, value) and as_value(thing) is not None:
            self.generators[path] = thing
        elif _is_array(thing):
            self.containers[path] = thing
        elif _is_running(thing):
            self.running.append(path)
        else:
            return not isinstance(thing, np.generic)
        return False

    def note(self, path: str, thing: Any) -> None:
        if len(self.cut) < _ITEMS_MAX and _is_cut(thing):
            self.cut.append(path)
        if isinstance(thing, set | frozenset) and sum(map(_is_generator, thing)) > 1:
            self.unordered.append(path)
        if container_state.kind_of(thing) is not None:
            self.containers[path] = thing
        elif isinstance(thing, _ITERATORS):
            # The loader itself is another matter.
            if path:
                self.iterators[path] = thing
        elif _is_iterable(thing):
            self.iterables[path] = thing
        elif _is_of_the_program(thing):
            self.others[path] = thing

    def sources(self, *, is_exhausted: bool) -> Sources:
        # Only where the part of a container that was looked at holds generators may the rest, too.
        is_cut = any(path.startswith(f"{cut}[") for cut in self.cut for path in self.generators)
        return Sources(
            generators=self.generators,
            iterables=self.iterables,
            others=self.others,
            containers=self.containers,
            borrowed=frozenset(self.borrowed & self.containers.keys()),
            iterators=self.iterators,
            running=tuple(self.running),
            unrepeatable=tuple(self.unrepeatable),
            unordered=tuple(self.unordered),
            is_complete=is_exhausted and not is_cut,
        )


def _global_generators() -> list[Any]:
    """Those of the modules, which live as long as the process."""
    found: list[Any] = [random.random.__self__, np.random.rand.__self__]  # type: ignore[attr-defined]  # methods of hidden instances
    torch = sys.modules.get("torch")
    return found if torch is None else [*found, torch.default_generator]


def _is_array(thing: Any) -> bool:
    torch = sys.modules.get("torch")
    return isinstance(thing, np.ndarray) or (torch is not None and isinstance(thing, torch.Tensor))


def _is_running(thing: Any) -> bool:
    """Whether this is the iterator of a torch loader that has worker processes."""
    kind = type(thing)
    return kind.__name__ == "_MultiProcessingDataLoaderIter" and is_foreign(kind.__module__)


def _is_stateful(thing: Any) -> bool:
    return hasattr(type(thing), "state_dict")


def _is_of_the_program(thing: Any) -> bool:
    kind = type(thing)
    is_instance = not isinstance(thing, types.FunctionType | types.MethodType | functools.partial)
    return isinstance(thing, types.SimpleNamespace) or (
        is_instance and not is_foreign(kind.__module__)
    )


def _is_iterable(thing: Any) -> bool:
    """Whether the plain attributes of something may decide in which order it is iterated over."""
    kind = type(thing)
    data = torch_data()
    if data is not None and isinstance(thing, data.Sampler):
        return True
    return hasattr(kind, "__iter__") and not (
        is_foreign(kind.__module__) or is_torch_loader(thing) or isinstance(thing, Iterator)
    )


def _parts(thing: Any) -> Iterable[tuple[str, Any]]:
    match thing:
        case list() | tuple() | deque():
            return [(f"[{number}]", item) for number, item in _chosen(enumerate(thing))]
        case dict():
            items = _chosen(thing.items())
            return [(f"[{key!r:.40}]", item) for key, item in items if is_plain(key)]
        case set() | frozenset():
            # Without an order, only a single one can be found again in another process.
            parts = [item for item in itertools.islice(thing, _ITEMS_MAX) if not is_plain(item)]
            return [("[only]", parts[0])] if len(parts) == 1 else []
        case functools.partial():
            return [("func", thing.func), ("args", thing.args), ("keywords", thing.keywords)]
        case types.MethodType():
            return [("__self__", thing.__self__), ("__func__", thing.__func__)]
        case types.BuiltinMethodType():
            return [("__self__", thing.__self__)]
        case types.FunctionType():
            return _parts_of_function(thing)
        case types.GeneratorType():
            frame = thing.gi_frame
            if frame is None:
                return []
            names = _used_names(thing.gi_code)
            return [*frame.f_locals.items(), *_used(frame.f_globals, names)]
        case _:
            return _parts_of_instance(thing)


def _chosen(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """The first of many items, and what is of another kind, or a generator, further on."""
    iterator = iter(pairs)
    first = list(itertools.islice(iterator, _ITEMS_MAX))
    seen = {type(item) for _, item in first if not _is_generator(item)}
    rest = itertools.islice(iterator, _ITEMS_LOOKED_AT)
    return first + [pair for pair in rest if type(pair[1]) not in seen]


def _is_cut(thing: Any) -> bool:
    """Whether a container has parts that were not looked at, and may hold generators."""
    if not isinstance(thing, list | tuple | deque | dict) or len(thing) <= _ITEMS_MAX:
        return False
    if len(thing) > _ITEMS_LOOKED_AT:
        return True
    items = thing.values() if isinstance(thing, dict) else thing
    return not all(
        is_plain(item) or _is_generator(item) for item in itertools.islice(items, _ITEMS_MAX)
    )


def _is_generator(thing: Any) -> bool:
    if is_plain(thing) or type(thing) is dict:
        return False
    torch = sys.modules.get("torch")
    return (
        isinstance(thing, _GENERATORS)
        or (torch is not None and isinstance(thing, torch.Generator))
        or is_seed_generator(thing)
    )


def _parts_of_function(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    if is_foreign(function.__module__):
        return
    names = function.__code__.co_freevars
    for name, cell in zip(names, function.__closure__ or (), strict=True):
        # A cell is empty until its name is first given a value.
        if (found := _cell_contents(cell)) is not None:
            yield name, found
    yield "__defaults__", function.__defaults__
    yield "__kwdefaults__", function.__kwdefaults__
    yield from _used(function.__globals__, _used_names(function.__code__))


def _cell_contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _used(namespace: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[str, Any]]:
    return ((name, namespace[name]) for name in names if name in namespace)


def _used_names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _used_names(constant)


def _parts_of_instance(thing: Any) -> Iterator[tuple[str, Any]]:
    kind = type(thing)
    package = kind.__module__.partition(".")[0]
    if package in sys.stdlib_module_names or package == "outlast":
        # Locks, queues, loggers: they lead to everything and decide nothing.
        if not isinstance(thing, types.SimpleNamespace):
            return
    if _is_of_keras(thing, "Variable"):
        return
    left_out = _left_out(thing)
    # What Keras notes of a layer depends on whether it has been called in this process.
    is_layer = _is_of_keras(thing, "Layer")
    for name, found in attributes_of(thing):
        is_note = is_layer and name.startswith("_") and name not in _OF_LAYERS
        if name not in left_out and not is_note:
            yield name, found
    for ancestor in kind.__mro__:
        if not is_foreign(ancestor.__module__):
            yield from _parts_of_class(ancestor)


def _is_of_keras(thing: Any, name: str) -> bool:
    kind = getattr(sys.modules.get("keras"), name, None)
    return isinstance(kind, type) and isinstance(thing, kind)


def _left_out(thing: Any) -> frozenset[str]:
    """The attributes that decide nothing."""
    if is_torch_loader(thing):
        # The running iterator holds its workers and queues.
        return frozenset({"_iterator"})
    # A model that a data set uses belongs to the state, and is large.
    return frozenset({"_parameters", "_buffers"}) if is_module(thing) else frozenset()


def _parts_of_class(kind: type) -> Iterator[tuple[str, Any]]:
    """The functions of a class, for the globals they use, and what all instances share."""
    for name, found in list(vars(kind).items()):
        if isinstance(found, staticmethod | classmethod):
            yield name, found.__func__
        elif isinstance(found, property):
            yield name, found.fget
        elif not name.startswith("__") or isinstance(found, types.FunctionType):
            yield name, found
