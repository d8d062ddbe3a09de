"""Whether a fresh state can be filled from a saved one. Pure: compares two trees.

Used twice: before a restore, with the state of the new process, and after each save, with the
state as it was when the run opened, because a state that has grown beyond what a restore can build
should be reported while the run is alive.
"""

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from outlast.checkpoint.format.manifest import SavedLeaf
from outlast.checkpoint.restoring.memory import MemoryMap
from outlast.checkpoint.state.arrays import dtype_named, dtype_text
from outlast.checkpoint.state.nodes import (
    SHARED_BITS,
    References,
    TreeNode,
    kind_of,
    opened,
    path_of,
    plain,
)
from outlast.checkpoint.state.traits import can_create, described
from outlast.checkpoint.state.tree import Tree


class Fit(Enum):
    """How much a part must resemble what was saved."""

    SAME = "the same keys and arrays"
    GROWS = "what is there fits, but more may come, as in an optimizer before its first step"
    ANY = "anything that was saved is accepted"


@dataclass(frozen=True, kw_only=True, slots=True)
class FitContext:
    """Where a part is: how much must fit there, whether an object keeps it, or a pytree of JAX."""

    fit: Fit = Fit.SAME
    in_object: bool = False
    in_pytree: bool = False


MISSING: Any = type("_Missing", (), {"__repr__": lambda _: "nothing"})()
"""Stands for a part that the fresh state does not have."""


def places(differences: Sequence[str]) -> str:
    return "1 place" if len(differences) == 1 else f"{len(differences)} places"


def misfits(
    root: TreeNode, leaves: Sequence[SavedLeaf], fresh: Tree, *, may_pickle: Collection[str] = ()
) -> list[str]:
    """Every place where the fresh state cannot be filled from the saved one, with the reason."""
    return list(_Fitting(root, leaves, fresh, may_pickle).part(root, fresh.root, "", FitContext()))


def apart(other: str, what: str) -> str:
    return f"it was saved separately from {other}, but the state has one {what} for both"


