"""The nodes of a state's tree: what each kind means, and how plain values are written.

A node is a JSON scalar, or an object with one key that names its kind: `d` dict, `l` list, `t`
tuple, `s` set, `fs` frozenset, `i` large int, `f` float that JSON lacks, `c` complex, `b` bytes,
`ba` bytearray, `n` NumPy scalar, `a` array (an index into the leaves), `o` object with a
state_dict, `m` the same for a model, whose keys are fixed, `v` an `outlast.value`, `j` a node of a
JAX pytree (the name of its class, what is static in it, and its children with their keys), `jo` the
same if its attributes can be set, `k` a value that is compared but not restored, null if it is not
plain, `y` a pair of traits and the node that has them (see `traits.py`), `r` a reference to a
container or object that occurred earlier (its number among all that can be shared, in the order of
the tree).
Nothing in it names code to run except `p`, a pickle, which is written and read only at paths that
the user lists.
"""

import base64
import math
import struct
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias

import numpy as np

from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.state.arrays import dtype_named, dtype_text
from outlast.checkpoint.state.traits import Traits

TreeNode: TypeAlias = Any
"""A JSON value as described above."""


SHARED = frozenset("d l s ba o m v jo".split())
"""The kinds that can be in two places at once, and change in both."""


SHARED_BITS = "shares_bits_with"
"""The entry of a NumPy generator that names another one, which draws from the same bits."""


TREE_VERSION = 2
"""Version 1 knew neither `y`, `r` nor `m`."""


_SMALL_INT_BITS = 63


def kind_of(node: TreeNode) -> str | None:
    """What a node is; None for a JSON scalar."""
    return next(iter(node)) if isinstance(node, dict) else None


def opened(node: TreeNode) -> tuple[Traits, TreeNode]:
    """The traits of a node, and the node itself."""
    if isinstance(node, dict) and "y" in node:
        traits, inner = node["y"]
        return traits, inner
    return {}, node


class References:
    """What the references in a tree stand for."""

    def __init__(self, root: TreeNode) -> None:
        self._shared: list[TreeNode] = []
        self._numbers: dict[int, int] = {}
        for node, _, inner, kind in walk(root):
            if kind in SHARED:
                self._numbers[id(inner)] = len(self._shared)
                self._shared.append(node)

    def resolved(self, node: TreeNode) -> TreeNode:
        """The node itself, or the one that it refers to, with its traits."""
        return self._shared[node["r"]] if kind_of(node) == "r" else node

    def number_of(self, node: TreeNode) -> int | None:
        """Which of all shared nodes this is, or refers to; None if it cannot be shared."""
        if kind_of(node) == "r":
            number: int = node["r"]
            return number
        return self._numbers.get(id(opened(node)[1]))


def walk(root: TreeNode) -> Iterator[tuple[TreeNode, Traits, TreeNode, str | None]]:
    """Every node that is not a key, in the order of the tree.

    Each comes with its traits, the node itself without them, and the kind of that.
    """
    stack = [root]
    while stack:
        node = stack.pop()
        traits, inner = opened(node)
        kind = kind_of(inner)
        yield node, traits, inner, kind
        if kind == "d":
            stack += [item for _, item in reversed(inner["d"])]
        elif kind in ("l", "t"):
            stack += reversed(inner[kind])
        elif kind in ("o", "m", "v"):
            stack.append(inner[kind])
        elif kind in ("j", "jo"):
            stack += [item for _, item in reversed(inner[kind][2])]


def path_of(parent: str, key: object) -> str:
    if isinstance(key, int):
        return f"{parent}[{key}]"
    return f"{parent}.{key}" if parent else str(key)


def scalar(thing: object, path: str) -> TreeNode:
    """A plain value as a node."""
    if is_json(thing):
        return thing
    if type(thing) is int:
        return {"i": hex(thing)}
    if isinstance(thing, np.generic) and _has_class_of_dtype(thing):
        return {"n": _encode_numpy(thing)}
    if type(thing) is float:
        return thing if math.isfinite(thing) else {"f": _float_text(thing)}
    if type(thing) is complex:
        return {"c": [_float_text(thing.real), _float_text(thing.imag)]}
    if type(thing) is bytes or type(thing) is bytearray:
        return {"b" if type(thing) is bytes else "ba": base64.b64encode(thing).decode()}
    raise unsupported(path, f"a {type(thing).__module__}.{type(thing).__qualname__}")


