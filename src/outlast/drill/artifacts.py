"""Compare what the two legs have made, file by file, by content.

Bit for bit first. Where the bits differ: files of rows are compared row by row in any order (see
`items`), archives member by member, pickles by what they stand for, JSON, text and arrays leaf by
leaf within the tolerance. All else is compared by its bits alone. Nothing is unpickled.
"""

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outlast.drill import formats, rows
from outlast.drill.items import ItemDifference, compare_items
from outlast.drill.pickles import same_pickles
from outlast.drill.rows import parse_address, read_tables
from outlast.drill.tolerance import agree, first_difference

if TYPE_CHECKING:
    import zipfile

_CHUNK_BYTES = 1024**2
_PICKLES = (".pkl", ".pickle")
_TORCH_PICKLE = "data.pkl"
_TORCH_ID = ".data/serialization_id"
_TEXTS = frozenset({".txt", ".log", ".md", ".yaml", ".yml", ".toml", ".xml", ".html", ""})


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """One artifact. `difference` is None if the two are the same; `how` says in which way.

    `items` is there for files of rows. `torn` says why the disturbed one is not whole.
    """

    name: str
    how: str = "bit for bit"
    difference: str | None = None
    missing: bool = False
    torn: str | None = None
    items: tuple[ItemDifference, ...] = ()


def compare(
    name: str, calm: Path, disturbed: Path, *, tolerance: float = 0.0, key: str | None = None
) -> Comparison:
    """Compare an artifact of the baseline with that of the disturbed leg.

    `name` is the address as the user gave it. Raises `DrillError` for a selection that is not
    there.
    """
    if not disturbed.exists():
        return Comparison(name=name, missing=True, difference="it is not there")
    if calm.is_dir() and disturbed.is_dir():
        return _compare_folders(name, calm, disturbed, tolerance)
    if disturbed.is_dir() != calm.is_dir():
        return Comparison(name=name, difference="one of them is a folder")
    address = parse_address(name)
    if rows.holds_rows(address.path):
        return _compare_rows(name, calm, disturbed, tolerance, key)
    offset = first_differing_byte(calm, disturbed)
    if offset is None:
        return Comparison(name=name)
    reason = formats.torn(disturbed)
    if reason is not None and formats.torn(calm) is None:
        return Comparison(name=name, torn=reason, difference=f"it is torn: {reason}")
    return _compare_contents(name, calm, disturbed, tolerance, offset)


def first_differing_byte(one: Path, other: Path) -> int | None:
    """Where two files differ first; None if they are the same."""
    with one.open("rb") as left, other.open("rb") as right:
        for offset in itertools.count(step=_CHUNK_BYTES):
            first, second = left.read(_CHUNK_BYTES), right.read(_CHUNK_BYTES)
            if first != second:
                pairs = itertools.zip_longest(first, second)
                return offset + next(i for i, pair in enumerate(pairs) if pair[0] != pair[1])
            if not first:
                return None
    raise AssertionError("Files end.")


def _compare_folders(name: str, calm: Path, disturbed: Path, tolerance: float) -> Comparison:
    before, after = _files_below(calm), _files_below(disturbed)
    if missing := sorted(before - after):
        return Comparison(name=name, difference=f"{str(missing[0])!r} is not in it")
    if surplus := sorted(after - before):
        return Comparison(name=name, difference=f"{str(surplus[0])!r} is in it too")
    how = "bit for bit"
    for path in sorted(before):
        found = compare(str(path), calm / path, disturbed / path, tolerance=tolerance)
        if found.difference is not None:
            said = f"{str(path)!r}: {found.difference}"
            return Comparison(name=name, how=found.how, difference=said, torn=found.torn)
        how = found.how if found.how != "bit for bit" else how
    return Comparison(name=name, how=how)


def _files_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def _compare_rows(
    name: str, calm: Path, disturbed: Path, tolerance: float, key: str | None
) -> Comparison:
    selection = parse_address(name).selection
    expected = read_tables(calm, selection)
    try:
        found = {table.name: table for table in read_tables(disturbed, selection)}
    except rows.Torn as reason:
        return Comparison(name=name, torn=str(reason), difference=f"it is torn: {reason}")
    differences = []
    for table in expected:
        # The legs may have given the file different names, but not the table.
        other = found.get(table.name.replace(calm.name, disturbed.name, 1))
        if other is None:
            return Comparison(name=name, how="by rows", difference=f"{table.name!r} is missing")
        differences.append(
            compare_items(
                table, other, key=key, same=lambda one, other: agree(one, other, tolerance)
            )
        )
    return Comparison(
        name=name,
        how="by rows" if not tolerance else f"by rows, within {tolerance:g}",
        difference=next(filter(None, map(_said_of_items, differences)), None),
        items=tuple(differences),
    )


def _said_of_items(items: ItemDifference) -> str | None:
    if items.lost or items.doubled:
        return f"{items.lost} of {items.items} items are missing, {items.doubled} are there twice"
    return items.changed


