"""Match a saved tree with a live state, and put the saved values into it.

Two steps, so that nothing is touched before everything has been compared: `bind` lists every
difference and where each array's bytes belong; after those bytes are there, `finish` puts the rest
in place. Arrays of equal shape and dtype are filled where they are.

What was one array or container when it was saved is one again, and what were two are two, however
the fresh state was built. Where two saved arrays meet in one live array, the one inside an object
stays, because only the object knows who else refers to it, and the other gets memory of its own.
"""

import base64
import copy
import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from outlast.checkpoint.errors import StateMismatch
from outlast.checkpoint.format.manifest import SavedLeaf
from outlast.checkpoint.restoring.fitting import MISSING, Fit, FitContext, apart, misfits, places
from outlast.checkpoint.restoring.known_code import is_known
from outlast.checkpoint.restoring.optimizers import load_object
from outlast.checkpoint.state.arrays import library_named, library_of
from outlast.checkpoint.state.jax_arrays import as_saved
from outlast.checkpoint.state.jax_shards import empty_array, is_distributed, sharding_like
from outlast.checkpoint.state.library import Bytes, Library
from outlast.checkpoint.state.nodes import (
    SHARED,
    TREE_VERSION,
    TreeNode,
    kind_of,
    opened,
    path_of,
    plain,
)
from outlast.checkpoint.state.pytrees import (
    filled,
    flattened,
    is_bare,
    is_changeable,
    is_pytree,
)
from outlast.checkpoint.state.randomness import as_value
from outlast.checkpoint.state.shards import Shard, is_sharded, new_like
from outlast.checkpoint.state.traits import (
    Traits,
    as_saved_class,
    can_create,
    container_traits,
    new_mapping,
    new_tuple,
    requires_grad,
)
from outlast.checkpoint.state.tree import Tree, capture, is_model, source_of


class PartNotLoaded(Exception):
    """The part at `path` raised its cause while it was loaded."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


Get = Callable[[], object]
"""Gives a restored part of the state, once the bytes of its arrays are there."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalShard:
    """The part of an array that this rank has, and the shape of that part."""

    shard: Shard
    shape: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Binding:
    """`targets[i]` are the places for the bytes of leaf i; `finish` completes the state.

    `shards[i]` says of each of them which part of the array it is for; None for all of it.
    `runs_known_code`: completing it runs only code that is known to leave those bytes alone.
    """

    targets: tuple[tuple[Bytes, ...], ...]
    shards: tuple[tuple["LocalShard | None", ...], ...]
    finish: Callable[[], object]
    runs_known_code: bool


def bind(
    root: TreeNode,
    leaves: Sequence[SavedLeaf],
    state: object,
    *,
    what: str,
    fresh: Tree | None = None,
    may_pickle: Collection[str] = (),
    tree_version: int = TREE_VERSION,
) -> Binding:
    """Compare and prepare. Raises `StateMismatch` with every difference; changes nothing.

    `fresh` is the state as it was captured, if that has been done and its structure is the same.
    A pickle is opened only at the paths in `may_pickle`, and only once all else has been verified.
    """
    if fresh is None:
        fresh = capture(state, may_pickle=may_pickle)
    differences = misfits(root, leaves, fresh, may_pickle=may_pickle)
    if not differences:
        binder = _Binder(leaves, knows_traits=tree_version >= TREE_VERSION)
        finish = binder.part(root, state, "", FitContext())
        targets = binder.assigned()
        differences = binder.differences
    if differences:
        raise StateMismatch(
            f"{what} does not match the state in {places(differences)}:",
            differences=tuple(differences),
        )
    return Binding(
        targets=tuple(tuple(memory for memory, _ in held) for held in targets),
        shards=tuple(tuple(shard for _, shard in held) for held in targets),
        finish=finish,
        runs_known_code=binder.runs_known_code,
    )


@dataclass(kw_only=True, slots=True)
class _Slot:
    """One place of an array in the state. `get` is known once all places are."""

    index: int
    path: str
    live: Any
    traits: Traits
    in_object: bool
    get: Get | None = None


