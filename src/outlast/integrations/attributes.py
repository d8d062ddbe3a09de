"""What a program keeps in attributes of its own objects: counters, lists, averages, switches.

Of callbacks and modules, frameworks save only what those declare. A resume must continue with
everything that has changed. For torch modules, that includes buffers that are not in
their state_dict, and which parameters are frozen.
"""

import copy
import functools
import itertools
import operator
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from outlast._base.logs import get_logger
from outlast.checkpoint.state.randomness import as_value
from outlast.checkpoint.state.tree import has_state_dict
from outlast.checkpoint.state.values import value
from outlast.integrations.plain import (
    SCALARS,
    NotPlain,
    encoded,
    filled,
    is_array,
    is_same,
    separated,
)

log = get_logger(__name__)

_CONTAINERS = (dict, list, set, frozenset, deque, tuple)
_DEPTH_MAX = 3
_PARTS_MAX = 100
_FROZEN = "requires_grad of "
_BUFFER = "buffer "
_ABSENT = "The run has a state of %s, which this program does not have."


NO_ATTRIBUTES: Mapping[str, Any] = {"plain": {}, "states": {}}
"""What `read` returns if nothing has changed; also for a run that was saved without."""


class _Found(NamedTuple):
    """Attributes of one object by their names.

    Plain ones, the states of stateful objects and random generators, buffers that their modules do
    not save, and the lengths of containers that are not plain.
    """

    plain: dict[str, Any]
    states: dict[str, Any]
    buffers: dict[str, Any]
    lost: dict[str, int]


class _Simple(NamedTuple):
    """An object that keeps nothing but plain values, and what of them had changed.

    Nothing of it can change without a change of `names`, `items` or `trained`.
    """

    holder: Any
    names: list[str]
    items: list[Any]
    trained: list[tuple[str, bool]]
    changed: dict[str, Any]

    def is_as(self, holder: Any) -> bool:
        """Whether this object is still the same, and as it was."""
        attributes = vars(holder)
        return (
            holder is self.holder
            and list(attributes) == self.names
            # Never equality, which the program's own classes define.
            and all(map(operator.is_, attributes.values(), self.items))
            and _trained(holder) == self.trained
            and not _has_unsaved_buffers(holder)
        )