def _compare_contents(
    name: str, calm: Path, disturbed: Path, tolerance: float, offset: int
) -> Comparison:
    # Only here, because it takes a while to import and most files are the same.
    import zipfile
    import zlib

    odd = (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError)
    how = f"within {tolerance:g}" if tolerance else "by content"
    suffix = calm.suffix.lower()
    try:
        if suffix == ".json":
            left, right = (json.loads(path.read_bytes()) for path in (calm, disturbed))
            found = first_difference(left, right, tolerance)
        elif suffix in (".npz", ".npy"):
            found = _first_differing_array(calm, disturbed, tolerance)
        elif suffix == ".safetensors" and tolerance:
            found = _first_differing_tensor(calm, disturbed, tolerance)
        elif zipfile.is_zipfile(calm) and zipfile.is_zipfile(disturbed):
            found = _first_differing_member(calm, disturbed)
        elif suffix in _PICKLES and same_pickles(calm.read_bytes(), disturbed.read_bytes()):
            found = None
        elif suffix in _TEXTS:
            found = _first_differing_line(calm, disturbed, tolerance)
        else:
            found = f"it differs from byte {offset} on"
    except (*odd, zipfile.BadZipFile, zlib.error):
        # It is not what its name says, so that only its bits can be compared.
        found = f"it differs from byte {offset} on"
    return Comparison(name=name, how=how, difference=found)


def _first_differing_line(calm: Path, disturbed: Path, tolerance: float) -> str | None:
    whole, found = (path.read_bytes().decode() for path in (calm, disturbed))
    before, after = (text.removesuffix("\n").split("\n") for text in (whole, found))
    for number, (one, other) in enumerate(zip(before, after, strict=False), start=1):
        words = list(zip(one.split(), other.split(), strict=False))
        same = len(one.split()) == len(other.split()) and bool(tolerance)
        if one != other and not (same and all(agree(a, b, tolerance) for a, b in words)):
            return f"line {number} is {other[:60]!r}, not {one[:60]!r}"
    if len(before) != len(after):
        return f"it has {len(after)} lines, not {len(before)}"
    if whole.endswith("\n") != found.endswith("\n"):
        return "only one of them has an end of line at its end"
    return None


def _first_differing_member(calm: Path, disturbed: Path) -> str | None:
    """Archives carry dates, so two of the same content may differ in their bits."""
    import zipfile

    with zipfile.ZipFile(calm) as left, zipfile.ZipFile(disturbed) as right:
        before, after = _members(left), _members(right)
        if sorted(before) != sorted(after):
            return "the two archives do not hold the same members"
        for name in sorted(before):
            one, other = left.read(before[name]), right.read(after[name])
            same = same_pickles(one, other) if name.endswith(_PICKLES) else one == other
            if not same:
                return f"its member {name!r} differs"
    return None


def _members(archive: "zipfile.ZipFile") -> dict[str, str]:
    """The members by the names to compare them by.

    In a checkpoint of torch all lie below the name that the file had when it was written, which may
    be a temporary one. The hash that torch keeps beside them is one of how they were written.
    """
    names = archive.namelist()
    roots = {name.partition("/")[0] for name in names}
    if len(roots) > 1 or f"{min(roots, default='')}/{_TORCH_PICKLE}" not in names:
        return {name: name for name in names}
    members = {name.partition("/")[2]: name for name in names}
    members.pop(_TORCH_ID, None)
    return members


def _first_differing_array(calm: Path, disturbed: Path, tolerance: float) -> str | None:
    import numpy as np

    left, right = (np.load(path, allow_pickle=False) for path in (calm, disturbed))
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return _differing_array("it", left, right, tolerance)
    with left, right:
        if sorted(left) != sorted(right):
            return "the two do not hold the same arrays"
        return _first(
            _differing_array(f"its array {name!r}", left[name], right[name], tolerance)
            for name in sorted(left)
        )


def _first_differing_tensor(calm: Path, disturbed: Path, tolerance: float) -> str | None:
    left, right = (dict(_tensors(path)) for path in (calm, disturbed))
    if sorted(left) != sorted(right):
        return "the two do not hold the same tensors"
    return _first(
        _differing_array(f"its tensor {name!r}", left[name], right[name], tolerance)
        for name in sorted(left)
    )


def _tensors(path: Path) -> Iterator[tuple[str, Any]]:
    import numpy as np

    kinds = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "U8": "u1"}
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    for name, entry in json.loads(data[8:start]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            raw = data[start + first : start + last]
            # A kind that NumPy has no numbers for is compared by its bytes, which are no numbers.
            yield name, np.frombuffer(raw, kinds.get(entry["dtype"], "V1"))


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
            # Floats round large integers. Without a sign, a difference wraps to the right one.
            large, small = np.maximum(one, other), np.minimum(one, other)
            distance = large.astype(np.uint64) - small.astype(np.uint64)
        near = distance <= tolerance * np.maximum(1.0, np.maximum(abs(left), abs(right)))
    return near & np.isfinite(left) & np.isfinite(right)


def _first(found: Iterator[str | None]) -> str | None:
    return next((one for one in found if one is not None), None)