class _Binder:
    def __init__(self, leaves: Sequence[SavedLeaf], *, knows_traits: bool) -> None:
        self.differences: list[str] = []
        self.runs_known_code = True
        self._leaves = leaves
        self._knows_traits = knows_traits
        self._slots: list[_Slot] = []
        self._shared: list[_Once] = []
        self._taken: dict[int, tuple[object, str]] = {}

    def part(self, node: TreeNode, live: Any, path: str, place: FitContext) -> Get:
        traits, node = opened(node)
        kind = kind_of(node)
        if kind == "r":
            found: Get = self._shared[node["r"]]
            return found
        if kind not in SHARED:
            return self._bound(kind, node, live, traits, path, place)
        once = _Once()
        self._shared.append(once)
        once.get = self._bound(kind, node, live, traits, path, place)
        return once

    def _bound(
        self,
        kind: str | None,
        node: TreeNode,
        live: Any,
        traits: Traits,
        path: str,
        place: FitContext,
    ) -> Get:
        self.runs_known_code &= is_known(kind, live)
        match kind:
            case "a":
                return self._array(node["a"], live, traits, path, place)
            case "o" | "m":
                return self._object(node[kind], live, path)
            case "v":
                return self._value(node["v"], live, path)
            case "d":
                return self._dict(node["d"], live, traits, path, place)
            case "l":
                return self._list(node["l"], live, traits, path, place)
            case "t":
                return self._tuple(node["t"], live, traits, path, place)
            case "j" | "jo":
                return self._pytree(node[kind], live, path, place)
            case "s" | "fs":
                return self._set(plain(node), live, traits, path)
        return _whole(kind, node, live)

    def assigned(self) -> list[list[tuple[Bytes, LocalShard | None]]]:
        """Where the bytes of each leaf go, now that all its places are known."""
        targets: list[list[tuple[Bytes, LocalShard | None]]] = [[] for _ in self._leaves]
        holders: dict[object, _Slot] = {}
        first: dict[int, _Slot] = {}
        for slot in sorted(self._slots, key=lambda slot: not slot.in_object):
            memory = self._usable_memory(slot)
            holder = holders.get(memory) if memory is not None else None
            known = first.get(slot.index)
            is_free = memory is not None and (holder is None or holder.index == slot.index)
            if is_free and (known is None or slot.in_object or holder is not None):
                target, slot.get = self._in_place(slot)
                shard = _local_shard(slot.live)
                holders.setdefault(memory, slot)
            elif known is not None:
                # It was one array in several places, and is so again.
                slot.get = known.get
                continue
            else:
                if holder is not None and slot.in_object:
                    self._differs(slot.path, apart(holder.path, "array"))
                target, slot.get, shard = self._new_array(slot)
            first.setdefault(slot.index, slot)
            targets[slot.index].append((target, shard))
        return targets

    def _usable_memory(self, slot: _Slot) -> object | None:
        """What names the live memory that could hold this array; None if it needs its own."""
        leaf = self._leaves[slot.index]
        library = library_of(slot.live)
        if library is None:
            return None
        info = library.describe(slot.live)
        if (library.name, info.dtype, info.shape) != leaf.kind:
            return None
        if info.traits.get("key") != slot.traits.get("key"):
            return None
        if info.shard is not None and not info.nbytes:
            # This rank has nothing of it, so there is no memory to share.
            return id(slot)
        if self._knows_traits and not slot.in_object:
            traits = info.traits
            if any(traits.get(key) != slot.traits.get(key) for key in ("class", "order")):
                return None
        # What cannot be written to is replaced, so that nobody else's bytes can be in its place.
        return info.identity if info.extent is not None else id(slot)

    def _in_place(self, slot: _Slot) -> tuple[Bytes, Get]:
        library = library_of(slot.live)
        assert library is not None, "Only an array can be filled in place."
        target, get = library.receiver(slot.live)
        wanted = requires_grad(slot.traits)
        if library.name != "torch" or slot.in_object or not self._knows_traits:
            return target, get
        if not slot.live.is_leaf or slot.live.requires_grad == wanted:
            return target, get
        return target, lambda: get().requires_grad_(wanted)  # type: ignore[attr-defined]  # a tensor

    def _new_array(self, slot: _Slot) -> tuple[Bytes, Get, LocalShard | None]:
        leaf = self._leaves[slot.index]
        nothing: tuple[Bytes, Get, None] = (np.empty(0, np.uint8), lambda: None, None)
        library = library_named(leaf.library)
        if library is None:
            self._differs(slot.path, f"{leaf.library} is not installed")
            return nothing
        traits = slot.traits
        try:
            if "placements" in traits and (template := self._first(is_sharded)) is not None:
                return _new_distributed(library, template, leaf, traits)
            if "mesh_axes" in traits and (template := self._first(is_distributed)) is not None:
                return _new_over_processes(library, template, leaf, traits)
            fresh = library.empty(leaf.dtype, leaf.kind[2], traits)
        except ValueError as error:
            self._differs(slot.path, str(error))
            return nothing
        target, get = library.receiver(fresh)
        live = slot.live
        if "class" in traits and not can_create(traits):
            # `misfits` has made sure that the state has one of this class to copy.
            return target, lambda: _as_class(type(live), get()), None
        return target, lambda: as_saved_class(get(), traits), None

    def _first(self, is_one: Callable[[object], bool]) -> Any | None:
        """The first such array of the state, whose mesh a new one can have."""
        return next((slot.live for slot in self._slots if is_one(slot.live)), None)

    def _array(self, index: int, live: Any, traits: Traits, path: str, place: FitContext) -> Get:
        slot = _Slot(
            index=index,
            path=path,
            live=MISSING if library_of(live) is None else live,
            traits=traits,
            in_object=place.in_object,
        )
        self._slots.append(slot)

        def restored() -> object:
            if slot.get is None:
                return None
            with _naming(path):
                return _with_attributes(as_saved(slot.get(), traits), traits)

        once = _Once()
        once.get = restored
        return once

    def _object(self, body: TreeNode, live: Any, path: str) -> Get:
        source = source_of(live)
        if source is None:
            return self._differs(path, "the state changed during the comparison")
        self._claim(live, path)
        fit = Fit.SAME if is_model(live, source) else Fit.GROWS
        restored = self.part(body, source.state_dict(), path, FitContext(fit=fit, in_object=True))

        def finish() -> object:
            state = restored()
            with _naming(path):
                load_object(source, state)
            return live

        return finish

    def _value(self, body: TreeNode, live: Any, path: str) -> Get:
        found = as_value(live)
        if found is None:
            return self._differs(path, "the state changed during the comparison")
        self._claim(live, path)
        place = FitContext(fit=Fit.ANY, in_object=True)
        restored = self.part(body, found.get(), path, place)

        def finish() -> object:
            state = restored()
            with _naming(path):
                found.set(state)
            return live

        return finish

    def _pytree(self, body: list[Any], live: Any, path: str, place: FitContext) -> Get:
        """A new node of the same class, or the live one if others can see that it changes."""
        if not is_pytree(live) or len((flat := flattened(live)).keys) != len(body[2]):
            return self._differs(path, "the state changed during the comparison")
        in_place = is_changeable(live) and id(live) not in self._taken
        if in_place:
            self._taken[id(live)] = (live, path)
        parts = [
            self.part(node, child, path_of(path, key), place)
            for (key, node), child in zip(body[2], flat.children, strict=True)
        ]

        def finish() -> object:
            children = [get() for get in parts]
            with _naming(path):
                rebuilt = flat.rebuild(children)
                return filled(live, rebuilt) if in_place else rebuilt

        return finish

    def _claim(self, live: object, path: str) -> None:
        """Take a live object for what was saved here: it cannot be two saved ones at once."""
        if id(live) in self._taken:
            self._differs(path, apart(self._taken[id(live)][1], "object"))
        self._taken[id(live)] = (live, path)

    def _dict(
        self, items: list[list[TreeNode]], live: Any, traits: Traits, path: str, place: FitContext
    ) -> Get:
        target = self._container(live, Mapping, traits, path, new_mapping)
        source = live if isinstance(live, Mapping) else {}
        parts = {
            plain(key): self.part(
                node, source.get(plain(key), MISSING), path_of(path, plain(key)), place
            )
            for key, node in items
        }
        if not isinstance(target, MutableMapping):
            rebuild: Callable[..., object] = type(target)
            return lambda: _with_attributes(
                rebuild({key: get() for key, get in parts.items()}), traits
            )

        def finish() -> object:
            restored = {key: get() for key, get in parts.items()}
            if list(map(_exactly, target)) != list(map(_exactly, restored)):
                # Assigning alone would leave the keys in the order of the fresh state, and leave
                # True where 1 was saved.
                for key in list(target):
                    del target[key]
            for key, item in restored.items():
                target[key] = item
            return _with_attributes(target, traits)

        return finish

    def _list(
        self, items: list[TreeNode], live: Any, traits: Traits, path: str, place: FitContext
    ) -> Get:
        target = self._container(live, list, traits, path, lambda _: [])
        parts = self._items(items, live if isinstance(live, list) else [], path, place)

        def finish() -> object:
            target[:] = [get() for get in parts]
            return _with_attributes(target, traits)

        return finish

    def _tuple(
        self, items: list[TreeNode], live: Any, traits: Traits, path: str, place: FitContext
    ) -> Get:
        parts = self._items(items, live if isinstance(live, tuple) else (), path, place)
        if not self._is_like(live, tuple, traits):
            return lambda: new_tuple(traits, [get() for get in parts])
        rebuild: Callable[..., object] = type(live)
        if hasattr(live, "_fields"):
            # A named tuple takes its fields one by one.
            return lambda: _with_attributes(rebuild(*(get() for get in parts)), traits)
        return lambda: _with_attributes(rebuild([get() for get in parts]), traits)

    def _set(self, items: Any, live: Any, traits: Traits, path: str) -> Get:
        if isinstance(items, frozenset):
            rebuild: Callable[..., object] = (
                type(live) if self._is_like(live, frozenset, traits) else frozenset
            )
            return lambda: _with_attributes(rebuild(items), traits)
        target = self._container(live, set, traits, path, lambda _: set())

        def finish() -> object:
            target.clear()
            target.update(items)
            return _with_attributes(target, traits)

        return finish

    def _items(
        self, items: list[TreeNode], live: Sequence[Any], path: str, place: FitContext
    ) -> list[Get]:
        padded = [*live, *[MISSING] * len(items)]
        return [
            self.part(node, padded[number], path_of(path, number), place)
            for number, node in enumerate(items)
        ]

    def _container(
        self, live: Any, kind: type, traits: Traits, path: str, create: Callable[[Traits], Any]
    ) -> Any:
        """The container to fill: the live one, if it is of the same class and not taken."""
        if not self._is_like(live, kind, traits):
            return create(traits)
        if id(live) in self._taken:
            return copy.copy(live)
        self._taken[id(live)] = (live, path)
        return live

    def _is_like(self, live: Any, kind: type, traits: Traits) -> bool:
        if not isinstance(live, kind):
            return False
        if not self._knows_traits:
            return True
        # An immutable mapping is rebuilt from what it wraps, so its class is the template's.
        return container_traits(live) == {
            key: traits[key] for key in ("class", "factory") if key in traits
        }

    def _differs(self, path: str, how: str) -> Get:
        self.differences.append(f"{path or 'the root'}: {how}")
        return lambda: None