class ChangedAttributes:
    """Reads and writes the attributes that have changed since `begin`.

    `holders` returns the objects by names that are the same in each process. What a program sets
    before, such as a folder or a rate, stays as this process sets it. `known` are objects that are
    saved elsewhere, and `ignored` are names that belong to the framework.
    """

    def __init__(
        self,
        holders: Callable[[], Mapping[str, Any]],
        *,
        known: Callable[[], Iterable[Any]],
        ignored: frozenset[str],
    ) -> None:
        self._holders = holders
        self._known = known
        self._ignored = ignored
        self._before: dict[str, _Found] | None = None
        # What was saved once is saved from then on: another process may begin with another value.
        self._changed: set[tuple[str, str]] = set()
        self._simple: dict[str, _Simple] = {}

    def begin(self) -> None:
        """Note what there is before the first step of this process."""
        self._before, self._simple = {}, {}
        known = self._known_ids()
        for name, holder in self._all_holders():
            found = self._found_in(holder, known)
            # Buffers may be large, and torch counts their changes.
            versions = {key: (one, one._version) for key, one in found.buffers.items()}  # noqa: SLF001
            self._before[name] = found._replace(plain=separated(found.plain), buffers=versions)

    def read(self) -> dict[str, Any]:
        """What has changed, and the states of the objects that keep one; empty before `begin`."""
        if self._before is None:
            return dict(NO_ATTRIBUTES)
        known = self._known_ids()
        plain: dict[str, Any] = {}
        states: dict[str, Any] = {}
        for name, holder in self._all_holders():
            simple = self._simple.get(name)
            if simple is not None and simple.is_as(holder):
                changed = simple.changed
            else:
                changed, found = self._changed_in(name, holder, known)
                if found.states:
                    states[name] = found.states
            if changed:
                plain[name] = dict(changed)
        return {"plain": plain, "states": states}

    def write(self, saved: Mapping[str, Any]) -> None:
        """Make the objects what they were. May be called again with the same."""
        self._simple = {}
        holders = dict(self._all_holders())
        for name in {*saved["plain"], *saved["states"]} - holders.keys():
            log.warning(_ABSENT, name)
        for name, items in saved["plain"].items():
            for key, item in items.items() if name in holders else ():
                self._changed.add((name, key))
                _write(holders[name], key, copy.deepcopy(item))
        for name, states in saved["states"].items():
            for key, state in states.items() if name in holders else ():
                kept = _kept_state(vars(holders[name]).get(key))
                if kept is None:
                    log.warning(_ABSENT, f"{name}.{key}")
                else:
                    kept.set(copy.deepcopy(state))

    def freeze(self, saved: Mapping[str, Any]) -> None:
        """Only freeze and unfreeze parameters, which is compared right after a restore."""
        holders = self._holders()
        for name, items in saved["plain"].items():
            for key, item in items.items():
                if name in holders and key.startswith(_FROZEN):
                    _write(holders[name], key, item)

    def _changed_in(self, name: str, holder: Any, known: set[int]) -> tuple[dict[str, Any], _Found]:
        """What has changed in one object, and everything that was found in it."""
        assert self._before is not None, "It has begun."
        found = self._found_in(holder, known)
        before = self._before.get(name, _Found({}, {}, {}, {}))
        for key, item in found.plain.items():
            if key not in before.plain or not is_same(item, before.plain[key]):
                self._changed.add((name, key))
        for key, buffer in found.buffers.items():
            one, version = before.buffers.get(key, (None, 0))
            if one is not buffer or version != buffer._version:  # noqa: SLF001 - as above
                self._changed.add((name, key))
        self._warn_about(name, found.lost, before.lost)
        items = found.plain | found.buffers
        changed = separated(
            {key: one for key, one in items.items() if (name, key) in self._changed}
        )
        self._simple.pop(name, None)
        if self._is_simple(holder):
            attributes = vars(holder)
            self._simple[name] = _Simple(
                holder, list(attributes), list(attributes.values()), _trained(holder), changed
            )
        return changed, found

    def _found_in(self, holder: Any, known: set[int]) -> _Found:
        found = _Found({}, {}, dict(_unsaved_buffers(holder)), {})
        for key, item in _items(holder):
            if key in self._ignored or id(item) in known:
                continue
            if type(item) in SCALARS:
                found.plain[key] = item
                continue
            try:
                if (kept := _kept_state(item)) is not None:
                    found.states[key] = encoded(kept.get())
                else:
                    found.plain[key] = encoded(item)
            except NotPlain:
                if isinstance(item, _CONTAINERS):
                    found.lost[key] = len(item)
        return found

    def _is_simple(self, holder: Any) -> bool:
        """Whether nothing in an object can change as long as it has the same attributes."""
        return not _has_unsaved_buffers(holder) and all(
            key in self._ignored or _is_constant(item) for key, item in vars(holder).items()
        )

    def _known_ids(self) -> set[int]:
        return set(map(id, self._known()))

    def _all_holders(self) -> Iterator[tuple[str, Any]]:
        """The objects, and those of the program's own classes inside them."""
        waiting = deque((name, holder, 0) for name, holder in self._holders().items())
        seen = {*map(id, self._known()), *(id(holder) for _, holder, _ in waiting)}
        while waiting:
            name, holder, depth = waiting.popleft()
            yield name, holder
            if depth == _DEPTH_MAX or name in self._simple:
                continue
            attributes = {key: one for key, one in vars(holder).items() if key not in self._ignored}
            for key, item in own_objects(attributes):
                if id(item) not in seen:
                    seen.add(id(item))
                    waiting.append((f"{name}.{key}", item, depth + 1))

    def _warn_about(self, name: str, lost: dict[str, int], before: dict[str, int]) -> None:
        """Name what has been gathered since `begin`, but a resume would lose."""
        for key, length in lost.items():
            if (name, key) not in self._changed and before.get(key, 0) != length:
                # Once for each.
                self._changed.add((name, key))
                log.warning(
                    "%s.%s cannot be saved, and a resume loses it. Use lists, and dicts whose keys "
                    "are strings or numbers, of plain values or arrays.",
                    name,
                    key,
                )


