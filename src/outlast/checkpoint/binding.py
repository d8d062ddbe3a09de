"""Fit a saved tree to a live state, and put the saved values into it.

Two steps, so that nothing is touched before everything has been compared: `bind` lists every
difference and where each array's bytes belong; after those bytes are there, `finish` puts the rest
in place. Arrays of equal shape and dtype are filled where they are.
"""

import base64
import pickle
import sys
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from outlast.checkpoint.arrays import Bytes, library_named, library_of
from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.randomness import as_value
from outlast.checkpoint.tree import Node, has_state_dict, path_of, plain

Get = Callable[[], object]
"""Gives a restored part of the state, once the bytes of its arrays are there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SavedLeaf:
    """An array as the manifest describes it."""

    path: str
    library: str
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """`targets[i]` are the places for the bytes of leaf i; `finish` completes the state."""

    targets: tuple[tuple[Bytes, ...], ...]
    finish: Callable[[], object]


def bind(
    root: Node,
    leaves: Sequence[SavedLeaf],
    state: object,
    *,
    what: str,
    may_pickle: Collection[str] = (),
) -> Binding:
    """Compare and prepare. Raises `StateMismatch` with every difference; changes nothing.

    A pickle is opened only at the paths in `may_pickle`, and only once all else has been verified.
    """
    binder = _Binder(leaves, may_pickle)
    finish = binder.part(root, state, "", _Fit.SAME)
    if binder.differences:
        raise StateMismatch(
            f"{what} does not fit the state in {len(binder.differences)} places:",
            differences=tuple(binder.differences),
        )
    return Binding(targets=tuple(map(tuple, binder.targets)), finish=finish)


class _Fit(Enum):
    """How much a part must resemble what was saved."""

    SAME = "the same keys and arrays"
    GROWS = "what is there fits, but more may come, as in an optimizer before its first step"
    ANY = "whatever was saved is taken"


class _Missing:
    """Stands for a part that the live state does not have."""


_MISSING = _Missing()


class _Binder:
    def __init__(self, leaves: Sequence[SavedLeaf], may_pickle: Collection[str]) -> None:
        self._may_pickle = may_pickle
        self.differences: list[str] = []
        self.targets: list[list[Bytes]] = [[] for _ in leaves]
        self._leaves = leaves
        self._bound: dict[tuple[int, int], Get] = {}

    def part(self, node: Node, live: Any, path: str, fit: _Fit) -> Get:
        kind = next(iter(node)) if isinstance(node, dict) else None
        match kind:
            case "a":
                return self._array(node["a"], live, path, fit)
            case "o":
                return self._object(node["o"], live, path)
            case "v":
                return self._value(node["v"], live, path)
            case "d":
                return self._dict(node["d"], live, path, fit)
            case "l":
                return self._list(node["l"], live, path, fit)
            case "t":
                return self._tuple(node["t"], live, path, fit)
            case "p":
                return self._pickle(node["p"], path)
        return self._plain(node, live, path, fit)

    def _plain(self, node: Node, live: Any, path: str, fit: _Fit) -> Get:
        is_part = library_of(live) is not None or has_state_dict(live) or as_value(live) is not None
        is_container = isinstance(live, Mapping | list) and node is not None
        if fit is not _Fit.ANY and (is_part or is_container):
            return self._differs(path, f"a plain value was saved, but the state has {_name(live)}")
        try:
            restored = plain(node)
        except (ValueError, TypeError, SyntaxError) as error:
            return self._differs(path, f"the checkpoint is not readable here: {error}")
        return lambda: restored

    def _array(self, index: int, live: Any, path: str, fit: _Fit) -> Get:
        leaf = self._leaves[index]
        saved = f"{leaf.dtype} {list(leaf.shape)}"
        library = library_of(live)
        if library is None:
            if fit is _Fit.ANY or live is _MISSING or live is None:
                return self._new_array(index, path)
            return self._differs(path, f"{saved} was saved, but the state has {_name(live)}")
        dtype, shape = library.describe(live)
        if (library.name, dtype, shape) != (leaf.library, leaf.dtype, leaf.shape):
            if fit is _Fit.ANY:
                return self._new_array(index, path)
            found = f"{dtype} {list(shape)}"
            if library.name != leaf.library:
                saved, found = f"{leaf.library} {saved}", f"{library.name} {found}"
            return self._differs(path, f"{saved} was saved, but the state has {found}")
        # A tied array is filled once.
        known = self._bound.get((index, id(live)))
        if known is not None:
            return known
        target, get = library.receiver(live)
        self.targets[index].append(target)
        self._bound[index, id(live)] = get
        return get

    def _new_array(self, index: int, path: str) -> Get:
        leaf = self._leaves[index]
        library = library_named(leaf.library)
        if library is None:
            return self._differs(path, f"{leaf.library} is not installed")
        try:
            fresh = library.empty(leaf.dtype, leaf.shape)
        except ValueError as error:
            return self._differs(path, str(error))
        target, get = library.receiver(fresh)
        self.targets[index].append(target)
        return get

    def _object(self, node: Node, live: Any, path: str) -> Get:
        if live is _MISSING or not has_state_dict(live):
            return self._differs(path, f"an object was saved, but the state has {_name(live)}")
        now = live.state_dict()
        self._compare_groups(node, now, path)
        restored = self.part(node, now, path, _Fit.SAME if _is_module(live) else _Fit.GROWS)

        def finish() -> object:
            live.load_state_dict(restored())
            return live

        return finish

    def _compare_groups(self, node: Node, now: Any, path: str) -> None:
        """Optimizers refuse groups of other sizes, but only once everything else is copied."""
        if not isinstance(now, Mapping) or "param_groups" not in now:
            return
        saved = _group_sizes(dict(map(tuple, node["d"])).get("param_groups"))
        sizes = [len(group["params"]) for group in now["param_groups"]]
        if saved != sizes:
            where = path_of(path, "param_groups")
            self._differs(
                where, f"groups of {saved} parameters were saved, but the state has {sizes}"
            )

    def _value(self, node: Node, live: Any, path: str) -> Get:
        found = as_value(live)
        if found is None:
            return self._differs(
                path, f"an outlast.value or a generator was saved, not {_name(live)}"
            )
        restored = self.part(node, found.get(), path, _Fit.ANY)

        def finish() -> object:
            found.set(restored())
            return live

        return finish

    def _pickle(self, text: str, path: str) -> Get:
        if path not in self._may_pickle:
            return self._differs(path, "it was pickled, and may_pickle does not name it")
        return lambda: pickle.loads(base64.b64decode(text, validate=True))

    def _dict(self, items: list[list[Node]], live: Any, path: str, fit: _Fit) -> Get:
        if live is _MISSING or live is None or _is_other(live, Mapping, fit):
            live = {}
        if not isinstance(live, Mapping):
            return self._differs(path, f"a dict was saved, but the state has {_name(live)}")
        saved = {plain(key): node for key, node in items}
        # An empty container is one that fills as the run goes, such as a history.
        is_fixed = fit is _Fit.SAME and bool(live)
        if is_fixed:
            self._compare_keys(saved, live, path)
        parts = {
            key: self.part(node, live.get(key, _MISSING), path_of(path, key), fit)
            for key, node in saved.items()
            if key in live or not is_fixed
        }
        if not isinstance(live, MutableMapping):
            rebuild: Callable[..., object] = type(live)
            return lambda: rebuild({key: get() for key, get in parts.items()})

        def finish() -> object:
            for key in [key for key in live if key not in parts]:
                del live[key]
            for key, get in parts.items():
                live[key] = get()
            return live

        return finish

    def _compare_keys(self, saved: Collection[object], live: Collection[object], path: str) -> None:
        for key in saved:
            if key not in live:
                self._differs(path_of(path, key), "saved, but not in the state")
        for key in live:
            if key not in saved:
                self._differs(path_of(path, key), "in the state, but not saved")

    def _list(self, items: list[Node], live: Any, path: str, fit: _Fit) -> Get:
        if live is _MISSING or live is None or _is_other(live, list, fit):
            live = []
        if not isinstance(live, list):
            return self._differs(path, f"a list was saved, but the state has {_name(live)}")
        parts = self._items(items, live, path, fit)

        def finish() -> object:
            live[:] = [get() for get in parts]
            return live

        return finish

    def _tuple(self, items: list[Node], live: Any, path: str, fit: _Fit) -> Get:
        if live is _MISSING or live is None or _is_other(live, tuple, fit):
            live = ()
        if not isinstance(live, tuple):
            return self._differs(path, f"a tuple was saved, but the state has {_name(live)}")
        parts = self._items(items, live, path, fit)
        rebuild: Callable[..., object] = type(live)
        if hasattr(live, "_fields"):
            # A named tuple takes its fields one by one.
            return lambda: rebuild(*(get() for get in parts))
        return lambda: rebuild([get() for get in parts])

    def _items(self, items: list[Node], live: Sequence[Any], path: str, fit: _Fit) -> list[Get]:
        holds_arrays = any(library_of(item) is not None or has_state_dict(item) for item in live)
        is_named = hasattr(live, "_fields")
        if len(items) != len(live) and (is_named or (fit is _Fit.SAME and holds_arrays)):
            self._differs(path, f"{len(items)} items were saved, but the state has {len(live)}")
            return []
        padded = [*live, *[_MISSING] * len(items)]
        return [
            self.part(node, padded[number], path_of(path, number), fit)
            for number, node in enumerate(items)
        ]

    def _differs(self, path: str, how: str) -> Get:
        self.differences.append(f"{path or 'the root'}: {how}")
        return lambda: None


def _is_other(live: object, kind: type, fit: _Fit) -> bool:
    """Whether a part of another kind stands where anything is taken."""
    return fit is _Fit.ANY and not isinstance(live, kind)


def _is_module(thing: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.nn.Module)


def _group_sizes(groups: Node) -> list[int]:
    """How many parameters each saved group of an optimizer has."""
    found = []
    for group in groups["l"] if isinstance(groups, dict) and "l" in groups else []:
        params = dict(map(tuple, group["d"])).get("params")
        found.append(len(params["l"]) if isinstance(params, dict) and "l" in params else 0)
    return found


def _name(thing: object) -> str:
    return "nothing" if thing is _MISSING else f"a {type(thing).__qualname__}"
