"""Read items from JSONL, CSV, folders of files, standard input, or iterables.

Reads one line at a time. An item that cannot be published becomes a `RejectedItem` with its
location, and reading continues, so that one run reports every problem.
"""

import csv
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from outlast.errors import OutlastError
from outlast.queue.errors import ItemRefused
from outlast.queue.items import Item

STDIN = "-"
LINE_BYTES_MAX = 8 * 1024**2
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_STDIN_NAME = "standard input"
_FIELDS_SHOWN = 10
_TOO_DEEP = (
    "The value is nested too deeply. Flatten it, or store it in a file and publish the path."
)
_BINARY_KINDS = {
    b"\x1f\x8b": "The file is compressed. Use: zcat FILE | outlast publish URL -",
    b"\x28\xb5\x2f\xfd": "The file is compressed. Use: zstdcat FILE | outlast publish URL -",
    b"PK\x03\x04": "The file is a ZIP archive. Unpack it and name the extracted files.",
    b"PAR1": "The file is Parquet. Convert it to JSONL or CSV.",
    b"SQLite format 3": "The file is a SQLite database. Export its rows to JSONL or CSV.",
    b"\xff\xfe": "The file is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 FILE",
    b"\xfe\xff": "The file is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 FILE",
}


class RejectedItem(NamedTuple):
    """An item that cannot be published, with its location and the reason."""

    where: str
    reason: str


class SourceWarning(NamedTuple):
    """A source that can be published, but may not be what was meant."""

    where: str
    reason: str


class SourcedItem(NamedTuple):
    """An item with its location."""

    where: str
    item: Item


class _Record(NamedTuple):
    where: str
    value: Any
    own_key: str | None = None


Found: TypeAlias = SourcedItem | RejectedItem | SourceWarning


def read_file(source: str, key_field: str | None) -> Iterator[Found]:
    """All items of a file or folder, or of standard input, with their keys from a field.

    Without a field, the key of a file in a folder is its relative path, and the key of any other
    item is a hash of its content.
    """
    first: _Record | RejectedItem | None = None
    count = 0
    for record in _records(source):
        first = first or record
        count += 1
        yield record if isinstance(record, RejectedItem) else _keyed(record, key_field)
    if (doubt := _doubt(first, count)) is not None:
        yield SourceWarning(_STDIN_NAME if source == STDIN else source, doubt)


def read_values(
    source: Mapping[str, Any] | Iterable[Any], key_field: str | None
) -> Iterator[Found]:
    """All items of a mapping, or of an iterable of items, of key and value tuples, or of values."""
    each = source.items() if isinstance(source, Mapping) else source
    for number, one in enumerate(each, start=1):
        where = f"item {number}"
        if isinstance(one, Item):
            yield SourcedItem(where, one)
        elif isinstance(one, tuple):
            yield _made(where, one)
        else:
            yield _keyed(_Record(where, one), key_field)


def _made(where: str, pair: tuple[Any, ...]) -> SourcedItem | RejectedItem:
    if len(pair) != 2:
        reason = f"Expected a tuple of key and value, got {len(pair)} values."
        return RejectedItem(where, reason)
    try:
        return SourcedItem(where, Item.of(*pair))
    except ItemRefused as error:
        return RejectedItem(where, on_one_line(error))


def on_one_line(error: OutlastError) -> str:
    """An error with its hint, on one line."""
    return f"{error} {error.hint or ''}".rstrip()


def _doubt(first: _Record | RejectedItem | None, count: int) -> str | None:
    """Why the contents of a file or folder may not be what was meant."""
    if first is None:
        return "It contains no items."
    if isinstance(first, RejectedItem):
        return None
    if first.own_key is not None and first.own_key.lower().endswith((".jsonl", ".csv")):
        return "Each file in this folder is one item. To publish their lines, name the files."
    if count == 1 and isinstance(first.value, list):
        return "The array is a single item. For one item per element, use jq -c '.[]' first."
    return None


def _records(source: str) -> Iterator[_Record | RejectedItem]:
    path = Path(source)
    if source != STDIN and path.is_dir():
        yield from _files_below(path)
        return
    try:
        if source == STDIN:
            yield from _json_lines(_STDIN_NAME, sys.stdin.buffer)
            return
        with path.open("rb") as file:
            is_csv = path.suffix.lower() == ".csv"
            yield from (_csv_rows if is_csv else _json_lines)(source, file)
    except OSError as error:
        yield RejectedItem(source, f"Could not read the file: {error.strerror or error}.")


def _files_below(folder: Path) -> Iterator[_Record | RejectedItem]:
    problems: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=problems.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(parent, name)
            if not name.startswith(".") and path.is_file():
                own_key = path.relative_to(folder).as_posix()
                yield _Record(str(path), {"path": str(path)}, own_key)
    for error in problems:
        yield RejectedItem(str(error.filename), f"Could not read the folder: {error.strerror}.")


def _json_lines(name: str, file: BinaryIO) -> Iterator[_Record | RejectedItem]:
    is_first = True
    try:
        for number, line in _lines(file):
            where = f"{name}:{number}"
            if isinstance(line, RejectedItem):
                yield RejectedItem(where, line.reason)
            elif line.strip():
                found = _json_record(where, line)
                if is_first and isinstance(found, RejectedItem) and (kind := _kind_of(name, line)):
                    # All its lines would be rejected for the same reason.
                    yield RejectedItem(where, kind)
                    return
                yield found
                is_first = False
    except _Unreadable as error:
        yield RejectedItem(f"{name}:1", str(error))


