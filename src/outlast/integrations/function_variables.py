"""The variables that functions of a program keep: global ones, and those of enclosing functions.

A reward or a metric may count its calls, or draw from a generator, in a variable outside of it.
Reads the code of the functions, and runs none of it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

from outlast.checkpoint.state.values import value
from outlast.integrations.attributes import is_of_program

_THINGS_MAX = 2000
_CODE = (type, ModuleType, FunctionType, MethodType, BuiltinFunctionType)


class _Nothing:
    """Stands for a variable without a value. Being a class, it is not saved."""


class FunctionVariables(Mapping[str, Any]):
    """Variables by names that are the same in each process. `vars` returns this mapping itself.

    So `ChangedAttributes` reads and writes them like the attributes of an object.
    """

    __slots__ = ("_places",)

    def __init__(self, places: Mapping[str, value]) -> None:
        self._places = places

    @property
    def __dict__(self) -> "FunctionVariables":  # type: ignore[override]  # a mapping of another kind
        return self

    def __getitem__(self, name: str) -> Any:
        return self._places[name].get()

    def __setitem__(self, name: str, item: Any) -> None:
        if name in self._places:
            self._places[name].set(item)

    def __iter__(self) -> Iterator[str]:
        return (name for name, place in self._places.items() if not isinstance(place.get(), _CODE))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def variables_of(things: Iterable[Any]) -> FunctionVariables:
    """The variables that functions, and the methods of classes and objects, use.

    Also those of the functions that they call, as far as all of these are the program's own.
    """
    places: dict[str, value] = {}
    seen: dict[int, Any] = {}
    waiting = deque(function for thing in things for function in _functions_of(thing))
    while waiting and len(seen) < _THINGS_MAX:
        function = waiting.popleft()
        if id(function) in seen:
            continue
        seen[id(function)] = function
        for name, owner, place in _places_of(function):
            if owner is None and name not in places:
                places[name] = place
            elif owner is not None and id(owner) not in seen:
                # Functions of the same name may have been made by turns, each with its own.
                seen[id(owner)] = owner
                same = sum(one.partition(" ")[0] == name for one in places)
                places[f"{name} {same + 1}" if same else name] = place
            waiting.extend(_functions_of(place.get()))
    return FunctionVariables(places)


def _functions_of(thing: Any) -> Iterator[FunctionType]:
    """A function of the program, or those of a class or an object of it."""
    if isinstance(thing, partial):
        thing = thing.func
    if isinstance(thing, MethodType):
        thing = thing.__self__
    if isinstance(thing, FunctionType):
        if is_of_program(thing):
            yield thing
        return
    for kind in (thing if isinstance(thing, type) else type(thing)).__mro__:
        for found in vars(kind).values() if is_of_program(kind) else ():
            own = found.fget if isinstance(found, property) else found
            own = own.__func__ if isinstance(own, staticmethod | classmethod) else own
            if isinstance(own, FunctionType):
                yield own


def _places_of(function: FunctionType) -> Iterator[tuple[str, CellType | None, value]]:
    """The variables of one function: name, cell unless it is global, and how to read and set it."""
    namespace = function.__globals__
    for name in _used_names(function.__code__):
        if name in namespace:
            yield f"{function.__module__}.{name}", None, _in_module(namespace, name)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        yield f"{function.__module__}.{function.__qualname__}.{name}", cell, _in_cell(cell)


def _used_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _used_names(constant)


def _in_module(namespace: dict[str, Any], name: str) -> value:
    return value(lambda: namespace.get(name, _Nothing), partial(namespace.__setitem__, name))


def _in_cell(cell: CellType) -> value:
    def get() -> Any:
        try:
            return cell.cell_contents
        except ValueError:
            # It is empty until its name is first given a value.
            return _Nothing

    return value(get, partial(setattr, cell, "cell_contents"))
