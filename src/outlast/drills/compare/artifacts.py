"""Compare the files of two runs by content.

Bit for bit first. If the bits differ: files of rows are compared row by row in any order (see
`items`), archives by their members, pickles by the content they describe, and JSON, text and arrays
value by value within the tolerance. Other files must have the same bits. Nothing is unpickled.
"""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from outlast.drills.compare import formats, rows
from outlast.drills.compare.items import ItemDifference, compare_items
from outlast.drills.compare.pickles import same_pickles
from outlast.drills.compare.rows import parse_address, read_tables
from outlast.drills.compare.values import (
    agree,
    archive_excess,
    first_difference,
    first_differing_array,
    first_differing_tensor,
)

if TYPE_CHECKING:
    import zipfile

_CHUNK_BYTES = 1024**2
_PICKLE_BYTES_MAX = 256 * 1024**2
_PICKLES = (".pkl", ".pickle")
_TORCH_PICKLE = "data.pkl"
_TORCH_ID = ".data/serialization_id"
_TEXTS = frozenset({".txt", ".log", ".md", ".yaml", ".yml", ".toml", ".xml", ".html", ""})


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """The comparison of one file. `difference` is None if the two agree; `how` is the method.

    Files of rows have `items`. `torn` is why the file of the run with evictions is incomplete.
    """

    name: str
    how: str = "bit for bit"
    difference: str | None = None
    missing: bool = False
    torn: str | None = None
    items: tuple[ItemDifference, ...] = ()


def compare(
    name: str, baseline: Path, evicted: Path, *, tolerance: float = 0.0, key: str | None = None
) -> Comparison:
    """Compare a file of the baseline with that of the run with evictions.

    `name` is the address given by the user. Raises `DrillError` if it selects something that does
    not exist.
    """
    if not evicted.exists():
        return Comparison(name=name, missing=True, difference="it is missing")
    if baseline.is_dir() and evicted.is_dir():
        return _compare_folders(name, baseline, evicted, tolerance)
    if evicted.is_dir() != baseline.is_dir():
        return Comparison(name=name, difference="one of them is a folder")
    address = parse_address(name)
    if rows.holds_rows(address.path):
        return _compare_rows(name, baseline, evicted, tolerance, key)
    offset = first_differing_byte(baseline, evicted)
    if offset is None:
        return Comparison(name=name)
    reason = formats.torn(evicted)
    if reason is not None and formats.torn(baseline) is None:
        return Comparison(name=name, torn=reason, difference=f"it is incomplete: {reason}")
    return _compare_contents(name, baseline, evicted, tolerance, offset)


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


def _compare_folders(name: str, baseline: Path, evicted: Path, tolerance: float) -> Comparison:
    before, after = _files_below(baseline), _files_below(evicted)
    if missing := sorted(before - after):
        return Comparison(name=name, difference=f"{str(missing[0])!r} is missing from it")
    if surplus := sorted(after - before):
        return Comparison(name=name, difference=f"{str(surplus[0])!r} is not in the baseline")
    how = "bit for bit"
    for path in sorted(before):
        found = compare(str(path), baseline / path, evicted / path, tolerance=tolerance)
        if found.difference is not None:
            said = f"{str(path)!r}: {found.difference}"
            return Comparison(name=name, how=found.how, difference=said, torn=found.torn)
        how = found.how if found.how != "bit for bit" else how
    return Comparison(name=name, how=how)


def _files_below(folder: Path) -> set[Path]:
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


def _compare_rows(
    name: str, baseline: Path, evicted: Path, tolerance: float, key: str | None
) -> Comparison:
    selection = parse_address(name).selection
    expected = read_tables(baseline, selection)
    try:
        found = {table.name: table for table in read_tables(evicted, selection)}
    except rows.TornFile as reason:
        return Comparison(name=name, torn=str(reason), difference=f"it is incomplete: {reason}")
    differences = []
    for table in expected:
        # The two files may have different names, but not their tables.
        other = found.get(table.name.replace(baseline.name, evicted.name, 1))
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
        return f"{items.lost} of {items.items} items are missing, {items.doubled} are duplicates"
    return items.changed


