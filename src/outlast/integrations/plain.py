"""Attributes of a program's objects as plain containers, arrays and values, and back."""

from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any

import numpy as np

SCALARS = (type(None), bool, int, float, str, bytes)
_DICTS = (dict, defaultdict, OrderedDict, Counter)
_NODES_MAX = 20_000
_BYTES_MAX = 65_536


class NotPlain(Exception):
    """An object consists of more than containers, arrays and values, or is large."""


def encoded(thing: Any) -> Any:
    """A copy of the containers, which keeps the arrays. Raises `NotPlain`."""
    return _Encoder().encode(thing)


class _Encoder:
    def __init__(self) -> None:
        self._left = _NODES_MAX

    def encode(self, thing: Any) -> Any:
        self._left -= 1
        kind = type(thing)
        if kind in SCALARS or is_array(thing):
            return thing
        if self._left < 0:
            raise NotPlain
        if kind in _DICTS:
            if not all(type(key) in SCALARS for key in thing):
                raise NotPlain
            return {key: self.encode(item) for key, item in thing.items()}
        if kind is list or kind is deque:
            return [self.encode(item) for item in thing]
        if kind is tuple:
            return tuple(self.encode(item) for item in thing)
        if kind in (set, frozenset) and all(type(item) in SCALARS for item in thing):
            return set(thing)
        raise NotPlain


def filled(live: Any, saved: Any) -> Any:
    """What an attribute becomes: the same container with other contents, where there is one."""
    if type(live) in _DICTS and isinstance(saved, dict):
        for key in [key for key in live if key not in saved]:
            del live[key]
        for key, item in saved.items():
            # A defaultdict makes the containers that it wants.
            has_template = key in live or type(live) is defaultdict
            live[key] = filled(live[key], item) if has_template else item
        return live
    if type(live) is list and type(saved) is list:
        live[:] = saved
        return live
    if type(live) is deque and type(saved) is list:
        live.clear()
        live.extend(saved)
        return live
    if type(live) is frozenset and type(saved) is set:
        return frozenset(saved)
    if is_tensor(live) and is_tensor(saved):
        return saved.to(live.device)
    return saved


def separated(thing: Any) -> Any:
    """Copy small arrays in something encoded, so that it shares no memory with what changes."""
    if isinstance(thing, dict):
        return {key: separated(one) for key, one in thing.items()}
    if type(thing) in (list, tuple):
        return type(thing)(map(separated, thing))
    if not is_array(thing):
        return thing
    if is_tensor(thing):
        thing = thing.detach()
        return thing.clone() if thing.nbytes <= _BYTES_MAX else thing
    return thing.copy() if thing.nbytes <= _BYTES_MAX else thing


def is_same(one: Any, other: Any) -> bool:
    """Whether something encoded has not changed. Unknown for a large array, which may have."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if is_array(one):
        return _is_same_array(one, other)
    # Not a number is not equal to itself.
    return bool(one == other or (one != one and other != other))


def _is_same_array(one: Any, other: Any) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape or one.nbytes > _BYTES_MAX:
        return False
    if is_tensor(one):
        if one.device != other.device:
            return False
        return bool(((one == other) | ((one != one) & (other != other))).all())
    return bool(one.tobytes() == other.tobytes())


def is_tensor(thing: Any) -> bool:
    return type(thing).__module__ == "torch" and type(thing).__name__ == "Tensor"


def is_array(thing: Any) -> bool:
    """Whether something is a tensor or an array of NumPy, and not a subclass with more to it."""
    return is_tensor(thing) or isinstance(thing, np.generic) or type(thing) is np.ndarray
