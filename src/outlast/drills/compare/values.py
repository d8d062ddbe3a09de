"""Compare trees, arrays and tensors value by value, numbers within a tolerance.

Two numbers agree if they differ by at most the tolerance times the larger of 1 and their sizes.
Tolerance 0 means equal; texts must then be equal too. NaN agrees with NaN.
"""

import contextlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import zipfile

_MEMBERS_MAX = 100_000
_UNPACKED_BYTES_MIN = 1024**3
_UNPACKED_FACTOR_MAX = 100


def agree(one: object, other: object, tolerance: float) -> bool:
    """Whether two plain values agree; within a tolerance, texts may be numbers too."""
    if one == other or (_is_nan(one) and _is_nan(other)):
        return True
    if not tolerance:
        return False
    left, right = _number(one), _number(other)
    if left is None or right is None:
        return False
    try:
        if not (math.isfinite(left) and math.isfinite(right)):
            return left == right or (math.isnan(left) and math.isnan(right))
        return abs(left - right) <= tolerance * max(1, abs(left), abs(right))
    except OverflowError:
        # An integer beyond every float.
        return False


def first_difference(one: object, other: object, tolerance: float, path: str = "") -> str | None:
    """The first difference between two trees of plain values; None if they agree."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in [*one, *(name for name in other if name not in one)]:
            below = f"{path}.{name}" if path else str(name)
            if name not in one or name not in other:
                return f"{below} is only in one of them"
            if found := first_difference(one[name], other[name], tolerance, below):
                return found
        return None
    if _is_list(one) and _is_list(other):
        assert isinstance(one, Sequence) and isinstance(other, Sequence)
        if len(one) != len(other):
            return f"{path or 'it'} has {len(other)} entries, not {len(one)}"
        for index, (left, right) in enumerate(zip(one, other, strict=True)):
            if found := first_difference(left, right, tolerance, f"{path}[{index}]"):
                return found
        return None
    if agree(one, other, tolerance):
        return None
    return f"{path or 'it'} is {_short(other)}, not {_short(one)}"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _number(value: object) -> int | float | None:
    """The number that a value is or spells. Integers are kept, because floats round."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(value)
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def first_differing_array(baseline: Path, evicted: Path, tolerance: float) -> str | None:
    import numpy as np

    for path in (baseline, evicted):
        if (excess := _array_excess(path)) is not None:
            return excess
    left, right = (np.load(path, allow_pickle=False) for path in (baseline, evicted))
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return _differing_array("it", left, right, tolerance)
    with left, right:
        if sorted(left) != sorted(right):
            return "the two have different arrays"
        return _first(
            _differing_array(f"its array {name!r}", left[name], right[name], tolerance)
            for name in sorted(left)
        )


def _array_excess(path: Path) -> str | None:
    """Why arrays are not loaded: a small file can claim an array of any size."""
    import zipfile

    if not zipfile.is_zipfile(path):
        with path.open("rb") as file:
            return _header_excess("it", file, path.stat().st_size)
    with zipfile.ZipFile(path) as archive:
        if (excess := archive_excess(archive)) is not None:
            return excess
        for member in archive.infolist():
            if member.filename.endswith(".npy"):
                with archive.open(member) as content:
                    what = f"its array {member.filename.removesuffix('.npy')!r}"
                    if (excess := _header_excess(what, content, member.file_size)) is not None:
                        return excess
    return None


def _header_excess(what: str, file: IO[bytes], size_bytes: int) -> str | None:
    from numpy.lib import format as npy

    readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
    reader = readers.get(npy.read_magic(file))
    if reader is None:
        return None
    shape, _, dtype = reader(file)
    claimed, present = math.prod(shape) * dtype.itemsize, size_bytes - file.tell()
    if claimed > present:
        return f"{what} claims {claimed:,} bytes of data, but has {present:,}"
    return None


def first_differing_tensor(baseline: Path, evicted: Path, tolerance: float) -> str | None:
    left, right = (dict(_tensors(path)) for path in (baseline, evicted))
    if odd := sorted(set(left) ^ set(right)):
        return f"its tensor {odd[0]!r} is only in one of them"
    for name in sorted(left):
        (kind, one), (other_kind, other) = left[name], right[name]
        if kind != other_kind:
            return f"its tensor {name!r} is {other_kind}, not {kind}"
        if found := _differing_array(f"its tensor {name!r}", one, other, tolerance):
            return found
    return None


def _tensors(path: Path) -> Iterator[tuple[str, tuple[str, Any]]]:
    import numpy as np

    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            kind, (first, last) = entry["dtype"], entry["data_offsets"]
            found = np.frombuffer(data[start + first : start + last], kinds.get(kind, "V1"))
            # Types that NumPy does not have are compared by their bytes.
            yield name, (kind, found.reshape(entry["shape"]) if kind in kinds else found)


def _differing_array(what: str, one: Any, other: Any, tolerance: float) -> str | None:
    import numpy as np

    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{what} is {other.dtype}{other.shape}, not {one.dtype}{one.shape}"
    if not np.issubdtype(one.dtype, np.number):
        return None if np.array_equal(one, other) else f"{what} differs"
    apart = one != other
    if np.issubdtype(one.dtype, np.inexact):
        apart &= ~(np.isnan(one) & np.isnan(other))
    if tolerance:
        apart &= ~_within(one, other, tolerance)
    if not apart.any():
        return None
    place = tuple(int(index) for index in np.argwhere(apart)[0])
    return f"{what} differs at {list(place)}: {other[place]!r}, not {one[place]!r}"


def _within(one: Any, other: Any, tolerance: float) -> Any:
    import numpy as np

    kind = np.result_type(one.dtype, np.float64)
    left, right = one.astype(kind), other.astype(kind)
    with np.errstate(invalid="ignore", over="ignore"):
        distance = abs(left - right)
        if np.issubdtype(one.dtype, np.integer):
            # Floats round large integers. Unsigned, a difference wraps around to the right value.
            large, small = np.maximum(one, other), np.minimum(one, other)
            distance = large.astype(np.uint64) - small.astype(np.uint64)
        near = distance <= tolerance * np.maximum(1.0, np.maximum(abs(left), abs(right)))
    return near & np.isfinite(left) & np.isfinite(right)


def _first(found: Iterator[str | None]) -> str | None:
    return next((one for one in found if one is not None), None)


def archive_excess(archive: "zipfile.ZipFile") -> str | None:
    """Why an archive is not unpacked: a small file can claim any number of bytes."""
    members = archive.infolist()
    if len(members) > _MEMBERS_MAX:
        return f"it has {len(members):,} members; at most {_MEMBERS_MAX:,} are compared"
    unpacked = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    most = max(_UNPACKED_BYTES_MIN, _UNPACKED_FACTOR_MAX * packed)
    if unpacked > most:
        return f"it unpacks to {unpacked:,} bytes; at most {most:,} are compared"
    return None