def _compare_contents(
    name: str, baseline: Path, evicted: Path, tolerance: float, offset: int
) -> Comparison:
    # Only here, because the imports are slow and most files are the same.
    import zipfile
    import zlib

    odd = (OSError, ValueError, KeyError, TypeError, EOFError, RuntimeError, MemoryError)
    how = f"within {tolerance:g}" if tolerance else "by content"
    suffix = baseline.suffix.lower()
    try:
        if suffix == ".json":
            left, right = (json.loads(path.read_bytes()) for path in (baseline, evicted))
            found = first_difference(left, right, tolerance)
        elif suffix in (".npz", ".npy"):
            found = first_differing_array(baseline, evicted, tolerance)
        elif suffix == ".safetensors":
            found = first_differing_tensor(baseline, evicted, tolerance)
        elif zipfile.is_zipfile(baseline) and zipfile.is_zipfile(evicted):
            found = _first_differing_member(baseline, evicted)
        elif suffix in _PICKLES and same_pickles(baseline.read_bytes(), evicted.read_bytes()):
            found = None
        elif suffix in _TEXTS:
            found = _first_differing_line(baseline, evicted, tolerance)
        else:
            found = f"it differs from byte {offset}"
    except (*odd, zipfile.BadZipFile, zlib.error):
        # It is not in the format of its name, so only its bits can be compared.
        found = f"it differs from byte {offset}"
    return Comparison(name=name, how=how, difference=found)


def _first_differing_line(baseline: Path, evicted: Path, tolerance: float) -> str | None:
    expected, found = (path.read_bytes().decode() for path in (baseline, evicted))
    before, after = (text.removesuffix("\n").split("\n") for text in (expected, found))
    for number, (one, other) in enumerate(zip(before, after, strict=False), start=1):
        words = list(zip(one.split(), other.split(), strict=False))
        same = len(one.split()) == len(other.split()) and bool(tolerance)
        if one != other and not (same and all(agree(a, b, tolerance) for a, b in words)):
            return f"line {number} is {other[:60]!r}, not {one[:60]!r}"
    if len(before) != len(after):
        return f"it has {len(after)} lines, not {len(before)}"
    if expected.endswith("\n") != found.endswith("\n"):
        return "only one of them ends with a newline"
    return None


def _first_differing_member(baseline: Path, evicted: Path) -> str | None:
    """Archives contain dates, so two with the same content may differ in their bits."""
    import zipfile

    with zipfile.ZipFile(baseline) as left, zipfile.ZipFile(evicted) as right:
        if (excess := archive_excess(left) or archive_excess(right)) is not None:
            return excess
        before, after = _members(left), _members(right)
        if sorted(before) != sorted(after):
            return "the two archives have different members"
        for name in sorted(before):
            if not _same_members(left, before[name], right, after[name]):
                return f"its member {name!r} differs"
    return None


def _same_members(left: "zipfile.ZipFile", one: str, right: "zipfile.ZipFile", other: str) -> bool:
    is_small = max(left.getinfo(one).file_size, right.getinfo(other).file_size) <= _PICKLE_BYTES_MAX
    if one.endswith(_PICKLES) and is_small:
        return same_pickles(left.read(one), right.read(other))
    with left.open(one) as baseline, right.open(other) as evicted:
        while data := baseline.read(_CHUNK_BYTES):
            if data != evicted.read(len(data)):
                return False
        return not evicted.read(1)


def _members(archive: "zipfile.ZipFile") -> dict[str, str]:
    """The members, by the names under which they are compared.

    In a PyTorch checkpoint their names start with the name that the file had when it was written,
    which may be a temporary one. The hash that PyTorch adds depends on how they were written.
    """
    names = archive.namelist()
    roots = {name.partition("/")[0] for name in names}
    if len(roots) > 1 or f"{min(roots, default='')}/{_TORCH_PICKLE}" not in names:
        return {name: name for name in names}
    members = {name.partition("/")[2]: name for name in names}
    members.pop(_TORCH_ID, None)
    return members
