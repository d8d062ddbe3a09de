"""What a program keeps in attributes of its own objects: counters, lists, averages, switches.

Of callbacks and modules, frameworks save only what those declare. A resume must continue with
everything that has changed. For torch modules, that includes buffers that are not in
their state_dict, and which parameters are frozen.
"""

import copy
import functools
import sys
import sysconfig
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from outlast._base.logs import get_logger
from outlast.checkpoint.state.tree import has_state_dict
from outlast.integrations.plain import SCALARS, NotPlain, encoded, filled, is_same, separated

log = get_logger(__name__)

_CONTAINERS = (dict, list, set, frozenset, deque, tuple)
_DEPTH_MAX = 3
_FROZEN = "requires_grad of "
_BUFFER = "buffer "


NO_ATTRIBUTES: Mapping[str, Any] = {"plain": {}, "states": {}}
"""What `read` returns if nothing has changed; also for a run that was saved without."""


class _Found(NamedTuple):
    """Attributes by the name of their object and their own.

    Plain ones, the states of stateful objects, buffers that their modules do not save, and the
    lengths of containers that are not plain.
    """

    plain: dict[str, dict[str, Any]]
    states: dict[str, dict[str, Any]]
    buffers: dict[tuple[str, str], Any]
    lost: dict[tuple[str, str], int]


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
        self._before: _Found | None = None
        # What was saved once is saved from then on: another process may begin with another value.
        self._changed: set[tuple[str, str]] = set()

    def begin(self) -> None:
        """Note what there is before the first step of this process."""
        found = self._found()
        # Buffers may be large, and torch counts their changes.
        versions = {place: (one, one._version) for place, one in found.buffers.items()}  # noqa: SLF001
        self._before = found._replace(plain=separated(found.plain), buffers=versions)

    def read(self) -> dict[str, Any]:
        """What has changed, and the states of the objects that keep one; empty before `begin`."""
        if self._before is None:
            return dict(NO_ATTRIBUTES)
        found = self._found()
        self._warn_about(found.lost)
        changed = {
            name: {key: one for key, one in items.items() if self._is_changed(name, key, one)}
            for name, items in found.plain.items()
        }
        for (name, key), buffer in found.buffers.items():
            if self._is_buffer_changed(name, key, buffer):
                changed[name][key] = buffer
        return {
            "plain": {name: separated(items) for name, items in changed.items() if items},
            "states": {name: items for name, items in found.states.items() if items},
        }

    def write(self, saved: Mapping[str, Any]) -> None:
        """Make the objects what they were. May be called again with the same."""
        holders = dict(self._all_holders())
        for name in {*saved["plain"], *saved["states"]} - holders.keys():
            log.warning("The run has a state of %s, which this program does not have.", name)
        for name, items in saved["plain"].items():
            for key, item in items.items() if name in holders else ():
                self._changed.add((name, key))
                _write(holders[name], key, copy.deepcopy(item))
        for name, states in saved["states"].items():
            for key, state in states.items() if name in holders else ():
                vars(holders[name])[key].load_state_dict(copy.deepcopy(state))

    def freeze(self, saved: Mapping[str, Any]) -> None:
        """Only freeze and unfreeze parameters, which is compared right after a restore."""
        holders = self._holders()
        for name, items in saved["plain"].items():
            for key, item in items.items():
                if name in holders and key.startswith(_FROZEN):
                    _write(holders[name], key, item)

    def _is_changed(self, name: str, key: str, item: Any) -> bool:
        assert self._before is not None, "It has begun."
        before = self._before.plain.get(name, {})
        if key not in before or not is_same(item, before[key]):
            self._changed.add((name, key))
        return (name, key) in self._changed

    def _is_buffer_changed(self, name: str, key: str, buffer: Any) -> bool:
        assert self._before is not None, "It has begun."
        before, version = self._before.buffers.get((name, key), (None, 0))
        if before is not buffer or version != buffer._version:  # noqa: SLF001 - as above
            self._changed.add((name, key))
        return (name, key) in self._changed

    def _found(self) -> _Found:
        known = set(map(id, self._known()))
        found = _Found({}, {}, {}, {})
        for name, holder in self._all_holders():
            found.buffers.update(((name, key), one) for key, one in _unsaved_buffers(holder))
            plain, states = found.plain.setdefault(name, {}), found.states.setdefault(name, {})
            for key, item in _items(holder):
                if key in self._ignored or id(item) in known:
                    continue
                if type(item) in SCALARS:
                    plain[key] = item
                    continue
                try:
                    if has_state_dict(item):
                        states[key] = encoded(item.state_dict())
                    else:
                        plain[key] = encoded(item)
                except NotPlain:
                    if isinstance(item, _CONTAINERS):
                        found.lost[name, key] = len(item)
        return found

    def _all_holders(self) -> Iterator[tuple[str, Any]]:
        """The objects, and those of the program's own classes inside them."""
        waiting = deque((name, holder, 0) for name, holder in self._holders().items())
        seen = {*map(id, self._known()), *(id(holder) for _, holder, _ in waiting)}
        while waiting:
            name, holder, depth = waiting.popleft()
            yield name, holder
            for key, item in vars(holder).items() if depth < _DEPTH_MAX else ():
                if key not in self._ignored and id(item) not in seen and _is_own(item):
                    seen.add(id(item))
                    waiting.append((f"{name}.{key}", item, depth + 1))

    def _warn_about(self, lost: dict[tuple[str, str], int]) -> None:
        """Name what has been gathered since `begin`, but a resume would lose."""
        assert self._before is not None, "It has begun."
        for place, length in lost.items():
            if place not in self._changed and self._before.lost.get(place, 0) != length:
                # Once for each.
                self._changed.add(place)
                log.warning(
                    "%s.%s cannot be saved, and a resume loses it. Use lists, and dicts whose keys "
                    "are strings or numbers, of plain values or arrays.",
                    *place,
                )


def _items(holder: Any) -> Iterator[tuple[str, Any]]:
    """The attributes of an object and, of a module, which of its parameters are frozen."""
    yield from vars(holder).items()
    for name, parameter in (vars(holder).get("_parameters") or {}).items():
        if parameter is not None:
            yield f"{_FROZEN}{name}", parameter.requires_grad


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
        name = key.removeprefix(_BUFFER)
        attributes["_buffers"][name] = item.to(attributes["_buffers"][name].device)
    else:
        attributes[key] = filled(attributes.get(key), item)


def _is_own(thing: Any) -> bool:
    """Whether an object is of a class of the program itself, and has no state of its own."""
    kind: Any = type(thing)
    return is_of_program(kind) and hasattr(thing, "__dict__") and not has_state_dict(thing)


@functools.cache
def is_of_program(kind: Any) -> bool:
    """Whether a class is the program's own, and not one of an installed package."""
    top: str = kind.__module__.partition(".")[0]
    if top in ("__main__", "builtins", "outlast"):
        return top == "__main__"
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    paths = sysconfig.get_paths()
    installed = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    return file is not None and not any(Path(file).is_relative_to(one) for one in installed)
