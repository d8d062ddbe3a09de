"""A digest of the batches that were consumed, so that a different order never goes unnoticed.

Indices are included exactly. For batches, the digest covers a bounded part of the integers, text
and shapes. Floats may differ in their last bits from one machine to the next, so a few of the
newest batch are kept and compared with a tolerance.
"""

import functools
import math
from array import array
from collections import UserDict
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import xxhash

_ITEMS_MAX = 16
_TEXT_MAX = 256
_DEPTH_MAX = 5
_FRACTIONS_MAX = 16
_ENDS = 4
_TOLERANCE = 1e-3
_FLOATS = {float}
_NUMBERS = (bool, int, complex)
_TEXTS = (str, bytes, bytearray)


class Digest:
    """Grows by what is added to it, in order."""

    def __init__(self) -> None:
        self._hash = xxhash.xxh3_64()

    def add(self, encoded: bytes) -> None:
        # With its length, so that [1, 2], [3] is not [1], [2, 3].
        self._hash.update(len(encoded).to_bytes(8, "little") + encoded)

    def copy(self) -> "Digest":
        twin = Digest()
        twin._hash = self._hash.copy()
        return twin

    def text(self) -> str:
        return self._hash.hexdigest()


def encode_indices(indices: Any) -> bytes:
    """What a sampler yields: as a rule an int, or a list of them."""
    try:
        if type(indices) is list:
            return array("q", indices).tobytes()
        if type(indices) is int:
            return indices.to_bytes(8, "little", signed=True)
    except (TypeError, ValueError, OverflowError):
        pass
    described = Description(indices)
    return described.encoded + repr(described.fractions).encode()


class Description:
    """The part of a batch that is compared: `encoded` exactly, `fractions` approximately."""

    def __init__(self, batch: Any) -> None:
        self.fractions: list[float] = []
        # A list, not generators, because this is done for each batch.
        self._tokens: list[str] = []
        self._describe(batch, 0)
        self.encoded = "\0".join(self._tokens).encode(errors="backslashreplace")

    def _describe(self, thing: Any, depth: int) -> None:
        if type(thing) is np.ndarray:
            self._describe_array(thing)
        elif isinstance(thing, float):
            self._take([thing])
        elif thing is None or isinstance(thing, _NUMBERS):
            self._tokens.append(repr(thing)[:_TEXT_MAX])
        elif isinstance(thing, _TEXTS):
            self._tokens.append(f"{len(thing)}{thing[:_TEXT_MAX]!r}")
        elif hasattr(thing, "dtype") and hasattr(thing, "shape"):
            self._describe_array(thing)
        elif depth < _DEPTH_MAX:
            self._describe_container(thing, depth + 1)

    def _describe_container(self, thing: Any, depth: int) -> None:
        if isinstance(thing, UserDict):
            thing = thing.data
        if is_dataclass(thing) and not isinstance(thing, type):
            thing = {field.name: getattr(thing, field.name, None) for field in fields(thing)}
        if isinstance(thing, dict):
            self._tokens.append(f"d{len(thing)}")
            for _, (key, item) in zip(range(_ITEMS_MAX), thing.items(), strict=False):
                self._describe(key, depth)
                self._describe(item, depth)
        elif isinstance(thing, list | tuple):
            self._tokens.append(f"l{len(thing)}")
            for item in _ends(thing, _ITEMS_MAX // 2):
                self._describe(item, depth)
        else:
            self._tokens.append(type(thing).__qualname__)

    def _describe_array(self, thing: Any) -> None:
        shape = tuple(thing.shape)
        self._tokens.append(f"{_name_of(thing.dtype)}{shape}")
        if 0 in shape:
            return
        if type(thing) is np.ndarray and thing.flags.c_contiguous:
            # Several times as fast, and the same numbers.
            count = min(_ENDS, shape[-1] if shape else 1)
            row = thing.reshape(-1)
            numbers = row[:count].tolist() + row[-count:].tolist()
        # Elsewhere, such as on a GPU, reading a number would make the program wait for it.
        elif str(getattr(thing, "device", "cpu")) != "cpu":
            return
        else:
            above = max(0, len(shape) - 1)
            numbers = thing[(0,) * above][..., None].reshape(-1)[:_ENDS].tolist()
            numbers += thing[(-1,) * above][..., None].reshape(-1)[-_ENDS:].tolist()
        kinds = set(map(type, numbers))
        if kinds == _FLOATS or all(issubclass(kind, float) for kind in kinds):
            self._take(numbers)
        else:
            self._tokens.append(repr(numbers)[:_TEXT_MAX])

    def _take(self, numbers: Sequence[float]) -> None:
        self.fractions += numbers[: _FRACTIONS_MAX - len(self.fractions)]


def are_close(some: Sequence[float], others: Sequence[float]) -> bool:
    """Whether two machines may have computed these from the same data."""
    return len(some) == len(others) and all(
        one == other
        or (math.isnan(one) and math.isnan(other))
        or math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE * _TOLERANCE)
        for one, other in zip(some, others, strict=True)
    )


@functools.lru_cache(256)
def _name_of(dtype: Any) -> str:
    return str(dtype)


def _ends(items: Sequence[Any], count: int) -> Sequence[Any]:
    return items if len(items) <= 2 * count else [*items[:count], *items[-count:]]
