"""What the containers and arrays of a loader hold: read, compared, and put back.

A content is small and plain, so that it can be saved with the position: `{"list": [...]}` and so on
for each kind. Items that are not plain, such as other containers, are stand-ins here; they have
contents of their own. What is too large to be saved is only sampled, to notice that it changes.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import xxhash

Content: TypeAlias = dict[str, Any]
"""One entry: the kind of the container, and what it holds."""

ITEMS_MAX = 4096
NUMBERS_MAX = 131_072
_TEXT_MAX = 256 * 1024
_BYTES_MAX = 1024**2
_SAMPLES = 256
_SCALARS = frozenset({bool, int, float, complex, str, bytes, type(None)})
# A container cannot hold a dict as a plain item, so this can only mean a part of its own.
_PART: dict[str, Any] = {}


class ContainerSample(NamedTuple):
    """Some of what a container holds, to compare within one process.

    `parts` are the identities of the items that are not plain. `thing` is the container's own.
    """

    thing: int
    kind: str
    length: int
    digest: str
    parts: tuple[int, ...]


def is_scalar(thing: object) -> bool:
    """Whether something is a plain value that cannot change. Subclasses, such as enums, are not."""
    return type(thing) in _SCALARS or (isinstance(thing, np.generic) and not thing.dtype.hasobject)


def is_plain(thing: object, depth: int = 0) -> bool:
    """A scalar, or a short tuple of them."""
    if type(thing) is tuple and len(thing) <= 16 and depth < 4:
        return all(is_plain(item, depth + 1) for item in thing)
    return is_scalar(thing)


def kind_of(thing: object) -> str | None:
    """The kind of a container or array whose content may change; None for all else."""
    for kind, types in _CONTAINERS.items():
        if isinstance(thing, types):
            return kind
    if isinstance(thing, np.ndarray):
        # Looking into a mapped file would read from the disk.
        is_fixed = isinstance(thing, np.memmap) or thing.dtype.hasobject
        return None if is_fixed or not thing.flags.writeable else "array"
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(thing, torch.Tensor):
        is_here = thing.is_cpu and thing.layout is torch.strided and not thing.is_quantized
        return "tensor" if is_here else None
    return None


def size_of(thing: Any, kind: str) -> int:
    """How many items reading the content takes."""
    if kind == "array":
        return int(thing.nbytes) // 8
    return int(thing.nbytes) // 8 if kind == "tensor" else len(thing)


def read(thing: Any, kind: str) -> Content | None:
    """The content, copied; None if it is too large to be saved, or has keys that cannot be."""
    if kind in ("array", "tensor"):
        if thing.nbytes > _BYTES_MAX:
            return None
        return {kind: thing.copy() if kind == "array" else thing.detach().clone()}
    if kind == "bytearray":
        return {kind: bytes(thing)} if len(thing) <= _TEXT_MAX else None
    if len(thing) > NUMBERS_MAX:
        return None
    if kind in ("list", "deque") and len(thing) > 8 and set(map(type, thing)) == {int}:
        return _numbers(thing, kind)
    if len(thing) > ITEMS_MAX or (kind == "dict" and not all(map(is_plain, list(thing)))):
        return None
    items = _items(thing, kind)
    return None if _text_length(items) > _TEXT_MAX else {kind: items}


def holds_parts(content: Content) -> bool:
    """Whether some items have contents of their own."""
    ((kind, body),) = content.items()
    if kind == "dict":
        return any(_is_part(item) for _, item in body)
    return kind in ("list", "deque", "set") and any(map(_is_part, body))


def put(thing: Any, content: Content) -> bool:
    """Give a container its content back, in place. False if it does not fit there."""
    ((kind, body),) = content.items()
    if kind != kind_of(thing):
        return False
    return _PUT[kind](thing, body)


def sample(thing: Any, kind: str) -> ContainerSample:
    """What a container holds, or some of it, quickly at any size."""
    if kind in ("array", "tensor"):
        size = _size(thing, kind)
        return ContainerSample(id(thing), kind, size, _digest([_some_numbers(thing, kind)]), ())
    items = list(_some_items(thing, kind))
    tokens = [repr(item)[:200] if is_plain(item) else type(item).__qualname__ for item in items]
    return ContainerSample(id(thing), kind, len(thing), _digest(tokens), _parts(items))


def sample_of_parts(thing: Any, kind: str) -> ContainerSample:
    """The same for a container whose plain items are saved: only its parts."""
    parts = _parts(_some_items(thing, kind))
    return ContainerSample(id(thing), kind, len(parts), "", parts)


def is_changed(before: ContainerSample, after: ContainerSample) -> bool:
    """Whether a container holds something else now. New parts in the old places are not a change,
    because what is made again for each epoch says nothing; the old parts in other places are."""
    if before[1:] == after[1:]:
        return False
    if before[1:4] != after[1:4]:
        return True
    return len(before.parts) == _SAMPLES or sorted(before.parts) == sorted(after.parts)


def is_cache(after: ContainerSample) -> bool:
    """Whether something looks like what is kept to save time, and decides nothing."""
    return after.kind == "dict" or bool(after.parts)


def _numbers(thing: Iterable[int], kind: str) -> Content | None:
    try:
        return {kind: np.array(list(thing), np.int64)}
    except OverflowError:
        return None


def _items(thing: Any, kind: str) -> list[Any]:
    if kind == "dict":
        return [[key, item if is_plain(item) else _PART] for key, item in list(thing.items())]
    items = [item if is_plain(item) else _PART for item in list(thing)]
    # A set has another order in each process.
    return sorted(items, key=repr) if kind == "set" else items


def _text_length(thing: Any) -> int:
    if isinstance(thing, list | tuple):
        return sum(map(_text_length, thing))
    return len(thing) if isinstance(thing, str | bytes) else 8


def _is_part(item: Any) -> bool:
    return isinstance(item, dict)


def _put_list(thing: Any, body: Any) -> bool:
    now = list(thing)
    if isinstance(body, np.ndarray):
        restored: list[Any] = body.tolist()
    else:
        if any(
            _is_part(item) and (number >= len(now) or is_plain(now[number]))
            for number, item in enumerate(body)
        ):
            return False
        restored = [now[number] if _is_part(item) else item for number, item in enumerate(body)]
    thing.clear()
    thing.extend(restored)
    return True


def _put_dict(thing: Any, body: Any) -> bool:
    now = dict(thing)
    if any(_is_part(item) and (key not in now or is_plain(now[key])) for key, item in body):
        return False
    thing.clear()
    for key, item in body:
        thing[key] = now[key] if _is_part(item) else item
    return True


def _put_set(thing: Any, body: Any) -> bool:
    if any(map(_is_part, body)) or not all(map(is_plain, thing)):
        return False
    thing.clear()
    thing.update(body)
    return True


def _put_bytes(thing: Any, body: Any) -> bool:
    thing[:] = body
    return True


def _put_array(thing: Any, body: Any) -> bool:
    if (thing.shape, thing.dtype) != (body.shape, body.dtype):
        return False
    np.copyto(thing, body)
    return True


def _put_tensor(thing: Any, body: Any) -> bool:
    if (thing.shape, thing.dtype) != (body.shape, body.dtype):
        return False
    thing.detach().copy_(body)
    return True


_CONTAINERS: dict[str, type[Any] | tuple[type[Any], ...]] = {
    "list": list,
    "dict": dict,
    "deque": deque,
    "set": set,
    "bytearray": bytearray,
}
_PUT: dict[str, Callable[[Any, Any], bool]] = {
    "list": _put_list,
    "deque": _put_list,
    "dict": _put_dict,
    "set": _put_set,
    "bytearray": _put_bytes,
    "array": _put_array,
    "tensor": _put_tensor,
}


def _parts(items: Iterable[Any]) -> tuple[int, ...]:
    return tuple(id(item) for item in items if not is_plain(item))


def _size(thing: Any, kind: str) -> int:
    return int(thing.size if kind == "array" else thing.numel())


def _some_items(thing: Any, kind: str) -> Iterable[Any]:
    if kind == "set":
        # In another order in each process, so either all of it or none.
        return sorted(filter(is_plain, thing), key=repr) if len(thing) <= _SAMPLES else []
    if kind == "dict":
        # The oldest entries and the newest, as a dict is in the order in which it grew.
        keys = [key for _, key in zip(range(_SAMPLES), thing, strict=False)]
        keys += [key for _, key in zip(range(_SAMPLES), reversed(thing), strict=False)]
        return [part for key in keys for part in (key, thing.get(key))]
    if len(thing) <= _SAMPLES or kind == "deque":
        return [item for _, item in zip(range(_SAMPLES), thing, strict=False)]
    return [thing[int(number)] for number in np.linspace(0, len(thing) - 1, _SAMPLES)]


def _some_numbers(thing: Any, kind: str) -> str:
    size = _size(thing, kind)
    described = f"{thing.dtype}{tuple(thing.shape)}"
    if not size:
        return described
    places = np.unique(np.linspace(0, size - 1, min(size, _SAMPLES)).astype(np.int64))
    if kind == "array":
        return described + str(thing.flat[places].tobytes())
    torch = sys.modules["torch"]
    try:
        found = torch.take(thing.detach(), torch.from_numpy(places))
        return described + str(found.contiguous().view(torch.uint8).numpy().tobytes())
    except (RuntimeError, TypeError):
        # Not every dtype can be picked from.
        return described


def _digest(tokens: Iterable[str]) -> str:
    return xxhash.xxh3_64_hexdigest("\0".join(tokens).encode(errors="backslashreplace"))