class _Fitting:
    def __init__(
        self, root: TreeNode, leaves: Sequence[SavedLeaf], fresh: Tree, may_pickle: Collection[str]
    ) -> None:
        self._leaves = leaves
        self._fresh = fresh
        self._may_pickle = may_pickle
        self._references = References(root)
        self._fresh_references = References(fresh.root)
        self._memory = MemoryMap(root, leaves, fresh)
        # Which saved object, or array in an object, has its place in which one of the fresh state.
        self._claims: dict[tuple[str, int], tuple[int, str]] = {}
        self._filled: dict[int, tuple[int, str]] = {}

    def part(self, saved: TreeNode, fresh: TreeNode, path: str, place: FitContext) -> Iterator[str]:
        numbers = self._references.number_of(saved), self._fresh_references.number_of(fresh)
        is_again = kind_of(saved) == "r"
        traits, saved = opened(self._references.resolved(saved))
        fresh_traits, fresh = opened(self._fresh_references.resolved(fresh))
        if kind_of(saved) == "p":
            if path not in self._may_pickle:
                yield f"{_named(path)}: it was pickled, but may_pickle does not list it"
            return
        yield from self._class(traits, fresh_traits, fresh, path)
        match kind_of(saved):
            case "a":
                yield from self._memory.misfits(saved["a"], traits, fresh, fresh_traits, path)
                yield from _keys(traits, fresh_traits, fresh, path, place) or self._array(
                    saved["a"], fresh, path, place
                )
            case "o" | "m" | "v" if not is_again and None not in numbers:
                yield from self._claim("object", *numbers, path)
                yield from self._object_or_value(saved, fresh, path)
            case "o" | "m" | "v":
                yield from self._object_or_value(saved, fresh, path)
            case "d":
                yield from self._dict(saved["d"], fresh, path, place)
            case "l" | "t" as kind:
                yield from self._items(saved[kind], kind, fresh, fresh_traits, path, place)
            case "j" | "jo" as kind:
                yield from self._pytree(saved[kind], fresh, path, place)
            case _:
                yield from self._plain(saved, fresh, path, place.fit)

    def _claim(self, what: str, saved: int | None, fresh: int | None, path: str) -> Iterator[str]:
        """Take a part of the fresh state for a saved one: it cannot be two of them at once."""
        assert saved is not None and fresh is not None, "Only what can be shared is claimed."
        other, where = self._claims.setdefault((what, fresh), (saved, path))
        if other != saved:
            yield f"{_named(path)}: {apart(where, what)}"

    def _object_or_value(self, saved: TreeNode, fresh: TreeNode, path: str) -> Iterator[str]:
        if kind_of(saved) == "v":
            return self._value(saved, fresh, path)
        return self._object(saved, fresh, path)

    def _class(
        self, saved: dict[str, Any], fresh: dict[str, Any], node: TreeNode, path: str
    ) -> Iterator[str]:
        name = saved.get("class")
        # A class that cannot be created from its name needs an instance of it to copy.
        if not can_create(saved) and (name, saved.get("factory")) != (
            fresh.get("class"),
            fresh.get("factory"),
        ):
            found = described(fresh) if "class" in fresh else _name(node)
            yield f"{_named(path)}: a {described(saved)} was saved, but the state has {found}"

    def _array(self, index: int, fresh: TreeNode, path: str, place: FitContext) -> Iterator[str]:
        leaf = self._leaves[index]
        saved = f"{leaf.dtype} {list(leaf.shape)}"
        is_optional = place.fit is Fit.ANY or fresh is MISSING or fresh is None
        # Compiled, a step turns a Python number in a pytree into an array, as flax's counter.
        if place.in_pytree and leaf.library == "jax" and not leaf.kind[2] and _is_number(fresh):
            return
        if kind_of(fresh) != "a":
            if not is_optional:
                yield f"{_named(path)}: {saved} was saved, but the state has {_name(fresh)}"
            elif not _can_be_created(leaf):
                yield f"{_named(path)}: NumPy cannot create an array of {leaf.dtype} from its name"
            return
        live = self._fresh.leaves[fresh["a"]]
        kind = (live.library.name, live.dtype, live.shape)
        if kind != leaf.kind and not is_optional:
            found = f"{live.dtype} {list(live.shape)}"
            if live.library.name != leaf.library:
                saved, found = f"{leaf.library} {saved}", f"{live.library.name} {found}"
            yield f"{_named(path)}: {saved} was saved, but the state has {found}"
        elif kind == leaf.kind and live.is_writable and place.in_object:
            yield from self._claim("array", index, fresh["a"], path)
            # An object is filled where it is, so what are two arrays there stay two.
            other, where = self._filled.setdefault(index, (fresh["a"], path))
            if other != fresh["a"]:
                yield (
                    f"{_named(path)}: it was one array with {where} when it was saved, but the "
                    "state has two"
                )

    def _object(self, saved: TreeNode, fresh: TreeNode, path: str) -> Iterator[str]:
        kind = kind_of(fresh)
        if kind not in ("o", "m"):
            yield f"{_named(path)}: an object was saved, but the state has {_name(fresh)}"
            return
        body = saved[kind_of(saved)]
        yield from self._groups(body, fresh[kind], path)
        is_model = kind == "m"
        fit = Fit.SAME if is_model else Fit.GROWS
        inside = FitContext(fit=fit, in_object=True, in_pytree=is_model)
        yield from self.part(body, fresh[kind], path, inside)

    def _pytree(
        self, body: list[Any], fresh: TreeNode, path: str, place: FitContext
    ) -> Iterator[str]:
        """A pytree is rebuilt by JAX from one of the same class, so it needs one to copy."""
        name, static, children = body
        found = kind_of(fresh) or ""
        if found not in ("j", "jo") or fresh[found][0] != name:
            other = f"a {fresh[found][0]}" if found in ("j", "jo") else _name(fresh)
            yield f"{_named(path)}: a {name} was saved, but the state has {other}"
            return
        _, fresh_static, fresh_children = fresh[found]
        if not is_same(static, fresh_static):
            before, now = constant_text(static), constant_text(fresh_static)
            yield f"{_named(path)}: its static values were {before}, but are {now} in the state"
        saved, live = ([key for key, _ in pairs] for pairs in (children, fresh_children))
        for key in live:
            if key not in saved:
                yield f"{path_of(path, key)}: in the state, but not saved"
        for key in saved:
            if key not in live:
                yield f"{path_of(path, key)}: saved, but not in the state"
        if saved != live:
            return
        inside = replace(place, in_pytree=True)
        for (key, node), (_, other) in zip(children, fresh_children, strict=True):
            yield from self.part(node, other, path_of(path, key), inside)

    def _groups(self, saved: TreeNode, fresh: TreeNode, path: str) -> Iterator[str]:
        """Optimizers refuse groups of other sizes, but only once everything else is copied."""
        before, now = _group_sizes(saved), _group_sizes(fresh)
        if now is not None and before != now:
            where = path_of(path, "param_groups")
            yield f"{where}: groups of {before} parameters were saved, but the state has {now}"

    def _value(self, saved: TreeNode, fresh: TreeNode, path: str) -> Iterator[str]:
        if kind_of(fresh) != "v":
            yield (
                f"{_named(path)}: an outlast.value or a generator was saved, but the state has "
                f"{_name(fresh)}"
            )
            return
        before, now = (_entry(node["v"], SHARED_BITS) for node in (saved, fresh))
        if before != now:
            yield (
                f"{_named(path)}: it shared its bit generator with "
                f"{before or 'no other generator'} when it was saved, but here with "
                f"{now or 'no other generator'}"
            )
        yield from self.part(saved["v"], fresh["v"], path, FitContext(fit=Fit.ANY, in_object=True))

    def _dict(
        self, items: list[list[TreeNode]], fresh: TreeNode, path: str, place: FitContext
    ) -> Iterator[str]:
        fit = place.fit
        if fresh is MISSING or fresh is None or (fit is Fit.ANY and kind_of(fresh) != "d"):
            fresh = {"d": []}
        if kind_of(fresh) != "d":
            yield f"{_named(path)}: a dict was saved, but the state has {_name(fresh)}"
            return
        saved = {plain(key): node for key, node in items}
        live = {plain(key): node for key, node in fresh["d"]}
        # An empty container is one that fills as the run goes, such as a history.
        is_fixed = fit is Fit.SAME and bool(live)
        if is_fixed:
            for key in live:
                if key not in saved:
                    yield f"{path_of(path, key)}: in the state, but not saved"
        for key, node in saved.items():
            if is_fixed and key not in live:
                yield f"{path_of(path, key)}: saved, but not in the state"
            else:
                yield from self.part(node, live.get(key, MISSING), path_of(path, key), place)

    def _items(
        self,
        items: list[TreeNode],
        kind: str,
        fresh: TreeNode,
        fresh_traits: dict[str, Any],
        path: str,
        place: FitContext,
    ) -> Iterator[str]:
        fit = place.fit
        if fresh is MISSING or fresh is None or (fit is Fit.ANY and kind_of(fresh) != kind):
            fresh = {kind: []}
        if kind_of(fresh) != kind:
            what = "list" if kind == "l" else "tuple"
            yield f"{_named(path)}: a {what} was saved, but the state has {_name(fresh)}"
            return
        live = fresh[kind]
        holds_arrays = any(map(_is_fixed, live))
        is_named = kind == "t" and "class" in fresh_traits and not can_create(fresh_traits)
        if len(items) != len(live) and (is_named or (fit is Fit.SAME and holds_arrays)):
            yield (f"{_named(path)}: {len(items)} items were saved, but the state has {len(live)}")
            return
        for number, node in enumerate(items):
            other = live[number] if number < len(live) else MISSING
            yield from self.part(node, other, path_of(path, number), place)

    def _plain(self, saved: TreeNode, fresh: TreeNode, path: str, fit: Fit) -> Iterator[str]:
        if kind_of(saved) == "k":
            yield from _constant(saved, fresh, path)
            return
        is_part = kind_of(fresh) in ("a", "o", "m", "v", "j", "jo")
        is_container = kind_of(fresh) in ("d", "l") and saved is not None
        if kind_of(fresh) == "k" or (fit is not Fit.ANY and (is_part or is_container)):
            yield f"{_named(path)}: a plain value was saved, but the state has {_name(fresh)}"
            return
        try:
            plain(saved)
        except (ValueError, TypeError, SyntaxError) as error:
            yield f"{_named(path)}: it cannot be read here: {error}"


