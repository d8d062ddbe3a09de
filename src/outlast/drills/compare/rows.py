"""Files with one item per row: JSON lines, CSV and SQLite. Reads them; changes nothing.

An address is a path, optionally followed by `#` and a selection: columns of a JSON lines or CSV
file (`out.jsonl#id,score`), a table or a SELECT of a SQLite file (`jobs.db#results`).
"""

import contextlib
import csv
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from outlast.drills.errors import DrillError

if TYPE_CHECKING:
    import sqlite3

Cell: TypeAlias = str | int | float | bytes | None

_LINES = frozenset({".jsonl", ".ndjson"})
_CELLS = {".csv": ",", ".tsv": "\t"}
_DATABASES = frozenset({".db", ".sqlite", ".sqlite3"})
# Tables that this library keeps in a SQLite file, and the columns of its results.
_BOOKKEEPING = "outlast_"
_RESULT_COLUMNS = ("key", "result", "version", "token", "stored_at")
_FENCED_COLUMNS = (*_RESULT_COLUMNS, "queue", "epoch")
_RESULT_TABLES = (_RESULT_COLUMNS, _FENCED_COLUMNS)
_RESULT_PROPER = ("key", "result", "version")
_CELL_CHARACTERS_MAX = 2**31 - 1
_SQLITE_MAGIC = b"SQLite format 3\0"


class TornFile(Exception):
    """The file is incomplete or damaged: it cannot be read as its format."""


