"""Batches and attributes of a trainer as plain containers, arrays and values, and back."""

from collections import OrderedDict, UserDict, defaultdict, deque
from importlib import import_module
from typing import Any

import numpy as np

from outlast.checkpoint.errors import UnsupportedState

_SCALARS = (type(None), bool, int, float, str, bytes)
_DICTS = (dict, defaultdict, OrderedDict)
_NODES_MAX = 20_000
# Classes of transformers that collators return: a dict with another name.
_BATCHES = {
    "transformers.tokenization_utils_base.BatchEncoding",
    "transformers.feature_extraction_utils.BatchFeature",
    "transformers.image_processing_base.BatchFeature",
}


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
        if kind in _SCALARS or _is_array(thing):
            return thing
        if self._left < 0:
            raise NotPlain
        if kind in _DICTS:
            if not all(type(key) in _SCALARS for key in thing):
                raise NotPlain
            return {key: self.encode(item) for key, item in thing.items()}
        if kind is list or kind is deque:
            return [self.encode(item) for item in thing]
        if kind is tuple:
            return tuple(self.encode(item) for item in thing)
        if kind in (set, frozenset) and all(type(item) in _SCALARS for item in thing):
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
    if _is_tensor(live) and _is_tensor(saved):
        return saved.to(live.device)
    return saved


def is_same(one: Any, other: Any) -> bool:
    """Whether two encoded things are equal. Arrays are if they are the same object."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if _is_array(one):
        return one is other
    return bool(one == other)


def encoded_batch(batch: Any) -> Any:
    """A batch of a collator as plain containers. Raises `UnsupportedState` with what it holds."""
    kind = type(batch)
    if kind in _SCALARS or _is_array(batch):
        return batch
    if kind is dict:
        return {"dict": [[key, encoded_batch(item)] for key, item in batch.items()]}
    if _name(kind) in _BATCHES:
        # Without what a tokenizer knows of the texts, which no model takes.
        items = [[key, encoded_batch(item)] for key, item in batch.items()]
        return {"class": _name(kind), "dict": items}
    if kind in (list, tuple):
        return {kind.__name__: [encoded_batch(item) for item in batch]}
    raise UnsupportedState(
        f"The data collator returns a {_name(kind)}, which cannot be saved with the batch that was "
        "drawn ahead.",
        hint="Let the collator return dicts, lists and tensors, or pass mode='files' to durable.",
    )


def decoded_batch(saved: Any) -> Any:
    """The batch again."""
    if not isinstance(saved, dict):
        return saved
    if "list" in saved:
        return [decoded_batch(item) for item in saved["list"]]
    if "tuple" in saved:
        return tuple(decoded_batch(item) for item in saved["tuple"])
    items = {key: decoded_batch(item) for key, item in saved["dict"]}
    name = saved.get("class")
    if name is None:
        return items
    if name not in _BATCHES:
        raise ValueError(f"unknown kind of batch: {name!r}")
    module, _, kind = name.rpartition(".")
    batch: UserDict[str, Any] = getattr(import_module(module), kind)(items)
    return batch


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _is_tensor(thing: Any) -> bool:
    return type(thing).__module__ == "torch" and type(thing).__name__ == "Tensor"


def _is_array(thing: Any) -> bool:
    return _is_tensor(thing) or isinstance(thing, np.generic) or type(thing) is np.ndarray