_TEXT_MAX = 200
_NAMES = {
    "a": "an array",
    "o": "an object",
    "m": "a model",
    "j": "a pytree",
    "jo": "a pytree",
    "k": "a value that is not saved",
    "v": "an outlast.value or a generator",
    "d": "a dict",
    "l": "a list",
    "t": "a tuple",
    "s": "a set",
    "fs": "a frozenset",
    "p": "a pickled object",
}


def _name(node: TreeNode) -> str:
    if node is MISSING:
        return "nothing"
    return _NAMES.get(kind_of(node) or "", "None" if node is None else "a plain value")


def _named(path: str) -> str:
    return path or "the root"


def _keys(
    saved: dict[str, Any], live: dict[str, Any], fresh: TreeNode, path: str, place: FitContext
) -> list[str]:
    """A random key of JAX comes back only as one of the same kind, and nothing else does as one."""
    before, now = saved.get("key"), live.get("key")
    if kind_of(fresh) != "a" or before == now or place.fit is Fit.ANY:
        return []
    was, has = (f"a random key of {key}" if key else "an array of numbers" for key in (before, now))
    return [f"{_named(path)}: {was} was saved, but the state has {has}"]


def _constant(saved: TreeNode, fresh: TreeNode, path: str) -> Iterator[str]:
    if kind_of(fresh) != "k":
        yield f"{_named(path)}: a {_NAMES['k'][2:]} was there, but the state has {_name(fresh)}"
    elif not is_same(saved, fresh):
        before, now = constant_text(saved["k"]), constant_text(fresh["k"])
        yield f"{_named(path)}: {before} was saved, but the state has {now}"


