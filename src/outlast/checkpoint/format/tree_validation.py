"""Check the tree of a manifest: known nodes, a bounded depth, every array in its place. Pure."""

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from outlast.checkpoint.format.dtype_sizes import item_bytes
from outlast.checkpoint.format.validation import (
    AXES_MAX,
    BYTES_MAX,
    InvalidManifest,
    checked_int,
    short,
)
from outlast.checkpoint.state.nodes import SHARED, TreeNode, plain

# A state is at most 100 deep when it is written; the rest leaves room for other versions.
DEPTH_MAX = 200

_NAN = re.compile(r"nan:[0-9a-f]{16}")
_HEX_NUMBER = re.compile(r"-?0x[0-9a-f]+")
_SMALL_INT = 2**63


def check_root(root: object, leaf_count: int) -> None:
    """Check the tree: nodes of known kinds, not too deep, and every leaf in its place."""
    if type(root) is not dict or list(root) != ["d"]:
        raise InvalidManifest("the tree does not start with a dict")
    walk = _TreeWalk(leaf_count)
    walk.node(root, 0)
    if len(walk.leaves_seen) != leaf_count:
        raise InvalidManifest(f"{leaf_count - len(walk.leaves_seen)} leaves are not in the tree")


class _TreeWalk:
    """Walks through a tree and notes which leaves it has seen."""

    def __init__(self, leaf_count: int) -> None:
        self._leaf_count = leaf_count
        self._shared_count = 0
        self._open: set[int] = set()
        self.leaves_seen: set[int] = set()

    def node(self, node: TreeNode, depth: int, *, forbidden: Iterable[str] = ()) -> None:
        kind_of = type(node)
        if node is None or kind_of is str or kind_of is bool or kind_of is float:
            return
        if kind_of is int:
            if not -_SMALL_INT <= node < _SMALL_INT:
                raise InvalidManifest("the tree contains a bare integer of more than 64 bits")
            return
        if kind_of is not dict or len(node) != 1:
            raise InvalidManifest(f"the tree contains {short(node)}, which is not a node")
        if depth > DEPTH_MAX:
            raise InvalidManifest(f"the tree is deeper than {DEPTH_MAX} levels")
        ((kind, body),) = node.items()
        if kind not in KINDS or kind in forbidden:
            raise InvalidManifest(f"the tree contains a node of the kind {short(kind)}")
        if kind not in SHARED:
            KINDS[kind](self, body, depth + 1)
            return
        number = self._shared_count
        self._shared_count += 1
        self._open.add(number)
        KINDS[kind](self, body, depth + 1)
        self._open.discard(number)

    def reference(self, body: Any, depth: int) -> None:
        """A reference to a part that comes before it and is complete."""
        number = checked_int(body, "a reference in the tree", most=self._shared_count - 1)
        if number in self._open:
            raise InvalidManifest("the tree contains a part that contains itself")

    def with_traits(self, body: Any, depth: int) -> None:
        if type(body) is not list or len(body) != 2:
            raise InvalidManifest(f"the tree contains the traits {short(body)}")
        traits, node = body
        if type(node) is not dict or next(iter(node), None) not in _WITH_TRAITS:
            raise InvalidManifest(f"the tree contains traits of {short(node)}")
        for name, value in _typed(dict, traits).items():
            if name not in TRAITS or not TRAITS[name](value):
                raise InvalidManifest(f"the tree contains the trait {short(name)}: {short(value)}")
        self.node(node, depth)

    def items(self, body: Any, depth: int) -> None:
        for item in _typed(list, body):
            self.node(item, depth)

    def members(self, body: Any, depth: int) -> None:
        """The members of a set: nothing mutable, so no arrays either."""
        for item in _typed(list, body):
            self.node(item, depth, forbidden=_UNHASHABLE)

    def pairs(self, body: Any, depth: int) -> None:
        keys: set[object] = set()
        for pair in _typed(list, body):
            if type(pair) is not list or len(pair) != 2:
                raise InvalidManifest(f"a dict in the tree contains {short(pair)}")
            key, item = pair
            self.node(key, depth, forbidden=_UNHASHABLE)
            keys.add(key if type(key) is str else _key(key))
            self.node(item, depth)
        if len(keys) != len(body):
            raise InvalidManifest("a dict in the tree has the same key twice")

    def pytree(self, body: Any, depth: int) -> None:
        """A class by name, what is static in it, and the children with their keys."""
        _expect(len(_typed(list, body)) == 3 and type(body[0]) is str, "pytree", body)
        self.constant(body[1], depth)
        for pair in _typed(list, body[2]):
            is_pair = type(pair) is list and len(pair) == 2
            _expect(is_pair and type(pair[0]) in (str, int), "child of a pytree", pair)
            self.node(pair[1], depth)

    def constant(self, body: Any, depth: int) -> None:
        """What is only compared: plain values and tuples of them, nothing that can be shared."""
        if type(body) is dict and list(body) == ["t"] and depth <= DEPTH_MAX:
            for item in _typed(list, body["t"]):
                self.constant(item, depth + 1)
        else:
            self.node(body, depth, forbidden=KINDS.keys() - _CONSTANT)

    def array(self, body: Any, depth: int) -> None:
        index = checked_int(body, "the index of a leaf in the tree", most=self._leaf_count - 1)
        self.leaves_seen.add(index)

    def integer(self, body: Any, depth: int) -> None:
        _expect(bool(_HEX_NUMBER.fullmatch(_typed(str, body))), "integer", body)

    def no_number(self, body: Any, depth: int) -> None:
        _expect(body in ("nan", "inf", "-inf") or _is_nan(body), "float", body)

    def complex(self, body: Any, depth: int) -> None:
        _expect(len(_typed(list, body)) == 2, "complex number", body)
        for part in body:
            try:
                _is_nan(part) or float.fromhex(_typed(str, part))
            except (ValueError, OverflowError):
                _expect(False, "complex number", body)

    def bytes(self, body: Any, depth: int) -> None:
        _decoded(body)

    def numpy(self, body: Any, depth: int) -> None:
        _expect(len(_typed(list, body)) == 2, "NumPy scalar", body)
        dtype, text = _typed(str, body[0]), _typed(str, body[1])
        if dtype == "str":
            return
        size = len(_decoded(text))
        _expect(dtype == "bytes" or size == item_bytes("numpy", dtype), "NumPy scalar", body)