def _whole(kind: str | None, node: TreeNode, live: Any) -> Get:
    """A part that is replaced as a whole, or kept as it is."""
    if kind == "k":
        return lambda: live
    if kind == "p":
        return lambda: _unpickled(node["p"], live)
    restored = plain(node)
    return lambda: restored


def _unpickled(text: str, live: Any) -> Any:
    """The object that was pickled: the live one, if all there is to it are its attributes.

    The program may refer to that one by another name than its place in the state.
    """
    found = pickle.loads(base64.b64decode(text, validate=True))
    return filled(live, found) if is_bare(live) and is_changeable(live) else found


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Add the path to what the program's own loading raises, which may be anything."""
    try:
        yield
    except Exception as error:
        raise PartNotLoaded(path) from error


def _local_shard(live: Any) -> LocalShard | None:
    library = library_of(live)
    info = library.describe(live) if library is not None else None
    if info is None or info.shard is None:
        return None
    return LocalShard(shard=info.shard, shape=info.local_shape)


def _new_distributed(
    library: Library, template: Any, leaf: SavedLeaf, traits: Traits
) -> tuple[Bytes, Get, LocalShard | None]:
    """Memory for this rank's part of a new distributed array, on the mesh of the template."""
    dtype = library.empty(leaf.dtype, (), {}).dtype
    local, make = new_like(template, dtype, leaf.kind[2], traits)
    target, fill = library.receiver(local)

    def get() -> Any:
        fill()
        return make()

    return target, get, _local_shard(make())