def _json_record(where: str, line: str) -> _Record | RejectedItem:
    try:
        value = _DECODER.decode(line)
        return _Record(where, value)
    except json.JSONDecodeError as error:
        return RejectedItem(where, f"The line is not JSON: {error.msg} at column {error.colno}.")
    except _Refused as error:
        return RejectedItem(where, str(error))
    except RecursionError:
        return RejectedItem(where, _TOO_DEEP)
    except ValueError as error:
        return RejectedItem(where, f"The line is not JSON: {error}.")


class _Refused(Exception):
    """Accepted by Python's decoder, but cannot be published unchanged."""


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = _repeated(name for name, _ in pairs)
        raise _Refused(f"The field {twice!r:.100} occurs twice in one object. Remove one of them.")
    return found


def _refuse_constant(name: str) -> None:
    raise _Refused(f"{name} is not valid JSON. Use null or a string instead.")


_DECODER = json.JSONDecoder(object_pairs_hook=_object_of, parse_constant=_refuse_constant)


def _kind_of(name: str, line: str) -> str | None:
    """What kind of file it seems to be, given a first line that is not JSON."""
    start = line.strip()
    shown = "FILE" if name == _STDIN_NAME else name
    if start in ("[", "{") or start.startswith("[{"):
        return (
            "The file is not JSONL: a JSON value spans several lines. Write one item per line. For "
            f"an array, use `jq -c '.[]' {shown}`."
        )
    if start[0] not in '{["':
        return (
            "The line is not JSON. JSONL has one JSON value per line. If the file is CSV, its name "
            "must end in .csv."
        )
    return None


def _csv_rows(name: str, file: BinaryIO) -> Iterator[_Record | RejectedItem]:
    csv.field_size_limit(LINE_BYTES_MAX)
    reader = csv.reader(_text_or_raise(file), strict=True)
    names: list[str] | None = None
    first_line = 1
    try:
        for row in reader:
            where = f"{name}:{first_line}"
            first_line = reader.line_num + 1
            if not row:
                continue
            if names is None:
                names = row
                if (problem := _heading_problem(names)) is not None:
                    yield RejectedItem(where, problem)
                    return
            elif len(row) != len(names):
                yield RejectedItem(
                    where,
                    f"The row has {len(row)} fields, but the header has {len(names)}. "
                    "Put values that contain commas in double quotes.",
                )
            else:
                yield _Record(where, dict(zip(names, row, strict=True)))
    except csv.Error as error:
        yield RejectedItem(
            f"{name}:{max(first_line, reader.line_num)}", f"The row is not valid CSV: {error}."
        )
    except _Unreadable as error:
        yield RejectedItem(f"{name}:{max(first_line, reader.line_num)}", str(error))


def _heading_problem(names: list[str]) -> str | None:
    if names[0].lstrip().startswith(("{", "[")):
        return "The header looks like JSON. If the file is JSONL, its name must end in .jsonl."
    if len(names) == 1 and (found := [sign for sign in ";\t|" if sign in names[0]]):
        return f"The columns are separated by {found[0]!r}. Use commas instead."
    if "" in names:
        return f"Column {names.index('') + 1} has no name in the header. Name every column."
    if (twice := _repeated(names)) is not None:
        return f"The header names the column {twice!r:.100} twice. Rename one of them."
    return None


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


class _Unreadable(Exception):
    """The rest of the file cannot be read."""


def _text_or_raise(file: BinaryIO) -> Iterator[str]:
    for _, line in _lines(file):
        if isinstance(line, RejectedItem):
            # A row may span lines, so nothing after this line can be trusted.
            raise _Unreadable(line.reason)
        yield line


def _lines(file: BinaryIO) -> Iterator[tuple[int, str | RejectedItem]]:
    """The lines with their numbers. No more than the size limit of a line is kept in memory."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if number == 1 and (what := _binary_kind(line)) is not None:
            raise _Unreadable(what)
        if len(line) > LINE_BYTES_MAX:
            while line and not line.endswith(b"\n"):
                line = file.readline(LINE_BYTES_MAX)
            limit = LINE_BYTES_MAX // 1024**2
            what = (
                f"The line is longer than {limit} MiB. Store the data in a file or bucket, and "
                "publish its path or URL."
            )
            yield number, RejectedItem("", what)
            continue
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            what = f"The line is not UTF-8 text at byte {error.start + 1}. Convert it to UTF-8."
            yield number, RejectedItem("", what)


def _binary_kind(start: bytes) -> str | None:
    """What kind of binary file starts with these bytes, if any."""
    for magic, what in _BINARY_KINDS.items():
        if start.startswith(magic):
            return what
    return None


def _keyed(record: _Record, field: str | None) -> SourcedItem | RejectedItem:
    try:
        key = _key_of(record, field)
        return SourcedItem(record.where, Item.of(key, record.value))
    except ItemRefused as error:
        return RejectedItem(record.where, on_one_line(error))
    except _KeyMissing as error:
        return RejectedItem(record.where, str(error))
    except RecursionError:
        return RejectedItem(record.where, _TOO_DEEP)


class _KeyMissing(Exception):
    """An item has no valid value in the key field."""


def _key_of(record: _Record, field: str | None) -> str:
    if field is None:
        return record.own_key or _hash_of(record.value)
    if not isinstance(record.value, dict):
        raise _KeyMissing(f"The value is not an object, so it has no key field {field!r}.")
    if field not in record.value:
        fields = ", ".join(map(repr, list(record.value)[:_FIELDS_SHOWN])) or "none"
        raise _KeyMissing(f"No key field {field!r}. The fields are: {fields:.300}.")
    key = record.value[field]
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise _KeyMissing(f"The key field {field!r} is {key!r:.100}. Use a string or an integer.")
    return str(key)


def _hash_of(value: Any) -> str:
    # Sorted, because the order of an object's fields has no meaning. What JSON cannot represent
    # gets any key here: it is refused later.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