def own_objects(attributes: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The objects of the program's own classes, also in lists and dicts, that keep attributes."""
    for key, item in attributes.items():
        parts: Iterable[tuple[Any, Any]] = ()
        if type(item) in (list, tuple):
            parts = enumerate(item)
        elif type(item) is dict:
            parts = list(item.items())
        elif _is_own(item):
            yield key, item
        for part, one in itertools.islice(parts, _PARTS_MAX):
            if type(part) in SCALARS and _is_own(one):
                yield f"{key}[{part!r}]", one


def _items(holder: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object and, of a module, which of its parameters are frozen."""
    yield from vars(holder).items()
    for name, is_trained in _trained(holder):
        yield f"{_FROZEN}{name}", is_trained


def _trained(holder: Any) -> list[tuple[str, bool]]:
    """Which parameters of a module require a gradient."""
    parameters = vars(holder).get("_parameters") or {}
    return [(name, one.requires_grad) for name, one in parameters.items() if one is not None]


def _has_unsaved_buffers(holder: Any) -> bool:
    return bool(vars(holder).get("_non_persistent_buffers_set"))


def _is_constant(item: Any) -> bool:
    """Whether an attribute stays as it is until it is set again, or is not saved at all."""
    return type(item) in SCALARS or not (
        isinstance(item, _CONTAINERS)
        or is_array(item)
        or _kept_state(item) is not None
        or _is_own(item)
    )


def _kept_state(item: Any) -> value | None:
    """How to read and set the state of a random generator, or of what has a state_dict."""
    if (found := as_value(item)) is not None:
        return found
    return value(item.state_dict, item.load_state_dict) if has_state_dict(item) else None


def _unsaved_buffers(holder: Any) -> Iterator[tuple[str, Any]]:
    """The buffers of a module that are not in its state_dict."""
    for name in vars(holder).get("_non_persistent_buffers_set") or ():
        buffer = holder._buffers.get(name)  # noqa: SLF001 - nothing public knows which they are
        if buffer is not None:
            yield f"{_BUFFER}{name}", buffer


def _write(holder: Any, key: str, item: Any) -> None:
    attributes = vars(holder)
    if key.startswith(_FROZEN):
        attributes["_parameters"][key.removeprefix(_FROZEN)].requires_grad_(item)
    elif key.startswith(_BUFFER):
        buffers, name = attributes["_buffers"], key.removeprefix(_BUFFER)
        if (buffers[name].shape, buffers[name].dtype) == (item.shape, item.dtype):
            # In place: DistributedDataParallel holds it too, and sends it to the other ranks.
            buffers[name].detach().copy_(item)
        else:
            buffers[name] = item.to(buffers[name].device)
    else:
        attributes[key] = filled(attributes.get(key), item)


def _is_own(thing: Any) -> bool:
    """Whether an object is of a class of the program itself, and has no state of its own."""
    kind: Any = type(thing)
    return is_of_program(kind) and hasattr(thing, "__dict__") and not has_state_dict(thing)


def is_of_program(kind: Any) -> bool:
    """Whether a class, or a function, is the program's own, and not of an installed package."""
    return _is_module_of_program(kind.__module__)


@functools.cache
def _is_module_of_program(name: str) -> bool:
    top = name.partition(".")[0]
    if top in ("__main__", "builtins", "outlast"):
        return top == "__main__"
    file = getattr(sys.modules.get(name), "__file__", None)
    paths = sysconfig.get_paths()
    installed = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return file is not None and not any(Path(file).is_relative_to(one) for one in installed)
