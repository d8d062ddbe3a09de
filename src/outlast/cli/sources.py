"""Items from what people have: JSONL, CSV, folders of files, standard input.

Reads only, one line at a time. What cannot be published is given as a `Bad` with its place, and
reading goes on, so that one run tells of every mistake.
"""

import csv
import hashlib
import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from outlast.queue.errors import ItemRefused
from outlast.queue.items import Item

STDIN = "-"
LINE_BYTES_MAX = 8 * 1024**2
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Bad(NamedTuple):
    """Something that cannot be published, and where it stands."""

    where: str
    what: str


class Sourced(NamedTuple):
    """An item, and where it stands."""

    where: str
    item: Item


class _Record(NamedTuple):
    where: str
    value: Any
    own_key: str | None = None


def read_items(sources: Sequence[str], key_field: str | None) -> Iterator[Sourced | Bad]:
    """Every item of these files and folders, with its key from a field.

    Without one, the key of a file in a folder is its path in there, and that of anything else a
    hash of its content.
    """
    for source in sources:
        for record in _records(source):
            yield record if isinstance(record, Bad) else _keyed(record, key_field)


def _records(source: str) -> Iterator[_Record | Bad]:
    path = Path(source)
    if source != STDIN and path.is_dir():
        yield from _files_below(path)
        return
    try:
        if source == STDIN:
            yield from _json_lines("standard input", sys.stdin.buffer)
            return
        with path.open("rb") as file:
            is_csv = path.suffix.lower() == ".csv"
            yield from (_csv_rows if is_csv else _json_lines)(source, file)
    except OSError as error:
        yield Bad(source, f"It cannot be read: {error.strerror or error}.")


def _files_below(folder: Path) -> Iterator[_Record | Bad]:
    problems: list[OSError] = []
    for parent, folders, files in os.walk(folder, onerror=problems.append):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(parent, name)
            if not name.startswith(".") and path.is_file():
                own_key = path.relative_to(folder).as_posix()
                yield _Record(str(path), {"path": str(path)}, own_key)
    for error in problems:
        yield Bad(str(error.filename), f"It cannot be read: {error.strerror}.")


def _json_lines(name: str, file: BinaryIO) -> Iterator[_Record | Bad]:
    for number, line in _lines(file):
        where = f"{name}:{number}"
        if isinstance(line, Bad):
            yield Bad(where, line.what)
        elif line.strip():
            try:
                yield _Record(where, json.loads(line))
            except (ValueError, RecursionError) as error:
                yield Bad(where, f"The line is not JSON: {error}.")


def _csv_rows(name: str, file: BinaryIO) -> Iterator[_Record | Bad]:
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
                if len(set(names)) < len(names) or "" in names:
                    yield Bad(where, "The heading names a column twice, or not at all.")
                    return
            elif len(row) != len(names):
                yield Bad(where, f"The row has {len(row)} fields, the heading {len(names)}.")
            else:
                yield _Record(where, dict(zip(names, row, strict=True)))
    except (csv.Error, _Unreadable) as error:
        yield Bad(f"{name}:{max(first_line, reader.line_num)}", f"The row is not CSV: {error}.")


class _Unreadable(Exception):
    pass


def _text_or_raise(file: BinaryIO) -> Iterator[str]:
    for _, line in _lines(file):
        if isinstance(line, Bad):
            # A row may span lines, so that nothing after this one can be trusted.
            raise _Unreadable(line.what.rstrip("."))
        yield line


def _lines(file: BinaryIO) -> Iterator[tuple[int, str | Bad]]:
    """The lines with their numbers, none of them held in memory beyond its size limit."""
    number = 0
    while line := file.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            while line and not line.endswith(b"\n"):
                line = file.readline(LINE_BYTES_MAX)
            limit = LINE_BYTES_MAX // 1024**2
            yield number, Bad("", f"It is longer than {limit} MiB; publish where the data is.")
            continue
        if number == 1:
            line = line.removeprefix(_BYTE_ORDER_MARK)
        try:
            yield number, line.decode()
        except UnicodeDecodeError as error:
            yield number, Bad("", f"It is not UTF-8 text at byte {error.start + 1}.")


def _keyed(record: _Record, field: str | None) -> Sourced | Bad:
    try:
        key = _key_of(record, field)
        return Sourced(record.where, Item.of(key, record.value))
    except (ItemRefused, _KeyMissing) as error:
        return Bad(record.where, str(error))


class _KeyMissing(Exception):
    pass


def _key_of(record: _Record, field: str | None) -> str:
    if field is None:
        return record.own_key or _hash_of(record.value)
    if not isinstance(record.value, dict):
        raise _KeyMissing(f"It is no object, so it has no field {field!r}.")
    if field not in record.value:
        raise _KeyMissing(f"It has no field {field!r} for its key.")
    key = record.value[field]
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise _KeyMissing(f"Its field {field!r} is {key!r:.100}; a key is text or a whole number.")
    return str(key)


def _hash_of(value: Any) -> str:
    # Sorted, because the order of an object's fields means nothing. What JSON cannot say gets any
    # key here: publishing refuses it.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