def plain(node: TreeNode) -> object:
    """The value of a node that holds no array. Raises `ValueError` if it is not such a node."""
    if node is None or isinstance(node, bool | str | int | float):
        return node
    if not isinstance(node, dict) or len(node) != 1:
        raise ValueError(f"not a node: {node!r:.80}")
    ((kind, body),) = node.items()
    if kind not in _DECODERS:
        raise ValueError(f"not a plain value: {kind!r}")
    return _DECODERS[kind](body)


def is_json(thing: object) -> bool:
    if type(thing) is int:
        # Longer numbers are not read back by every reader of JSON, the longest not even by ours.
        return thing.bit_length() <= _SMALL_INT_BITS
    return thing is None or type(thing) is bool or type(thing) is str


def are_json_ints(things: Collection[Any]) -> bool:
    """Whether `is_json` is true of all items, and all are integers."""
    if set(map(type, things)) != {int}:
        return False
    largest: int = max(max(things), -min(things))
    return largest.bit_length() <= _SMALL_INT_BITS


def is_plain(thing: object) -> bool:
    """Whether this is a plain value, or a list, tuple or dict of nothing else."""
    if type(thing) in (list, tuple):
        return all(map(is_plain, thing))  # type: ignore[call-overload]  # one of the two
    if type(thing) is dict:
        return all(is_plain(key) and is_plain(item) for key, item in thing.items())
    if isinstance(thing, np.generic):
        return _has_class_of_dtype(thing)
    return is_json(thing) or type(thing) in (int, float, complex, bytes)


def _has_class_of_dtype(thing: "np.generic[Any]") -> bool:
    """Whether the dtype of a scalar names its class: not that of a subclass, nor of a record."""
    kind = type(thing)
    return kind is thing.dtype.type and kind is not np.record and not thing.dtype.hasobject


def _encode_numpy(thing: "np.generic[Any]") -> list[Any]:
    # In an array, and by `str`, texts and bytes lose the zeros at their end.
    if isinstance(thing, np.str_):
        return ["str", str.__str__(thing)]
    if isinstance(thing, np.bytes_):
        return ["bytes", base64.b64encode(bytes(thing)).decode()]
    return [dtype_text(thing.dtype), base64.b64encode(thing.tobytes()).decode()]


def _decode_numpy(body: Any) -> object:
    dtype, text = body
    if dtype == "str":
        return np.str_(text)
    data = base64.b64decode(text, validate=True)
    if dtype == "bytes":
        return np.bytes_(data)
    # A copy, because what is read in place belongs to a buffer that cannot be written to.
    found: object = np.frombuffer(data, dtype_named(dtype)).copy()[0]
    return found


def _float_text(number: float) -> str:
    """A float to the bit: a NaN has a sign and a payload, which its name does not show."""
    return number.hex() if number == number else f"nan:{struct.pack('>d', number).hex()}"


def _float_of(text: str) -> float:
    if not text.startswith("nan:"):
        return float.fromhex(text)
    (number,) = struct.unpack(">d", bytes.fromhex(text[4:]))
    return float(number)


_DECODERS: dict[str, Callable[[Any], object]] = {
    "i": lambda body: int(body, 16),
    "f": _float_of,
    "c": lambda body: complex(*map(_float_of, body)),
    "b": lambda body: base64.b64decode(body, validate=True),
    "ba": lambda body: bytearray(base64.b64decode(body, validate=True)),
    "n": _decode_numpy,
    "s": lambda body: {plain(item) for item in body},
    "fs": lambda body: frozenset(plain(item) for item in body),
    "t": lambda body: tuple(plain(item) for item in body),
    "l": lambda body: [plain(item) for item in body],
    "d": lambda body: {plain(key): plain(item) for key, item in body},
}


def unsupported(path: str, what: str) -> UnsupportedState:
    return UnsupportedState(
        f"The state holds {what} at {path or 'its root'!r}, which cannot be saved.",
        hint="Wrap it in outlast.value(get, set), with functions that return and accept plain "
        "values, or list it in may_pickle.",
    )