def constant_text(node: TreeNode) -> str:
    """What is compared but not restored, for a message."""
    kind = kind_of(node)
    if kind == "t":
        text = f"({', '.join(map(constant_text, node['t']))})"
    else:
        text = "..." if kind == "k" else repr(plain(node))
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 3]}..."


def is_same(one: TreeNode, other: TreeNode) -> bool:
    """Equal, with types: 1 is not 1.0, and 0.0 is not -0.0."""
    return json.dumps(one) == json.dumps(other)


def _is_number(node: TreeNode) -> bool:
    return type(node) in (bool, int, float) or kind_of(node) in ("i", "f", "c")


def _is_fixed(item: TreeNode) -> bool:
    """Whether an item of a list or tuple shows that all have their places, as in an optimizer."""
    traits, node = opened(item)
    return kind_of(node) in ("a", "o", "m", "j", "jo", "k") or not can_create(traits)


def _can_be_created(leaf: SavedLeaf) -> bool:
    """Whether the name of a dtype says all of it: not where a field has a type of another package.

    Other libraries, and whether they are installed, show when the array is created.
    """
    if leaf.library != "numpy":
        return True
    try:
        return dtype_text(dtype_named(leaf.dtype)) == leaf.dtype
    except (TypeError, ValueError, SyntaxError):
        return True


def _group_sizes(body: TreeNode) -> list[int] | None:
    """How many parameters each group of an optimizer has; None if there are no groups."""
    groups = _entry(body, "param_groups")
    if kind_of(groups) != "l":
        return None
    params = [_entry(group, "params") for group in groups["l"]]
    return [len(found["l"]) if kind_of(found) == "l" else 0 for found in params]


def _entry(node: TreeNode, name: str) -> TreeNode:
    _, body = opened(node)
    items = body["d"] if kind_of(body) == "d" else []
    return next((item for key, item in items if key == name), None)