class FileSelection(NamedTuple):
    """A file and a selection from it; empty for all of it."""

    path: str
    selection: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Rows as tuples. `own_numbers` are columns that the storage numbers automatically."""

    name: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    own_numbers: frozenset[str] = frozenset()


def parse_address(text: str) -> FileSelection:
    path, mark, selection = text.partition("#")
    if mark and holds_rows(path):
        return FileSelection(path, selection.strip())
    return FileSelection(text, "")


def holds_rows(path: str) -> bool:
    return Path(path).suffix.lower() in {*_LINES, *_CELLS, *_DATABASES}


def read_tables(path: Path, selection: str) -> list[Table]:
    """The rows of a file. Raises `TornFile`, or `DrillError` if the selection does not exist."""
    suffix = path.suffix.lower()
    if suffix in _DATABASES:
        return _read_database(path, selection)
    try:
        if suffix in _LINES:
            table = _read_json_lines(path)
        else:
            table = _read_cells(path, _CELLS[suffix])
    except UnicodeDecodeError as error:
        raise TornFile(f"it is not text at byte {error.start}") from error
    except csv.Error as error:
        raise TornFile(str(error)) from error
    return [_select(table, selection)]


def _read_json_lines(path: Path) -> Table:
    objects: list[Mapping[str, object]] = []
    # Not splitlines(), which also splits at characters that may be in a JSON string.
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            raise TornFile(f"line {number} is not valid JSON") from None
        objects.append(found if isinstance(found, dict) else {"value": found})
    columns = tuple(dict.fromkeys(name for one in objects for name in one))
    rows = tuple(tuple(_cell(one.get(name)) for name in columns) for one in objects)
    return Table(name=path.name, columns=columns, rows=rows)


def _cell(value: object) -> Cell:
    if value is None or isinstance(value, str | int | float):
        return value
    return json.dumps(value, sort_keys=True)


def _read_cells(path: Path, delimiter: str) -> Table:
    csv.field_size_limit(_CELL_CHARACTERS_MAX)
    with path.open(encoding="utf-8", newline="") as file:
        rows = [tuple(row) for row in csv.reader(file, delimiter=delimiter) if row]
    columns: tuple[str, ...] = ()
    if rows and _is_header(rows[0]):
        columns = rows.pop(0)
    width = len(columns) or max(map(len, rows), default=0)
    for number, row in enumerate(rows, start=2 if columns else 1):
        if len(row) != width:
            raise TornFile(f"row {number} has {len(row)} cells, not {width}")
    columns = columns or tuple(f"column {number}" for number in range(1, width + 1))
    return Table(name=path.name, columns=columns, rows=tuple(rows))


def _is_header(row: Sequence[str]) -> bool:
    """Whether all cells are different names. pandas leaves the first one empty."""
    names = row[1:] if len(row) > 1 and not row[0] else row
    return len(set(row)) == len(row) and all(names) and not any(map(_is_number, names))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _select(table: Table, selection: str) -> Table:
    if not selection:
        return table
    names = [name.strip() for name in selection.split(",")]
    if missing := [name for name in names if name not in table.columns]:
        if not table.rows and not table.columns:
            return table
        raise DrillError(
            f"{table.name!r} has no column {missing[0]!r}.",
            hint=f"Its columns: {', '.join(table.columns)}.",
        )
    places = [table.columns.index(name) for name in names]
    rows = tuple(tuple(row[place] for place in places) for row in table.rows)
    return Table(name=table.name, columns=tuple(names), rows=rows)


def _read_database(path: Path, selection: str) -> list[Table]:
    with path.open("rb") as file:
        if file.read(len(_SQLITE_MAGIC)) != _SQLITE_MAGIC:
            raise TornFile("it is not a SQLite database")
    try:
        return _read_with(path, selection, "ro")
    except _NeedsRecovery:
        # A kill interrupted a transaction, and only a writer can roll it back.
        return _read_with(path, selection, "rw")


class _NeedsRecovery(Exception):
    pass


def _read_with(path: Path, selection: str, mode: str) -> list[Table]:
    # Only here, because the import is slow and most files are not databases.
    import sqlite3

    url = f"{path.absolute().as_uri()}?mode={mode}"
    with contextlib.closing(sqlite3.connect(url, uri=True, timeout=10)) as database:
        try:
            # The file comes from the command, so nothing in its schema may have side effects.
            database.execute("PRAGMA trusted_schema=OFF")
            database.execute("PRAGMA cell_size_check=ON")
            tables = [selection] if selection else _user_tables(database)
            return [_read_query(database, path, table) for table in tables]
        except sqlite3.OperationalError as error:
            if "readonly" in str(error) and mode == "ro":
                raise _NeedsRecovery from error
            raise DrillError(
                f"Cannot read {selection or path.name!r} from {path.name!r}: {error}.",
                hint="Name a table that exists at the end of the job, or a SELECT.",
            ) from error
        except sqlite3.DatabaseError as error:
            raise TornFile(str(error)) from error


def _user_tables(database: "sqlite3.Connection") -> list[str]:
    found = database.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' "
        "ESCAPE '\\' ORDER BY name"
    )
    return [name for (name,) in found if not name.startswith(_BOOKKEEPING)]


def _read_query(database: "sqlite3.Connection", path: Path, selection: str) -> Table:
    own_numbers: frozenset[str] = frozenset()
    if re.match(r"\s*select\b", selection, re.IGNORECASE):
        query = selection
    else:
        quoted = selection.replace('"', '""')
        query = f'SELECT * FROM "{quoted}"'
        own_numbers = _row_numbers(database, quoted)
    database.execute("PRAGMA query_only = ON")
    cursor = database.execute(query)
    columns = tuple(column[0] for column in cursor.description)
    name = f"{path.name}#{selection}"
    table = Table(name=name, columns=columns, rows=tuple(cursor), own_numbers=own_numbers)
    return _select(table, ",".join(_RESULT_PROPER)) if columns in _RESULT_TABLES else table


def _row_numbers(database: "sqlite3.Connection", quoted: str) -> frozenset[str]:
    """The column in which SQLite numbers the rows of a table, if it has one."""
    keys = [
        (name, kind)
        for _, name, kind, _, _, key in database.execute(f'PRAGMA table_info("{quoted}")')
        if key
    ]
    return frozenset({keys[0][0]} if len(keys) == 1 and keys[0][1].upper() == "INTEGER" else ())
