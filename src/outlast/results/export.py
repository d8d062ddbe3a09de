"""Write every result of a sink into one file, as JSON lines or as Parquet.

One row per key: `{"key": ..., "result": ...}`. In Parquet both are text, and `result` is JSON: the
results of one sink need not have one shape. The file is written aside and renamed when it is whole.
"""

import json
import os
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path
from typing import IO

from outlast._base.files import replacing
from outlast.errors import OutlastError
from outlast.results.protocol import Result, Sink
from outlast.storage.errors import MissingExtra

_ROWS_AT_ONCE = 10_000


class ExportFailed(OutlastError):
    """A file of results could not be written. A file that was there before is as it was."""


def export(sink: Sink, path: str | os.PathLike[str]) -> int:
    """Write all results, by key, to a file that ends in `.jsonl` or `.parquet`; gives their number.

    If killed: the file is as it was before, and a hidden one that ends in `.new` may stay beside.
    """
    target = Path(path)
    write = _WRITERS.get(target.suffix.lower())
    if write is None:
        raise ExportFailed(
            f"Results cannot be written as {target.name!r}.",
            hint=f"Use a name that ends in {' or '.join(_WRITERS)}.",
        )
    try:
        with replacing(target) as file:
            return write(sink.results(), file)
    except OSError as error:
        raise ExportFailed(
            f"The results could not be written to {str(target)!r}: {error.strerror or error}.",
            hint="Check the folder, its permissions and the room on its disk.",
        ) from error


def _write_lines(results: Iterable[Result], file: IO[bytes]) -> int:
    count = 0
    for result in results:
        count += 1
        key = json.dumps(result.key, ensure_ascii=False)
        file.write(f'{{"key": {key}, "result": {_one_line(result)}}}\n'.encode())
    return count


def _write_parquet(results: Iterable[Result], file: IO[bytes]) -> int:
    try:
        import pyarrow  # type: ignore[import-untyped]  # it has no types
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtra("parquet", needed_for="A Parquet file") from error
    schema = pyarrow.schema([("key", pyarrow.string()), ("result", pyarrow.string())])
    source = iter(results)
    count = 0
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        while rows := list(islice(source, _ROWS_AT_ONCE)):
            columns = [[row.key for row in rows], [row.payload for row in rows]]
            writer.write_table(pyarrow.table(columns, schema=schema))
            count += len(rows)
    return count


_WRITERS: dict[str, Callable[[Iterable[Result], IO[bytes]], int]] = {
    ".jsonl": _write_lines,
    ".parquet": _write_parquet,
}


def _one_line(result: Result) -> str:
    """The result as JSON without a line break, whoever stored it."""
    if "\n" not in result.payload and "\r" not in result.payload:
        return result.payload
    try:
        return json.dumps(json.loads(result.payload), ensure_ascii=False)
    except (ValueError, RecursionError):
        raise ExportFailed(
            f"The result of {result.key!r} is not JSON.",
            hint="It was not stored by a worker. Correct it or delete it, then export again.",
        ) from None