def _new_over_processes(
    library: Library, template: Any, leaf: SavedLeaf, traits: Traits
) -> tuple[Bytes, Get, LocalShard | None]:
    """Memory for this process's part of a new array of JAX, on the mesh of the template."""
    dtype = library.empty(leaf.dtype, (), {}).dtype
    sharding = sharding_like(template, traits["mesh_axes"])
    new = empty_array(leaf.kind[2], sharding, dtype)
    target, get = library.receiver(new)
    return target, get, _local_shard(new)


class _Once:
    """Gives the same part however often it is asked for."""

    __slots__ = ("_found", "get")

    def __init__(self) -> None:
        self._found: Any = MISSING
        self.get: Get = lambda: None

    def __call__(self) -> object:
        if self._found is MISSING:
            self._found = self.get()
        return self._found


def _exactly(key: object) -> object:
    """A key with its type: True is not 1 here, and 0.0 is not -0.0."""
    return type(key), repr(key)


def _with_attributes(target: Any, traits: Traits) -> Any:
    """The container or array with the plain attributes that were saved."""
    wanted = {name: plain(node) for name, node in traits.get("attributes", {}).items()}
    for name, item in wanted.items():
        setattr(target, name, item)
    return target


def _as_class(kind: type, array: Any) -> Any:
    return array.view(kind) if library_of(array) is not None and hasattr(array, "view") else array
