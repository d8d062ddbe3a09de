"""A state as a tree of JSON with the arrays taken out.

Pure: reads the state, copies no array. A node is a JSON scalar, or an object with one key that
says what it is: `d` dict, `l` list, `t` tuple, `s` set, `fs` frozenset, `i` large int, `f` float
that JSON lacks, `c` complex, `b` bytes, `ba` bytearray, `n` NumPy scalar, `a` array (an index into
the leaves), `o` object with a state_dict, `v` an `outlast.value`. Nothing in it names code to run,
but for `p`, a pickle, which is written and read only where the user names its path.
"""

import base64
import math
import pickle
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from outlast.checkpoint.arrays import Library, dtype_named, dtype_text, library_of
from outlast.checkpoint.errors import UnsupportedState
from outlast.checkpoint.randomness import as_value

Node: TypeAlias = Any
"""A JSON value as described above."""

_DEPTH_MAX = 100
_SMALL_INT_BITS = 63


@dataclass(frozen=True, kw_only=True, slots=True)
class Leaf:
    """An array of the state: where it stands, what it is, and the array itself."""

    path: str
    library: Library
    dtype: str
    shape: tuple[int, ...]
    nbytes: int
    array: Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Tree:
    """A state, taken apart. Tied arrays are one leaf."""

    root: Node
    leaves: tuple[Leaf, ...]


def capture(state: object, *, may_pickle: Collection[str] = ()) -> Tree:
    """Take a state apart. Raises `UnsupportedState` with the path of what cannot be written."""
    capturing = _Capture(may_pickle)
    root = capturing.node(state, "")
    return Tree(root=root, leaves=tuple(capturing.leaves))


def path_of(parent: str, key: object) -> str:
    if isinstance(key, int):
        return f"{parent}[{key}]"
    return f"{parent}.{key}" if parent else str(key)


def has_state_dict(thing: object) -> bool:
    return callable(getattr(thing, "state_dict", None)) and callable(
        getattr(thing, "load_state_dict", None)
    )


class _Capture:
    def __init__(self, may_pickle: Collection[str]) -> None:
        self.leaves: list[Leaf] = []
        self._may_pickle = may_pickle
        self._index: dict[object, int] = {}

    def node(self, thing: object, path: str, depth: int = 0) -> Node:
        if depth > _DEPTH_MAX:
            raise UnsupportedState(
                f"The state is nested deeper than {_DEPTH_MAX} levels at {path[:200]!r}.",
                hint="Does a container hold itself?",
            )
        if path in self._may_pickle:
            return {"p": _pickled(thing, path)}
        if _is_json(thing):
            return thing
        if (found := as_value(thing)) is not None:
            return {"v": self.node(found.get(), path, depth + 1)}
        if (library := library_of(thing)) is not None:
            return {"a": self._leaf(library, thing, path)}
        if has_state_dict(thing):
            return {"o": self.node(thing.state_dict(), path, depth + 1)}  # type: ignore[attr-defined]  # asked just above
        return self._container(thing, path, depth) if _is_container(thing) else scalar(thing, path)

    def _container(self, thing: object, path: str, depth: int) -> Node:
        if isinstance(thing, Mapping):
            return {
                "d": [
                    [self._key(key, path), self.node(item, path_of(path, key), depth + 1)]
                    for key, item in thing.items()
                ]
            }
        if isinstance(thing, set | frozenset):
            # Sorted, because the order of a set differs from one process to the next.
            items = sorted((self._key(item, path) for item in thing), key=repr)
            return {"s" if isinstance(thing, set) else "fs": items}
        assert isinstance(thing, list | tuple)
        items = [
            self.node(item, path_of(path, number), depth + 1) for number, item in enumerate(thing)
        ]
        return {"t" if isinstance(thing, tuple) else "l": items}

    def _key(self, key: object, path: str) -> Node:
        if isinstance(key, tuple):
            return {"t": [self._key(item, path) for item in key]}
        return scalar(key, path)

    def _leaf(self, library: Library, array: Any, path: str) -> int:
        try:
            dtype, shape = library.describe(array)
            identity = library.identity(array)
        except (ValueError, RuntimeError) as error:
            raise unsupported(path, str(error)) from error
        if identity in self._index:
            return self._index[identity]
        self._index[identity] = len(self.leaves)
        self.leaves.append(
            Leaf(
                path=path,
                library=library,
                dtype=dtype,
                shape=shape,
                nbytes=int(array.nbytes),
                array=array,
            )
        )
        return self._index[identity]


def scalar(thing: object, path: str) -> Node:
    """A plain value as a node."""
    if _is_json(thing):
        return thing
    if type(thing) is int:
        return {"i": hex(thing)}
    if isinstance(thing, np.generic) and not thing.dtype.hasobject:
        return {"n": _encode_numpy(thing)}
    if type(thing) is float:
        return thing if math.isfinite(thing) else {"f": repr(thing)}
    if type(thing) is complex:
        return {"c": [thing.real.hex(), thing.imag.hex()]}
    if type(thing) is bytes or type(thing) is bytearray:
        return {"b" if type(thing) is bytes else "ba": base64.b64encode(thing).decode()}
    raise unsupported(path, f"a {type(thing).__module__}.{type(thing).__qualname__}")


def plain(node: Node) -> object:
    """The value of a node that holds no array. Raises `ValueError` if it is not such a node."""
    if node is None or isinstance(node, bool | str | int | float):
        return node
    if not isinstance(node, dict) or len(node) != 1:
        raise ValueError(f"not a node: {node!r:.80}")
    ((kind, body),) = node.items()
    if kind not in _DECODERS:
        raise ValueError(f"not a plain value: {kind!r}")
    return _DECODERS[kind](body)


def _pickled(thing: object, path: str) -> str:
    try:
        return base64.b64encode(pickle.dumps(thing)).decode()
    except Exception as error:  # a pickle calls code of the object's own, which may raise anything
        raise unsupported(path, f"what cannot be pickled either ({error})") from error


def _is_json(thing: object) -> bool:
    if type(thing) is int:
        # Longer numbers are not read back by every reader of JSON, the longest not even by ours.
        return thing.bit_length() <= _SMALL_INT_BITS
    return thing is None or type(thing) is bool or type(thing) is str


def _encode_numpy(thing: "np.generic[Any]") -> list[Any]:
    # In an array, texts and bytes lose the zeros at their end.
    if isinstance(thing, np.str_):
        return ["str", str(thing)]
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


_DECODERS: dict[str, Callable[[Any], object]] = {
    "i": lambda body: int(body, 16),
    "f": float,
    "c": lambda body: complex(float.fromhex(body[0]), float.fromhex(body[1])),
    "b": lambda body: base64.b64decode(body, validate=True),
    "ba": lambda body: bytearray(base64.b64decode(body, validate=True)),
    "n": _decode_numpy,
    "s": lambda body: {plain(item) for item in body},
    "fs": lambda body: frozenset(plain(item) for item in body),
    "t": lambda body: tuple(plain(item) for item in body),
    "l": lambda body: [plain(item) for item in body],
    "d": lambda body: {plain(key): plain(item) for key, item in body},
}


def _is_container(thing: object) -> bool:
    return isinstance(thing, Mapping | list | tuple | set | frozenset)


def unsupported(path: str, what: str) -> UnsupportedState:
    return UnsupportedState(
        f"The state holds {what} at {path or 'its root'!r}, which cannot be written.",
        hint="Wrap it in outlast.value(get, set), with functions that give and take plain values, "
        "or name it in may_pickle.",
    )