KINDS: Mapping[str, Callable[[_TreeWalk, Any, int], None]] = {
    "d": _TreeWalk.pairs,
    "l": _TreeWalk.items,
    "t": _TreeWalk.items,
    "s": _TreeWalk.members,
    "fs": _TreeWalk.members,
    "i": _TreeWalk.integer,
    "f": _TreeWalk.no_number,
    "c": _TreeWalk.complex,
    "b": _TreeWalk.bytes,
    "ba": _TreeWalk.bytes,
    "n": _TreeWalk.numpy,
    "a": _TreeWalk.array,
    "o": _TreeWalk.node,
    "m": _TreeWalk.node,
    "v": _TreeWalk.node,
    "j": _TreeWalk.pytree,
    "jo": _TreeWalk.pytree,
    "k": _TreeWalk.constant,
    "y": _TreeWalk.with_traits,
    "r": _TreeWalk.reference,
    "p": _TreeWalk.bytes,
}
"""The kinds of nodes (see `tree.py`), each with what checks its content."""

_UNHASHABLE = frozenset("d l s ba a o m v y r p j jo k".split())
_CONSTANT = frozenset("i f c b n k".split())
_WITH_TRAITS = frozenset({"d", "l", "t", "s", "fs", "a"})


def _is_nan(value: object) -> bool:
    return isinstance(value, str) and _NAN.fullmatch(value) is not None


def _is_order(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) <= AXES_MAX
        and all(type(axis) is int for axis in value)
        and sorted(value) == list(range(len(value)))
    )


def _is_view(value: object) -> bool:
    return (
        isinstance(value, list)
        and [type(part) for part in value] == [str, int]
        and abs(value[1]) < BYTES_MAX
    )


def _is_attributes(value: object) -> bool:
    return isinstance(value, dict) and all(
        node is None or isinstance(node, bool | int | float | str) or _is_bytes_or_float(node)
        for node in value.values()
    )


def _is_bytes_or_float(node: object) -> bool:
    if not isinstance(node, dict) or len(node) != 1:
        return False
    ((kind, body),) = node.items()
    if kind not in ("b", "f", "i"):
        return False
    KINDS[kind](_TreeWalk(0), body, 0)
    return True


_PLACEMENT = re.compile(r"replicate|shard \d{1,3}")

TRAITS: Mapping[str, Callable[[Any], bool]] = {
    "class": lambda value: isinstance(value, str),
    "factory": lambda value: value is None or isinstance(value, str),
    "attributes": _is_attributes,
    "grad": lambda value: isinstance(value, bool),
    "frozen": lambda value: isinstance(value, list) and all(isinstance(n, str) for n in value),
    "key": lambda value: isinstance(value, str),
    "weak": lambda value: value is True,
    "order": _is_order,
    "placements": lambda value: (
        isinstance(value, list)
        and all(isinstance(n, str) and _PLACEMENT.fullmatch(n) for n in value)
    ),
    "mesh_axes": lambda value: (
        isinstance(value, list)
        and all(isinstance(names, list) for names in value)
        and all(isinstance(name, str) for names in value for name in names)
    ),
    "memory": _is_view,
    # As earlier versions wrote it.
    "view": _is_view,
}
"""What a part can be besides its content (see `traits.py`), each with what checks it."""


def _key(node: TreeNode) -> object:
    """A value that is equal for equal keys of a dict."""
    try:
        found = plain(node)
        hash(found)
    except Exception:
        # The scalar of a package that is not loaded here: only its text can be compared.
        return repr(node)
    return found


def _typed(kind: type, body: Any) -> Any:
    if type(body) is not kind:
        raise InvalidManifest(f"a node in the tree contains {short(body)}")
    return body


def _decoded(body: Any) -> bytes:
    try:
        return base64.b64decode(_typed(str, body), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidManifest(f"a node in the tree contains {short(body)} as bytes") from None


def _expect(truth: bool, what: str, body: object) -> None:
    if not truth:
        raise InvalidManifest(f"a node in the tree contains {short(body)} as a {what}")
