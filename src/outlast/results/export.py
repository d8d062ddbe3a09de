"""Export all results of a sink to one file, as JSON lines or Parquet.

One row per key: `{"key": ..., "result": ...}`. In Parquet both are strings, and `result` is JSON,
because the results of a sink need not have the same structure. The file is written under a
temporary name and renamed when it is complete. A new file is private, as `OUTLAST_SHARE` says.
"""

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO

from outlast._base.batches import batched, text_bytes
from outlast._base.files import replacing
from outlast.errors import MissingExtra, OutlastError
from outlast.results.protocol import Result, Sink
from outlast.storage.settings import shared_mode

_ROWS_AT_ONCE = 10_000
_BYTES_AT_ONCE = 8 * 1024**2


class ExportFailed(OutlastError):
    """The results could not be exported. An existing file is unchanged."""


def export(sink: Sink, path: str | os.PathLike[str]) -> int:
    """Write all results, sorted by key, to a `.jsonl` or `.parquet` file. Returns their number.

    If killed: the file is unchanged, and a hidden file ending in `.new` may be left next to it.
    """
    target = Path(path)
    write = _WRITERS.get(target.suffix.lower())
    if write is None:
        raise ExportFailed(
            f"Unsupported export format: {target.name!r}.",
            hint=f"Use a file name ending in {' or '.join(_WRITERS)}.",
        )
    try:
        with replacing(target, mode=shared_mode(0o600)) as file:
            return write(sink.results(), file)
    except OSError as error:
        raise ExportFailed(
            f"Could not write the results to {str(target)!r}: {error.strerror or error}.",
            hint="Check the folder, its permissions and the free disk space.",
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
        raise MissingExtra("parquet", needed_for="Exporting to Parquet") from error
    schema = pyarrow.schema([("key", pyarrow.string()), ("result", pyarrow.string())])
    # Results rarely repeat and may be large, so a dictionary would only use memory.
    options = {"compression": "zstd", "use_dictionary": ["key"], "write_statistics": ["key"]}
    count = 0
    with parquet.ParquetWriter(file, schema, **options) as writer:
        for rows in batched(
            results,
            lambda row: text_bytes(*row),
            count_max=_ROWS_AT_ONCE,
            bytes_max=_BYTES_AT_ONCE,
        ):
            columns = [[row.key for row in rows], [row.payload for row in rows]]
            writer.write_table(pyarrow.table(columns, schema=schema))
            count += len(rows)
    return count


_WRITERS: dict[str, Callable[[Iterable[Result], IO[bytes]], int]] = {
    ".jsonl": _write_lines,
    ".parquet": _write_parquet,
}


def _one_line(result: Result) -> str:
    """The result as JSON on a single line."""
    if "\n" not in result.payload and "\r" not in result.payload:
        return result.payload
    try:
        return json.dumps(json.loads(result.payload), ensure_ascii=False)
    except (ValueError, RecursionError):
        raise ExportFailed(
            f"The result of {result.key!r} is not JSON.",
            hint="It was not stored by a worker. Fix or delete it, then export again.",
        ) from None
